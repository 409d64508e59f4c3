"""A name means one thing in an app. Two activities, or two types, of one name are refused with both places."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field

from engine import Channel, Deferred, Runtime, workflow
from engine.core.registry import Registry
from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment
from tests.rules.declarations.app import MAIL, App, place

SELLS = "from shop import mail, sms\n@workflow\nasync def sell() -> None:\n await mail.send('a'); await sms.send('a')\n"


def test_two_activities_of_one_name_are_refused(app: App) -> None:
    """N17: two modules with an `async def send` each. Both places are named."""
    module = app(orders=SELLS, mail=MAIL, sms="\n" + MAIL)
    places = f"{place(module, 'mail', 2)} and at {place(module, 'sms', 3)}"
    with pytest.raises(ValueError, match=f"activity 'send' is declared twice, at {places}; .* name of its own"):
        Runtime([module.sell], lambda: SqliteStore(":memory:"))


def test_one_function_is_one_activity_however_often_it_is_decorated(app: App) -> None:
    """The same function, the same bound method: under other options too. Another instance's method is another one."""
    source = """
        from datetime import timedelta
        from shop.plain import pay, Bank
        bank = Bank()
        one, other = activity(pay), activity(timeout=timedelta(seconds=1))(pay)
        first, second = activity(bank.transfer), activity(bank.transfer)
        @workflow
        async def sell() -> None: await one(); await other(); await first(); await second()
        third = activity(Bank().transfer)
        @workflow
        async def sell_twice() -> None: await first(); await third()
        """
    plain = "async def pay() -> None: ...\nclass Bank:\n async def transfer(self) -> None: ...\n"
    module = app(orders=source, plain=plain)
    assert Registry([module.sell]).activity_names() == ["pay", "transfer"]
    with pytest.raises(ValueError, match="activity 'transfer' is declared twice"):
        Registry([module.sell_twice])


def test_a_factory_that_makes_other_activities_each_time_is_refused(app: App) -> None:
    """There is one place, and several things."""
    source = """
        def seller(region: str):
            @activity
            async def charge() -> str: return region
            @workflow(name=f"sell.{region}")
            async def sell() -> str: return await charge()
            return sell
        SELLERS = [seller("eu"), seller("us")]
        """
    module = app(orders=source)
    with pytest.raises(ValueError, match=f"activity 'charge' is made several times at {place(module, 'orders', 4)}, "):
        Registry(module.SELLERS)


def test_what_code_names_comes_before_what_stands_beside_it(app: App) -> None:
    """Declarations of a test that share its module with others of their names."""
    source = """
        @activity
        async def charge() -> str: return "the app's"
        answer = Deferred("answer", int)
        def made():
            answer = Deferred("answer", str)
            @activity
            async def charge() -> str: return "the test's"
            @workflow
            async def sell() -> str: return await charge() + await answer
            return sell
        """
    registry = Registry([app(orders=source).made()])
    assert registry.activity_names() == ["charge"]
    found = registry.deferred("answer")
    assert found is not None
    assert found.type is str


class Fruit(BaseModel):
    name: str


def other_fruit() -> type[BaseModel]:
    class Fruit(BaseModel):
        name: str

    Fruit.__qualname__ = "Fruit"
    return Fruit


SAME: list[tuple[Any, Any]] = [
    (int, int),
    (Optional[int], int | None),  # noqa: UP045
    (int | str, str | int),
    (list[int | str], list[str | int]),
    (Annotated[int, Field(gt=1)], Annotated[int, Field(gt=1)]),
    (Literal["a", "b"], Literal["b", "a"]),
    (Any, object),
    (dict[str, Fruit], dict[str, Fruit]),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (int, str),
    (int, int | None),
    (list[int], list[str]),
    (list[int], set[int]),
    (Annotated[int, Field(gt=1)], Annotated[int, Field(gt=2)]),
    (Annotated[int, Field(gt=1)], int),
    (Any, int),
    (Fruit, other_fruit()),
    (list[Fruit], list[other_fruit()]),  # type: ignore[misc]
]


@pytest.mark.parametrize("kind", [Deferred, Channel])
@pytest.mark.parametrize(("one", "other"), SAME + DIFFERENT)
def test_a_name_means_one_type(kind: Any, one: Any, other: Any) -> None:
    """N17: types are compared as types, not by how they are written or called."""
    first, second = kind("registry.typed", one), kind("registry.typed", other)

    @workflow
    async def reads() -> None:
        print(first, second)

    if (one, other) in SAME:
        Registry([reads])
        return
    with pytest.raises(ValueError, match=r"'registry.typed' is declared with two types, .*: /\S+\.py:\d+ and /"):
        Registry([reads])


def test_a_name_may_be_used_by_another_app() -> None:
    """Nothing is known to the whole process."""
    for kind in (int, str):
        value = Deferred("registry.everywhere", kind)

        @workflow
        async def reads(value: Any = value) -> None:
            await value

        found = Registry([reads]).deferred("registry.everywhere")
        assert found is not None
        assert found.type is kind


vote = Deferred("registry.vote", bool)


@workflow
async def votes() -> list[bool]:
    return [await vote["ann"], await vote["b[o]b"]]


async def test_one_of_many_is_found_by_the_name_of_its_kind() -> None:
    """By its own name, over its token, and from one of them that stands alone."""
    async with Environment([votes]) as env:
        execution = (await env.start(votes)).execution_id
        await env.resolve(execution, "registry.vote[ann]", True)
        handle = env.client.handle(votes, execution)
        token = vote["b[o]b"].token_for(votes, key="k")
        assert token
        await handle.resolve("registry.vote[b[o]b]", False)
        assert (await env.finish(execution)).value() == [True, False]
        assert env.registry.deferred("registry.vote[") is None
        assert env.registry.deferred("other[ann]") is None
    alone, wrong = Deferred("registry.alone", bool)["ann"], Deferred("registry.alone", str)

    @workflow
    async def reads() -> None:
        await alone

    @workflow
    async def clashes() -> None:
        print(await alone, await wrong)

    assert Registry([reads]).deferred("registry.alone[ann]") is alone
    with pytest.raises(ValueError, match=r"'registry.alone\[ann\]' is declared with two types, str and bool"):
        Registry([clashes])


@pytest.mark.parametrize("kind", [Deferred, Channel])
async def test_a_client_uses_the_types_of_the_app(kind: Any) -> None:
    """A script that declares the name with another type is refused before anything is stored."""
    own = kind("registry.typed", bool)

    @workflow
    async def reads() -> bool:
        return bool(await (own if isinstance(own, Deferred) else own.receive()))

    async with Environment([reads]) as env:
        execution = (await env.start(reads)).execution_id
        give: Any = env.client.resolve if kind is Deferred else env.client.send
        with pytest.raises(TypeError, match=r"'registry\.typed' is declared with two types, bool and str: "):
            await give(execution, kind("registry.typed", str), "yes")
        await give(execution, kind("registry.typed", bool), True)
        assert (await env.finish(execution)).value() is True
