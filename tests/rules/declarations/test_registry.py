"""An app is composed of what the code of its workflows can reach. What can't work is refused there, with its places."""

from __future__ import annotations

import importlib

import pytest

from engine import Runtime
from engine.core.registry import Registry
from tests.rules.declarations.app import App, place
from tests.support.crashes import echo

# -- workflows --


def test_two_workflows_of_one_name_are_refused(app: App) -> None:
    """In the list, and where one of them is a child. The same one may come twice: lists of modules are joined."""
    source = "from shop import mail\n@workflow\nasync def sell() -> None: ...\n"
    child = "@workflow\nasync def calls() -> None: await mail.sell()\n"
    module = app(orders=source + child, mail="@workflow\nasync def sell() -> None: ...\n")
    other = importlib.import_module("shop.mail").sell
    places = f"at {place(module, 'orders', 3)} and at {place(module, 'mail', 2)}"
    for workflows in ([module.sell, other], [module.sell, module.calls]):
        with pytest.raises(ValueError, match=f"workflow 'sell' version '1' is declared twice, {places}"):
            Registry(workflows)
    assert Registry([module.sell, module.sell]).names() == ["sell"]


def test_a_child_that_is_not_in_the_list_is_refused(app: App) -> None:
    """Also a child's child, and a start that nobody waits for. Its plain function isn't a child."""
    module = app(
        orders="""
        from shop.children import pack, deliver
        @workflow
        async def sell() -> None: await pack()
        @workflow
        async def tries(pack: str) -> None:
            def shares_the_variable(): return pack
            await deliver.function()
        """,
        children="""
        @workflow
        async def deliver() -> None: ...
        @workflow
        async def pack() -> None: await deliver.start()
        """,
    )
    children = importlib.import_module("shop.children")
    by = f"is called by sell \\({place(module, 'orders', 4)}\\)"
    with pytest.raises(ValueError, match=f"'pack' version '1' \\({place(module, 'children', 5)}\\) {by}"):
        Registry([module.sell])
    with pytest.raises(ValueError, match=r"'deliver' version '1' .* is called by pack .* add it to WORKFLOWS"):
        Registry([module.sell, children.pack])
    assert Registry([module.tries]).names() == ["tries"]
    assert Registry([module.sell, children.pack], declares=[children.deliver]).names() == ["pack", "sell"]


# -- annotations --

BROKEN = {
    "only for type checkers": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n from decimal import Decimal as Money\n"
        "@activity\nasync def pay(amount: Money) -> None: ...\n",
        r"orders\.py:5: activity pay: the annotation 'Money' can't be resolved.* TYPE_CHECKING",
    ),
    "a class in a function": (
        "def made():\n class Money: pass\n @activity\n async def pay(amount: Money) -> None: ...\n return pay\n"
        "pay = made()\n",
        r"orders\.py:4: activity pay: the annotation 'Money' can't be resolved.* not inside of a function",
    ),
    "a misspelt attribute": (
        "import decimal\n@activity\nasync def pay(amount: decimal.Money) -> None: ...\n",
        r"orders\.py:3: activity pay: an annotation can't be resolved: .*Money",
    ),
    "no type": (
        "@activity\nasync def pay(amount: 3) -> None: ...\n",
        r"orders\.py:2: argument 'amount' of activity pay: 3 can't be stored",
    ),
    "what can't be stored": (
        "import threading\n@activity\nasync def pay(lock: threading.Thread) -> None: ...\n",
        r"orders\.py:3: argument 'lock' of activity pay: Thread can't be stored",
    ),
    "a result": (
        "import threading\n@activity\nasync def pay() -> list[threading.Thread]: ...\n",
        r"orders\.py:3: the result of activity pay: list.* can't be stored",
    ),
    "a child's payload": (
        "@workflow\nasync def pay(amount: Money) -> None: ...\n",
        r"orders\.py:2: workflow pay: the annotation 'Money' can't be resolved",
    ),
    "a failure": (
        "class Poor(Failure):\n amount: Money\nasync def pay(): raise Poor(amount=3)\n",
        r"orders\.py:2: failure Poor: .*'Money'",
    ),
    "a failure that only its activity raises": (
        "class Poor(Failure):\n amount: Money\n@activity\nasync def pay() -> None: raise Poor(amount=3)\n",
        r"orders\.py:2: failure Poor: .*'Money'",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_an_annotation_that_cannot_be_used_fails_the_start(app: App, how: str) -> None:
    """Not the first call. File, line and reason are named."""
    source, words = BROKEN[how]
    source = f"{source}\n@workflow\nasync def sell() -> None: await pay()\n"
    module = app(orders=source)
    with pytest.raises(TypeError, match=words):
        Registry([module.sell, *([module.pay] if how == "a child's payload" else [])])


def test_annotations_that_resolve_later_are_fine(app: App) -> None:
    """Under the future import: models further down, generic ones, forward references, methods in attributes."""
    source = """
        from pydantic import BaseModel
        from typing import Generic, TypeVar
        T = TypeVar("T")
        class Bank:
            def __init__(self): self.pay = activity(self._pay, name="pay") if False else activity(name="pay")(self._pay)
            async def _pay(self, order: Order, page: Page[Order]) -> "Page[Order]": return page
        class Page(BaseModel, Generic[T]):
            rows: list[T]
            next: Page[T] | None = None
        class Order(BaseModel):
            lines: list[Line]
        class Line(BaseModel):
            amount: int
        bank = Bank()
        @workflow
        async def sell(order: Order) -> Page[Order]: return await bank.pay(order, Page(rows=[order]))
        """
    module = app(orders=source)
    assert Registry([module.sell]).activity_names() == ["pay"]


def test_a_runtime_refuses_a_bad_declaration() -> None:
    """M3: the app must not start with a workflow that can't be run."""
    with pytest.raises(TypeError, match="list of workflows takes functions decorated"):
        Runtime([echo], lambda: None)  # type: ignore[list-item, arg-type, return-value]
