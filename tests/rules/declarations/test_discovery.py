"""The walk over an app's code: what it finds, where it stops, and how the author names what it can't see."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from engine import Client, Deferred, activity, workflow
from engine.core.discovery import reach
from engine.core.registry import Registry
from engine.testing import Environment, survives
from tests.rules.declarations.app import MAIL, App

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
