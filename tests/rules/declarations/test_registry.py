"""An app is composed of what the code of its workflows can reach. What can't work is refused there, with its places."""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field

from engine import Channel, Client, Deferred, Runtime, activity, workflow
from engine.core.discovery import reach
from engine.core.registry import Registry
from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment, survives
from tests.support.crashes import echo

App = Callable[..., ModuleType]


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:  # type: ignore[misc]
    """Writes a package `shop` with these modules, and gives the one named first."""

    def write(**modules: str) -> ModuleType:
        package = tmp_path / "shop"
        package.mkdir()
        for name, source in modules.items():
            (package / f"{name}.py").write_text(HEAD + textwrap.dedent(source))
        monkeypatch.syspath_prepend(tmp_path)
        return importlib.import_module(f"shop.{next(iter(modules))}")

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


HEAD = "from __future__ import annotations; from engine import *\n"
MAIL = "@activity\nasync def send(to: str) -> None: ...\n"

WAYS = {
    "a global": "from shop.steps import step\n@workflow\nasync def sell() -> None: await step()",
    "an attribute of a module": "import shop.steps\n@workflow\nasync def sell() -> None: await shop.steps.step()",
    "a module under another name": "from shop import steps as s\n@workflow\nasync def sell() -> None: await s.step()",
    "an import inside": "@workflow\nasync def sell() -> None:\n from shop.steps import step\n await step()",
    "a module imported inside": "@workflow\nasync def sell() -> None:\n from . import steps\n await steps.step()",
    "a function inside": """
        from shop.steps import step
        @workflow
        async def sell() -> None:
            async def later(): return [await step() for _ in range(3)]
            await later()
        """,
    "a helper of another module": "from shop.helper import help\n@workflow\nasync def sell() -> None: await help()",
    "a closure": """
        from shop.steps import step
        def made(what):
            @workflow
            async def sell() -> None: await what()
            return sell
        sell = made(step)
        """,
    "a default argument": """
        from shop.steps import step
        async def help(*, what=step): await what()
        @workflow
        async def sell() -> None: await help()
        """,
    "a container": """
        from types import SimpleNamespace
        from shop.steps import step
        HANDLERS = {"sold": [("first", SimpleNamespace(run=step))]}
        @workflow
        async def sell() -> None: await HANDLERS["sold"][0][1].run()
        """,
    "a partial": """
        from functools import partial
        from shop.steps import step
        help = partial(print, step)
        @workflow
        async def sell() -> None: await help()
        """,
    "a decorated helper": """
        from functools import wraps
        from shop.steps import step
        def plainly(function):
            @wraps(function)
            async def wrapper(): return await function()
            return wrapper
        @plainly
        async def help(): await step()
        @workflow
        async def sell() -> None: await help()
        """,
    "an attribute of an instance": """
        from shop.steps import step
        class Service:
            def __init__(self, charge): self.charge = charge
        service = Service(step)
        @workflow
        async def sell() -> None: await service.charge()
        """,
    "an instance that is passed on": """
        from shop.steps import step
        class Service:
            def __init__(self, charge): self.charge = charge
        service = Service(step)
        async def help(given): await given.charge()
        @workflow
        async def sell() -> None:
            given = service
            await help(given)
        """,
    "a dispatch by type": """
        from functools import singledispatch
        from shop.steps import step
        @singledispatch
        async def help(what): ...
        @help.register
        async def _(what: int): await step()
        @workflow
        async def sell() -> None: await help(3)
        """,
    "a method of a class": """
        from shop.steps import step
        class Base:
            async def help(self): await step()
        class Sale(Base): pass
        @workflow
        async def sell() -> None: await Sale().help()
        """,
    "a compensation": """
        from shop.steps import step
        @workflow
        async def sell() -> None: compensate(step)
        """,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["activity", "workflow", "deferred", "channel"])
def test_what_code_reaches_belongs_to_the_app(app: App, way: str, kind: str) -> None:
    """N17: whatever way leads there; a workflow that is reached and isn't in the list is refused."""
    step = {
        "activity": "@activity\nasync def step() -> None: ...",
        "workflow": "@workflow\nasync def step() -> None: ...",
        "deferred": 'step = Deferred("step", int)',
        "channel": 'step = Channel("step", int)',
    }[kind]
    helper = "from shop.steps import step\nasync def help(): await step()"
    module = app(orders=WAYS[way], steps=step, helper=helper)
    if kind == "workflow":
        with pytest.raises(ValueError, match=r"workflow 'step' .*steps\.py:2.* isn't in the list of workflows"):
            Registry([module.sell])
        return
    registry = Registry([module.sell])
    found = {
        "activity": registry.activity_names,
        "deferred": registry.deferred_names,
        "channel": registry.channel_names,
    }
    assert found[kind]() == ["step"]


