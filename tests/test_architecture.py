"""The storeys of the house: who may import whom, and what each storey may touch. Read from the source.

1. Every module of the engine belongs to one storey. A module outside of all storeys fails this test.
2. A module imports from its own storey and from the storeys below it. `core` and `store` stand side by side, and so do
   `driving` and `guard`.
3. An import counts wherever it stands: in a function, and under TYPE_CHECKING.
4. Each storey names the outside modules that it may use beyond the pure part of the standard library.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BELOW: dict[str, set[str]] = {
    "ground": set(),
    "values": {"ground"},
    "core": {"ground", "values"},
    "store": {"ground", "values"},
    "driving": {"ground", "values", "core", "store"},
    "guard": {"ground", "values", "core"},
    "boundary": {"ground", "values", "core", "store", "driving", "guard"},
    "testing": {"ground", "values", "core", "store", "driving", "guard", "boundary"},
    "cli": {"ground", "values", "core", "store", "driving", "guard", "boundary", "testing"},
}
"""For each storey, those that it stands on."""

MACHINE = {
    "asyncio",
    "concurrent",
    "http",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "uuid",
}
"""Modules of the standard library that touch the process, the machine, the network or chance."""

MAY_USE: dict[str, set[str]] = {
    "engine/__init__.py": set(),
    "engine/ground": set(),
    "engine/ground/clock.py": {"pydantic", "asyncio"},
    "engine/ground/names.py": {"urllib"},
    "engine/ground/settings.py": {"urllib"},
    "engine/ground/telemetry.py": {"opentelemetry"},
    "engine/values": {"pydantic", "pydantic_core"},
    "engine/core": set(),
    "engine/core/loop.py": {"asyncio", "sys"},
    "engine/core/plans.py": {"cronsim", "pydantic"},
    "engine/core/schedules.py": {"asyncio", "pydantic"},
    "engine/core/refusals.py": {"asyncio"},
    "engine/core/context.py": {"random", "uuid"},
    "engine/core/wind_up.py": {"asyncio"},
    "engine/core/retry.py": {"random"},
    "engine/core/trace.py": {"sys"},
    "engine/core/activity.py": {"asyncio"},
    "engine/core/declarations.py": {"typing_extensions"},
    "engine/core/own_modules.py": {"sys"},
    "engine/core/discovery.py": {"sys"},
    "engine/core/authoring.py": {"asyncio", "logging", "random", "sys", "typing_extensions", "uuid"},
    "engine/store": {"pydantic", "asyncio", "uuid", "urllib"},
    "engine/store/sqlite": {"asyncio", "concurrent", "pathlib", "sqlite3", "time"},
    "engine/store/cosmos": {
        "aiohttp",
        "asyncio",
        "azure",
        "contextlib",
        "logging",
        "os",
        "random",
        "sys",
        "time",
        "urllib",
        "uuid",
    },
    "engine/driving": {"asyncio", "concurrent", "logging", "random", "uuid"},
    "engine/driving/watchdog.py": {"asyncio", "faulthandler", "logging", "sys", "threading", "time"},
    "engine/guard": {"sys"},
    "engine/boundary/functions.py": {"azure", "logging", "os"},
    "engine/boundary/stopping.py": {"asyncio", "logging", "os", "signal", "threading"},
    "engine/boundary": {"pydantic", "asyncio", "logging", "urllib", "uuid"},
    "engine/testing": {"asyncio", "pathlib", "sys"},
    "engine/cli": {"aiohttp", "asyncio", "os", "pathlib", "random", "rich", "shutil", "sys", "time", "typer", "urllib"},
}
"""What a folder or one file may import beyond the engine and pure modules of the standard library. A file's own entry
takes the place of its folder's."""

SEEDED = {"Random"}
"""Of `random`, what the core may use: a generator is deterministic once it is seeded."""
READS_CLOCK_OR_CHANCE = {"now", "utcnow", "today", "uuid1", "uuid4", "urandom", "getrandbits", "randint", "token_hex"}


def sources(*places: str) -> list[Path]:
    """The Python files at or below those places."""
    found = []
    for place in places:
        path = ROOT / place
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert found, places
    return found


def imports(path: Path) -> set[str]:
    """Every module that a file imports: `a.b` for `import a.b`; `a.b` and `a.b.c` for `from a.b import c`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=module, names=names, level=level):
                assert level == 0, f"{path}: relative imports hide who imports whom"
                found |= {f"{module}.{alias.name}" for alias in names} | {str(module)}
    return found


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def storey(module: str) -> str | None:
    """The storey of a module of the engine; None for the public door and for everything outside."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "engine" and parts[1] in BELOW else None


def allowed(path: Path) -> set[str]:
    """The entry of MAY_USE that stands nearest to a file."""
    for place in (path, *path.parents):
        entry = MAY_USE.get(label(place)) if place.is_relative_to(ROOT) and place != ROOT else None
        if entry is not None:
            return entry
    raise AssertionError(f"{label(path)} stands in no storey: give it an entry in MAY_USE")


