"""The order, from its start to its receipt, and what happens when nobody approves it. A day passes at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.guard import check
from engine.testing import Environment
from workflows import WORKFLOWS
from workflows.orders import Approval, Order, OrderExpired, approval, fulfil

ORDER = Order.model_validate(
    {"id": "o1", "customer": "Ada", "amount": "9.50", "items": [{"sku": "lamp", "quantity": 1}]}
)


@pytest.fixture(autouse=True)
def _ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_FILE", str(tmp_path / "ledger.sqlite"))


def test_workflows_are_deterministic() -> None:
    """The guard finds clocks, chance and input or output in the code of a workflow."""
    assert check(WORKFLOWS) == []


async def test_an_approved_order_is_shipped() -> None:
    async with Environment(WORKFLOWS) as env:
        execution = await env.start(fulfil, ORDER)
        await env.settle()
        await env.resolve(execution, approval, Approval(approved=True, by="Eve"))
        receipt = (await env.finish(execution)).value()
        assert receipt["approved_by"] == "Eve"
        assert env.ran() == ["charge", "reserve", "ship"]


async def test_an_order_that_nobody_approves_is_refunded() -> None:
    async with Environment(WORKFLOWS) as env:
        execution = await env.start(fulfil, ORDER)
        ended = await env.finish(execution)
        with pytest.raises(OrderExpired):
            ended.value()
        assert env.ran() == ["charge", "reserve", "refund"]
