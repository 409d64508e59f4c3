"""The worked examples, tested as an author would test workflows of their own: with the kit alone."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.guard import check
from engine.testing import Environment, survives
from workflows import WORKFLOWS
from workflows.documents import Batch, Unreadable, digest_documents
from workflows.expenses import Expense, Verdict, approve_expense, verdict
from workflows.orders import Approval, Order, OrderExpired, OrderRejected, approval, fulfil

ORDER = Order.model_validate(
    {"id": "o1", "customer": "Ada", "amount": "9.50", "items": [{"sku": sku, "quantity": 1} for sku in ("lamp", "rug")]}
)
EXPENSE = Expense.model_validate({"id": "e1", "employee": "Bob", "amount": "12"})


@pytest.fixture(autouse=True)
def _ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_FILE", str(tmp_path / "ledger.sqlite"))


def test_they_are_deterministic() -> None:
    """As far as their source tells."""
    assert check(WORKFLOWS) == []


async def order(env: Environment, approved: bool | None) -> Any:
    execution = await env.start(fulfil, ORDER)
    await env.settle()
    if approved is not None:
        await env.resolve(execution, approval, Approval(approved=approved, by="Eve"))
    return await env.finish(execution)


async def test_an_approved_order_is_shipped_whole() -> None:
    """The same receipt wherever the worker dies."""

    async def play(env: Environment) -> Any:
        receipt = (await order(env, True)).value()
        return receipt["paid"], receipt["approved_by"], [parcel["sku"] for parcel in receipt["parcels"]]

    assert await survives([fulfil], play) == ("9.50", "Eve", ["lamp", "rug"])
    async with Environment([fulfil], evict=True, workers=2) as env:
        assert (await play(env))[1] == "Eve"
        assert Counter(env.ran()) == Counter(["charge", "reserve", "ship", "ship#2"])


@pytest.mark.parametrize(("approved", "failure"), [(None, OrderExpired), (False, OrderRejected)])
async def test_an_order_that_comes_to_nothing_is_refunded(approved: bool | None, failure: type[Exception]) -> None:
    """Nobody answered in time, or somebody said no: a typed failure, and the money goes back once."""
    async with Environment([fulfil]) as env:
        env.fail("refund", ConnectionError("the bank is away"), times=2)
        status = await order(env, approved)
        with pytest.raises(failure, match="o1"):
            status.value()
        assert env.ran() == ["charge", "reserve", "refund", "refund", "refund"]


async def test_an_order_that_is_interrupted_is_refunded() -> None:
    """While it waits; and when a parcel can't be sent."""
    async with Environment([fulfil]) as env:
        execution = await env.start(fulfil, ORDER)
        await env.settle()
        await env.client.interrupt(execution)
        assert (await env.finish(execution)).outcome == "interrupted"
        assert env.ran() == ["charge", "reserve", "refund"]
    async with Environment([fulfil]) as env:
        env.fail("ship#2", ConnectionError("no carrier"), times=None)
        assert (await order(env, True)).outcome == "failed"
        assert env.ran()[-1] == "refund"


async def test_documents_that_cannot_be_read_spoil_nothing() -> None:
    """A typed failure isn't retried; an outage is."""
    async with Environment([digest_documents]) as env:
        env.fail("extract#2", ConnectionError("away"), times=2)
        env.fail("extract#3", Unreadable(document="c", reason="torn"))
        batch = Batch(night="2026-01-01", documents=["a-b", "b", "c", "d.broken"])
        summary = (await env.run(digest_documents, batch)).value()
        assert summary == {"done": 2, "words": 3, "unreadable": {"c": "torn", "d.broken": "not a document"}}
        assert Counter(env.ran())["extract#2"] == 3
        assert Counter(env.ran())["extract#3"] == 1
        assert env.ran()[-1] == "publish"


async def test_an_expense_is_reminded_of_until_somebody_answers() -> None:
    """Three days pass at once."""

    async def play(env: Environment) -> Any:
        execution = await env.start(approve_expense, EXPENSE)
        await env.settle()
        env.clock.advance(timedelta(days=1))
        await env.settle()
        await env.resolve(execution, verdict, Verdict(approved=True, by="Eve"))
        return (await env.finish(execution)).value()

    assert await survives([approve_expense], play) == {"approved": True, "by": "Eve", "reminders_sent": 1}
    async with Environment([approve_expense]) as env:
        status = await env.run(approve_expense, EXPENSE)
        assert status.value() == {"approved": False, "by": "nobody answered", "reminders_sent": 3}
        assert env.ran() == ["ask", "ask#2", "ask#3", "ask#4"]