@pytest.mark.parametrize("path", sources("engine"), ids=label)
def test_every_module_stands_on_the_storeys_below(path: Path) -> None:
    """A module imports nothing of a storey beside or above its own."""
    parts = path.relative_to(ROOT).parts
    if parts == ("engine", "__init__.py"):
        return
    own = parts[1]
    assert own in BELOW, f"{label(path)} stands in no storey: {sorted(BELOW)}"
    used = {
        module: storey(module) for module in imports(path) if module.split(".")[0] == "engine" and module != "engine"
    }
    too_high = {module for module, other in used.items() if other != own and other not in BELOW[own]}
    assert not too_high


@pytest.mark.parametrize("path", sources("engine"), ids=label)
def test_every_module_uses_only_what_its_storey_may(path: Path) -> None:
    """Sockets, files, clocks, chance, SDKs and the event loop are named for the storeys that may use them."""
    pure = set(sys.stdlib_module_names) - MACHINE
    used = {module.split(".")[0] for module in imports(path)} - {"engine"}
    assert used - pure - allowed(path) == set()


def test_every_entry_is_needed() -> None:
    """A permission that nobody uses is taken back."""
    used: dict[str, set[str]] = {place: set() for place in MAY_USE}
    for path in sources("engine"):
        place = next(label(p) for p in (path, *path.parents) if p != ROOT and label(p) in MAY_USE)
        used[place] |= {module.split(".")[0] for module in imports(path)}
    assert {place: names - used[place] for place, names in MAY_USE.items() if names - used[place]} == {}


@pytest.mark.parametrize("path", sources("engine/ground", "engine/values", "engine/core"), ids=label)
def test_the_core_reads_no_clock_and_rolls_no_dice(path: Path) -> None:
    """Time and ids come as arguments or from events. Only SystemClock reads the machine's clock."""
    tree = ast.parse(path.read_text())
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {
        f.attr if isinstance(f, ast.Attribute) else f.id for f in called if isinstance(f, ast.Attribute | ast.Name)
    }
    expected = {
        "engine/ground/clock.py": {"now"},
        "engine/core/context.py": {"getrandbits"},
        "engine/core/schedules.py": {"now"},  # workflow.now(), the recorded time
    }
    assert names & READS_CLOCK_OR_CHANCE == expected.get(label(path), set())
    of_random = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random"
    }
    assert of_random <= SEEDED


@pytest.mark.parametrize("path", sources("engine"), ids=label)
def test_only_the_runtime_and_the_tools_choose_a_store(path: Path) -> None:
    """Everyone else works on `engine.store.base.Store`."""
    if path.is_relative_to(ROOT / "engine/store") or label(path) in (
        "engine/boundary/runtime.py",
        "engine/cli/stores.py",
        "engine/testing/environment.py",
    ):
        return
    concrete = [m for m in imports(path) if m.startswith(("engine.store.sqlite", "engine.store.cosmos"))]
    assert concrete == []


@pytest.mark.parametrize("path", sources("engine"), ids=label)
def test_nothing_in_the_engine_needs_its_triggers(path: Path) -> None:
    """A program that never imports `engine.boundary.functions` runs without `azure.functions`."""
    used = imports(path)
    assert "engine.boundary.functions" not in used
    assert "azure.functions" not in used or label(path) == "engine/boundary/functions.py"


@pytest.mark.parametrize("path", sources("workflows", "demo.py"), ids=label)
def test_workflows_use_the_public_names_only(path: Path) -> None:
    """`from engine import …`, and nothing from a module inside of it."""
    import engine

    inside = {module for module in imports(path) if module.split(".")[0] == "engine"}
    assert inside <= {"engine", *(f"engine.{name}" for name in engine.__all__)}
    outside = {"function_app", "devhost", "azure", "tests"}
    assert {module.split(".")[0] for module in imports(path)} & outside == set()


@pytest.mark.parametrize("path", sources("devhost"), ids=label)
def test_the_local_host_knows_only_the_feed(path: Path) -> None:
    """It loads the app as the Functions host does; of the engine it imports the change feed's protocol."""
    known = [m for m in imports(path) if m.split(".")[0] in ("engine", "workflows", "tests", "function_app")]
    assert [module for module in known if not module.startswith("engine.store.feed")] == []


def test_the_app_only_wires() -> None:
    """`function_app.py` imports the public door, the boundary and the workflows, and nothing deeper."""
    used = {module for module in imports(ROOT / "function_app.py") if module.split(".")[0] == "engine"}
    assert {storey(module) for module in used} <= {None, "boundary"}


def test_no_module_of_the_engine_needs_itself() -> None:
    """The imports between its modules make no circle, wherever they stand."""
    modules = {
        ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in sources("engine")
    }
    graph = {name: {m for m in imports(path) if m in modules and m != name} for name, path in modules.items()}
    assert "engine.core.loop" in graph["engine.core.context"]

    def circle(name: str, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if name in path:
            yield (*path[path.index(name) :], name)
        elif name not in done:
            for other in sorted(graph[name]):
                yield from circle(other, (*path, name))
            done.add(name)

    done: set[str] = set()
    assert [found for name in sorted(graph) for found in circle(name, ())] == []


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    """In functions, for type checkers only, of a module or of a name in it."""
    file = tmp_path / "sample.py"
    file.write_text("import a.b\nif TYPE_CHECKING:\n    from c import d\ndef f():\n    import e as g\n")
    assert imports(file) == {"a.b", "c", "c.d", "e"}
