"""The model of request units, against the numbers that it is made from (see `charges`)."""

import pytest
from azure.cosmos.aio import ContainerProxy

from tests.cosmos_double import CosmosDouble, charges

from .support import DOCS, Raw


@pytest.mark.parametrize(
    ("model", "known"),
    [
        (charges.read(1024), 1.0),
        (charges.read(100 * 1024), 10.0),
        (charges.create(1024, 0), 5.5),
        (charges.create(100 * 1024, 0), 50.0),
        (charges.replace(1024, 0), 11.0),
        (charges.create(250, 4), 6.67),
        (charges.create(250, 5), 7.05),
        (charges.delete(250, 4), 6.67),
        (charges.replace(250, 1), 11.05),
        (charges.query(1, 250), 2.26),
        (charges.query(2500, 2500 * 250), 38.14),
    ],
)
def test_the_model_is_near_the_published_numbers(model: float, known: float):
    assert model == pytest.approx(known, rel=0.1)


async def test_charges_are_in_the_answer_and_in_the_log(work: ContainerProxy, raw: Raw, double: CosmosDouble):
    body = {"id": "a", "pk": "p", "n": 1, "s": "x"}
    created = await raw.send("POST", DOCS, body, pk="p")
    assert created.charge == pytest.approx(6.67, abs=0.2)
    replaced = await raw.send("PUT", f"{DOCS}/a", {**body, "n": 2}, pk="p")
    assert replaced.charge == pytest.approx(11.05, abs=0.3)
    assert (await raw.send("GET", f"{DOCS}/a", pk="p")).charge == 1.0
    assert double.log.charge(kind="item") == created.charge + replaced.charge + 1.0
    results = await work.execute_item_batch([("create", ({"id": n, "pk": "p"},)) for n in "bc"], "p")
    assert double.log[-1].charge == pytest.approx(sum(result["requestCharge"] for result in results))
