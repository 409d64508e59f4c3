"""Who may import whom, and what the deterministic core may not touch. Read from the source, not from what is loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = [
    "codec",
    "comparison",
    "definition",
    "errors",
    "events",
    "failures",
    "loop",
    "names",
    "options",
    "replay",
    "retry",
    "steps",
]
"""Modules of the engine without I/O: the same input gives the same output, in every process."""
TOUCHES_STORE = ["children", "client", "drive", "health", "host", "http", "lease", "runtime", "worker"]
"""Modules of the engine that speak to a store."""
MACHINE = [
    "azure",
    "http",
    "os",
    "pathlib",
    "secrets",
    "socket",
    "sqlite3",
    "subprocess",
    "tempfile",
    "threading",
    "time",
]
CHANCE_AND_CLOCK = {"now", "utcnow", "today", "uuid1", "uuid4", "urandom", "getrandbits", "randint", "token_hex"}


def sources(*places: str) -> list[Path]:
    """The Python files at or below those places."""
    found = []
    for place in places:
        path = ROOT / place
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert found, places
    return found


def imports(path: Path) -> set[str]:
    """Every module that a file imports, anywhere in it, also for type checkers only: `a.b` for `import a.b`, `a.b` and
    `a.b.c` for `from a.b import c`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=module, names=names, level=level):
                assert level == 0, f"{path}: relative imports hide who imports whom"
                found |= {f"{module}.{alias.name}" for alias in names} | {str(module)}
    return found


def within(module: str, *packages: str) -> bool:
    """Whether a module is one of those or below one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def name_of(path: Path) -> str:
    """The dotted name of a file's module."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def engine_imports() -> dict[str, set[str]]:
    """For each module of the engine, the other modules of the engine that it needs while it is loaded."""
    modules = {name_of(path): path for path in sources("engine")}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        module = ast.parse(path.read_text())
        top = [node for node in module.body if isinstance(node, ast.Import | ast.ImportFrom)]
        needed: set[str] = set()
        for node in top:
            if isinstance(node, ast.Import):
                needed |= {alias.name for alias in node.names}
            else:
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                needed |= {n if n in modules else str(node.module) for n in names}
        graph[name] = {other for other in needed if other in modules and other != name}
    return graph


@pytest.mark.parametrize("path", sources("engine"), ids=label)
def test_the_engine_knows_nobody_who_uses_it(path: Path) -> None:
    """It imports neither the app, the local host, the workflows, the tests nor the Functions SDK."""
    outside = ("function_app", "devhost", "workflows", "tests", "demo", "azure.functions")
    assert [module for module in imports(path) if within(module, *outside)] == []


@pytest.mark.parametrize("name", CORE)
def test_the_core_does_no_io(name: str) -> None:
    """It imports nothing that touches the machine, a log or a store."""
    found = imports(ROOT / "engine" / f"{name}.py")
    assert [module for module in found if within(module, "engine.store", "logging", *MACHINE)] == []


@pytest.mark.parametrize("name", CORE)
def test_the_core_reads_no_clock_and_rolls_no_dice(name: str) -> None:
    """Time and ids come as arguments or from events; of `random` it uses seeded generators only."""
    tree = ast.parse((ROOT / "engine" / f"{name}.py").read_text())
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {
        f.attr if isinstance(f, ast.Attribute) else f.id for f in called if isinstance(f, ast.Attribute | ast.Name)
    }
    assert names & CHANCE_AND_CLOCK == set()
    of_random = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random"
    }
    assert of_random <= {"Random"}
    assert [module for module in imports(ROOT / "engine" / f"{name}.py") if within(module, "random")] in (
        [],
        ["random"],
    )


@pytest.mark.parametrize("path", sources("engine"), ids=label)
def test_few_modules_speak_to_the_store(path: Path) -> None:
    """All others hand values on; and only the runtime and the test environment choose a store. The public door opens
    on all of them."""
    name = name_of(path)
    if within(name, "engine.store") or name == "engine":
        return
    used = {module for module in imports(path) if within(module, "engine.store")}
    if name.removeprefix("engine.") not in TOUCHES_STORE and not within(name, "engine.testing"):
        assert used == set()
    if name not in ("engine.runtime", "engine.testing", "engine.testing.environment"):
        assert [module for module in used if not within(module, "engine.store.base", "engine.store.feed")] == []


@pytest.mark.parametrize("path", sources("engine"), ids=label)
def test_the_azure_sdk_stays_in_the_store(path: Path) -> None:
    """Nobody else sees a status code or a response of Cosmos DB."""
    if not path.name.startswith("cosmos"):
        assert [module for module in imports(path) if within(module, "azure", "aiohttp")] == []


@pytest.mark.parametrize("path", sources("engine/store"), ids=label)
def test_stores_know_nothing_of_workflows(path: Path) -> None:
    """A store keeps documents: it imports no code that runs or replays anything."""
    of_engine = [module for module in imports(path) if within(module, "engine")]
    running = [f"engine.{name}" for name in ("activities", "client", "definition", "drive", "lease", "loop", "replay")]
    assert [module for module in of_engine if within(module, *running, "engine.worker", "engine.runtime")] == []


@pytest.mark.parametrize("path", sources("workflows"), ids=label)
def test_workflows_use_the_public_names_only(path: Path) -> None:
    """`from engine import …`, and nothing from a module inside of it."""
    import engine

    inside = {module for module in imports(path) if within(module, "engine")}
    assert inside <= {"engine", *(f"engine.{name}" for name in engine.__all__)}
    assert [module for module in imports(path) if within(module, "function_app", "devhost", "azure", "tests")] == []


@pytest.mark.parametrize("path", sources("devhost"), ids=label)
def test_the_local_host_knows_only_the_feed(path: Path) -> None:
    """It loads the app as the Functions host does; of the engine it imports the change feed's protocol."""
    of_engine = [module for module in imports(path) if within(module, "engine", "workflows", "tests")]
    assert [module for module in of_engine if not within(module, "engine.store.feed")] == []


def test_no_module_of_the_engine_needs_itself() -> None:
    """The imports between its modules make no circle."""
    graph = engine_imports()
    assert len(graph) > 20
    assert "engine.loop" in graph["engine.replay"]

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
    assert within("azure.cosmos", "azure")
    assert not within("azurelike", "azure")
