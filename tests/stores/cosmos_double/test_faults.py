"""Faults: what a rule matches, when it acts, what the client and the state see of it."""

import aiohttp
import pytest

from tests.cosmos_double import Answer, Call, CosmosDouble, CosmosError, Cut, Drop, ShortPage

from .support import DOCS, Raw, ids

ITEM = {"id": "a", "pk": "p"}


async def test_a_refusal_before_the_effect(raw: Raw, double: CosmosDouble) -> None:
    double.faults.add(Answer(503), kind="item", operation="create")
    assert (await raw.send("POST", DOCS, ITEM, pk="p")).status == 503
    assert double.container("app", "work").documents() == []
    entry = double.log[-1]
    assert (entry.status, entry.effect, entry.faults) == (503, None, ["Answer"])
    assert (await raw.send("POST", DOCS, ITEM, pk="p")).status == 201


async def test_a_refusal_after_the_effect(raw: Raw, double: CosmosDouble) -> None:
    double.faults.add(Answer(408, after_effect=True), kind="item")
    assert (await raw.send("POST", DOCS, ITEM, pk="p")).status == 408
    assert ids(double.container("app", "work").documents()) == ["a"]
    assert (double.log[-1].status, double.log[-1].effect) == (408, 201)
    assert double.log[-1].charge > 5


@pytest.mark.parametrize(
    ("action", "status", "substatus"),
    [
        (Answer(429, retry_after_ms=7), 429, 3200),
        (Answer(449), 449, 0),
        (Answer(410, 1002), 410, 1002),
        (Answer(404, 1002), 404, 1002),
        (Answer(500, message="boom"), 500, 0),
    ],
)
async def test_answers(raw: Raw, double: CosmosDouble, action: Answer, status: int, substatus: int) -> None:
    double.faults.add(action)
    reply = await raw.send("GET", f"{DOCS}/a", pk="p")
    assert (reply.status, reply.substatus) == (status, substatus)
    assert set(reply.json) == {"code", "message"}
    if status == 429:
        assert (reply.headers["x-ms-retry-after-ms"], reply.charge) == ("7", 0.38)
    if status == 500:
        assert "boom" in reply.message


async def test_a_drop_before_and_after_the_effect(raw: Raw, double: CosmosDouble) -> None:
    double.faults.add(Drop(), kind="item")
    double.faults.add(Drop(after_effect=True), kind="item", nth=2)
    for stored in ([], ["a"]):
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await raw.send("POST", DOCS, ITEM, pk="p")
        assert ids(double.container("app", "work").documents()) == stored
    assert [(entry.status, entry.effect) for entry in double.log] == [(None, None), (None, 201)]


async def test_an_answer_that_breaks_off(raw: Raw, double: CosmosDouble) -> None:
    double.faults.add(Cut(), kind="item")
    with pytest.raises(aiohttp.ClientPayloadError):
        await raw.send("POST", DOCS, ITEM, pk="p")
    assert ids(double.container("app", "work").documents()) == ["a"]
    assert (await raw.send("GET", f"{DOCS}/a", pk="p")).status == 200


async def test_call_runs_code_of_the_test(raw: Raw, double: CosmosDouble) -> None:
    seen = []

    async def rival(request: object) -> None:
        seen.append(request)
        await raw.send("DELETE", f"{DOCS}/a", pk="p")

    def refuse(request: object) -> None:
        raise CosmosError(403, "no")

    await raw.send("POST", DOCS, ITEM, pk="p")
    double.faults.add(Call(rival), kind="item", operation="replace")
    assert (await raw.send("PUT", f"{DOCS}/a", ITEM, pk="p")).status == 404
    assert [request.id for request in seen] == ["a"]  # type: ignore[attr-defined]
    double.faults.add(Call(refuse))
    assert (await raw.send("GET", f"{DOCS}/a", pk="p")).status == 403


async def test_rules_count_what_they_match(raw: Raw, double: CosmosDouble) -> None:
    rule = double.faults.add(
        Answer(500), kind="item", method="POST", when=lambda request: request.body["n"] % 2 == 0, nth=2, times=2
    )
    statuses = [(await raw.send("POST", DOCS, {"id": str(n), "pk": "p", "n": n}, pk="p")).status for n in range(10)]
    assert statuses == [201, 201, 500, 201, 500, 201, 201, 201, 201, 201]
    assert (rule.seen, rule.fired) == (5, 2)


async def test_a_predicate_sees_what_the_request_is_about(raw: Raw, double: CosmosDouble) -> None:
    seen = []  # type: ignore[var-annotated]
    double.faults.add(Call(seen.append), times=None)
    await raw.send("POST", DOCS, ITEM, pk="p")
    await raw.query("SELECT * FROM c", pk="p")
    await raw.send("GET", "/dbs/app/colls/work/pkranges")
    found = [(r.kind, r.operation, r.database, r.container, r.id, r.partition_key) for r in seen]
    assert found == [
        ("item", "create", "app", "work", "a", "p"),
        ("query", "query", "app", "work", None, "p"),
        ("pkranges", "read", "app", "work", None, None),
    ]


async def test_short_pages(raw: Raw, double: CosmosDouble) -> None:
    await raw.send("POST", DOCS, ITEM, pk="p")
    double.faults.add(ShortPage(0), kind="query")
    empty = await raw.query("SELECT * FROM c", pk="p")
    assert empty.json["Documents"] == []
    rest = await raw.query("SELECT * FROM c", pk="p", x_ms_continuation=empty.headers["x-ms-continuation"])
    assert ids(rest.json["Documents"]) == ["a"]