def test_what_stands_beside_in_a_visited_module_is_known(app: App) -> None:
    """A name that only running code makes: also in modules that refer to each other in a circle."""
    module = app(
        orders="""
        from shop import steps
        box = [Channel("orders.boxed", int)]
        @workflow
        async def sell(kind: str) -> None: await getattr(steps, kind)()
        """,
        steps="import shop.orders\n" + MAIL + 'later = Deferred("steps.later", int)\n',
    )
    registry = Registry([module.sell])
    assert registry.activity_names() == ["send"]
    assert registry.deferred_names() == ["steps.later"]
    assert registry.channel_names() == ["orders.boxed"]


def test_the_walk_stays_in_the_app(app: App) -> None:
    """Neither installed packages nor a proxy that can't be asked, nor a library's objects, are entered."""
    module = app(
        orders="""
        import logging, pydantic, pytest
        class Proxy:
            @property
            def __class__(self): raise RuntimeError("asked")
            def __getattr__(self, name): raise RuntimeError("asked")
        proxy, library = Proxy(), pydantic
        @workflow
        async def sell() -> None:
            logging.getLogger(proxy.name); library.BaseModel(); pytest.fixture()
        """
    )
    functions = reach([module.sell]).functions
    assert {function.__module__ for function in functions} == {"shop.orders"}


def test_the_walk_is_linear(app: App) -> None:
    """Thousands of functions that all know each other, in a circle: each is read once, and no call nests."""
    count = 3_000
    lines = [f"async def f{n}(): return f{(n + 1) % count}, f{(n * 7) % count}, EVERY\n" for n in range(count)]
    module = app(
        orders="".join(lines)
        + "EVERY = [f for name, f in list(globals().items()) if name[0] == 'f' and callable(f)]\n"
        + "@workflow\nasync def sell() -> None: await f0()\n"
    )
    functions = reach([module.sell]).functions
    assert len(functions) == count + 1
    assert len(set(functions)) == count + 1


# -- one name, one thing --


def place(module: ModuleType, name: str, line: int) -> str:
    return re.escape(str(Path(str(module.__file__)).with_name(f"{name}.py")) + f":{line}")


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


# -- what the walk can't see --


@activity
async def hidden_step() -> str:
    return "real"


@workflow
async def calls_by_name(name: str) -> str:
    steps: Any = importlib.import_module(__name__)
    return str(await getattr(steps, name)() + await Deferred(f"registry.{name}", str))


async def test_declares_names_what_the_walk_cannot_see() -> None:
    """A name made while the code runs: unknown without `declares=`, known with it."""
    declares = [Deferred("registry.hidden_step", str)]

    async def play(env: Environment) -> Any:
        execution = await env.start(calls_by_name, "hidden_step")
        await env.settle()
        await env.resolve(execution, "registry.hidden_step", "!")
        return (await env.finish(execution)).value()

    stand_in = {"hidden_step": lambda: "played"}
    assert await survives([calls_by_name], play, stand_in, declares=declares) == "played!"
    async with Environment([calls_by_name]) as env:
        assert isinstance(env.client, Client)
        execution = (await env.start(calls_by_name, "hidden_step")).execution_id
        with pytest.raises(Exception, match=r"no deferred is named 'registry\.hidden_step'"):
            await env.resolve(execution, "registry.hidden_step", "!")
    slip: Any = [play]
    with pytest.raises(TypeError, match="declares= takes activities, deferreds, channels and workflows, not <function"):
        Registry([calls_by_name], declares=slip)


# -- calls outside of a workflow --


@activity
async def calls_a_workflow() -> None:
    await votes()


async def test_a_workflow_called_outside_of_one_is_refused() -> None:
    """P1: in a script, a web route or an activity: the message says what to write. Its function stays callable."""
    with pytest.raises(RuntimeError, match=r"await client\.start\(calls_by_name, payload\)"):
        await calls_by_name("hidden_step")
    with pytest.raises(RuntimeError, match=r"await client\.start\(votes\) .* client\.execute.* votes\.function\(\)"):
        await calls_a_workflow()
    with pytest.raises(RuntimeError, match="only be awaited in a workflow"):
        await votes.function()


def test_a_runtime_refuses_a_bad_declaration() -> None:
    """M3: the app must not start with a workflow that can't be run."""
    with pytest.raises(TypeError, match="list of workflows takes functions decorated"):
        Runtime([echo], lambda: None)  # type: ignore[list-item, arg-type, return-value]
