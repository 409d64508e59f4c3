"""What docs/security.md says of the HTTP surface and of secrets."""

from __future__ import annotations

import ast
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import azure.functions as func
import pytest

from devhost.user import StandIn
from engine import Deferred, Runtime, Settings, activity, compensate, workflow
from engine.boundary import callers, http
from engine.boundary.functions import auth_level
from engine.ground import tokens
from engine.store.base import Filter
from engine.store.conditions import Condition
from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.query import Selection
from engine.store.sqlite.store import SqliteStore
from tests.deploy.infra.code import ROOT, TRIGGERS
from tests.deploy.infra.local_host import Address, local_host

DOCUMENT = (ROOT / "docs/security.md").read_text("utf-8")
KEY = "k" * 32
SECRET = "c2VjcmV0LW9mLXRoZS1hY2NvdW50"

answer = Deferred("security.answer", str)


@activity(name="security_step")
async def step() -> None:
    """A step that fails, with a cause."""
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise ConnectionError("no answer") from error


@workflow(name="security_fails")
async def fails() -> None:
    """Fails, and so does what would undo it."""
    compensate(step)
    await step()


@workflow(name="security_waits")
async def waits() -> str:
    """Waits for a value from outside."""
    return await answer


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with local_host(tmp_path_factory.mktemp("host"), ENGINE_SIGNING_KEY=KEY) as address:
        yield address


def _routes() -> dict[str, tuple[str, str]]:
    """The method and the route of each HTTP function."""
    found = {}
    for node in ast.walk(ast.parse(TRIGGERS.read_text("utf-8"))):
        for call in getattr(node, "decorator_list", []):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "triggers.route":
                methods = next(k.value for k in call.keywords if k.arg == "methods")
                found[node.name] = (ast.literal_eval(methods)[0], ast.literal_eval(call.args[0]))  # type: ignore[attr-defined]
    return found


def _ask(
    app: Address, method: str, route: str, key: str | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str]]:
    path = re.sub(r"\{\w+\}", "0" * 32, route)
    headers = dict(headers or {}) | ({} if key is None else {"x-functions-key": key})
    request = urllib.request.Request(f"{app.url}/{path}", method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, {n.lower(): v for n, v in response.headers.items()}
    except urllib.error.HTTPError as error:
        return error.code, {n.lower(): v for n, v in error.headers.items()}


def test_without_a_key_nothing_answers_but_tokens_and_the_page(app: Address) -> None:
    routes = _routes()
    assert len(routes) >= 11
    refused = {name for name, (method, route) in routes.items() if _ask(app, method, route)[0] == 401}
    assert routes.keys() - refused == {"resolve_by_token", "show_page", "show_file"}
    wrong = {name for name, (method, route) in routes.items() if _ask(app, method, route, "x" * 43)[0] == 401}
    assert wrong == refused


def test_with_sign_in_the_roles_of_the_caller_count(tmp_path: Path) -> None:
    """On the local host, where the key stands for a user: headers that a caller forges are taken away."""
    forged = {"X-MS-CLIENT-PRINCIPAL": StandIn("Eve", ("operator",)).header()}
    with local_host(tmp_path, "--user", "Ada:reader") as app:
        for headers, role in (({}, None), (forged, None), ({"x-functions-key": app.key} | forged, "reader")):
            for name, (method, route) in _routes().items():
                needs = callers.needed(name)
                status = _ask(app, method, route, headers=headers)[0]
                refusal = None if needs is None or needs == role else 401 if role is None else 403
                assert (status if status in (401, 403) else None) == refusal, (name, status)


def test_answers_are_not_to_be_kept(app: Address) -> None:
    """But for the files of the page, which are the same for everybody."""
    for name, (method, route) in _routes().items():
        status, headers = _ask(app, method, route, app.key)
        assert status != 401
        assert headers["cache-control"] == ("no-cache" if name == "show_page" else "no-store")


@pytest.mark.parametrize("route", ["executions/{}", "workflows/{}", "deferreds/{}", "executions/{}/deferreds/approval"])
def test_nothing_a_caller_sends_makes_a_header(app: Address, route: str) -> None:
    evil = "%0d%0aX-Evil:%20yes%0d%0a"
    for method in ("GET", "POST"):
        status, headers = _ask(app, method, route.format(evil), app.key)
        assert status in (400, 404, 422)
        assert "x-evil" not in headers
        assert "location" not in headers


async def test_a_forged_token_costs_nothing() -> None:
    """Not even a store is opened, whatever the body is."""

    def no_store() -> SqliteStore:
        raise AssertionError("the store was asked")

    runtime = Runtime([waits], no_store, Settings(signing_keys=(KEY,)))
    named = tokens.encode(tokens.Target("security_waits", "0" * 32, "security.answer"))
    for forged in (named, f"{named}.", tokens.sign(named, ["x" * 32]), tokens.sign("", [KEY]), f"{named}.ü"):
        for body in (b'"yes"', b"{", b"x" * 2_000_000):
            assert (await http.resolve_by_token(runtime, http.Request("https://app", body), forged)).status == 400


async def test_no_traceback_leaves() -> None:
    runtime = Runtime([fails], lambda: SqliteStore(":memory:"))
    status = await (await runtime.client.start(fails)).status()
    await runtime.client.drive(status.execution_id)
    status = await runtime.client.status(status.execution_id)
    assert ".py" in json.dumps((await runtime.store.read(status.execution_id)).to_document()), "what is stored has them"
    asked = http.Request("https://app/api/executions/x")
    for shown in (
        await http.poll(runtime, asked, status.execution_id),
        await http.list_executions(runtime, asked),
    ):
        assert shown.body.count("no answer") == 2
        assert ".py" not in shown.body
    await runtime.close()


def test_keys_are_not_printed() -> None:
    connection = f"AccountEndpoint=https://account.example/;AccountKey={SECRET};"
    account = CosmosAccount.from_environment({"COSMOS": connection})
    settings = Settings.from_environment({"ENGINE_SIGNING_KEY": KEY})
    assert account is not None
    assert account.key == SECRET
    assert settings.signing_keys == (KEY,)
    assert SECRET not in repr(account)
    assert KEY not in repr(settings)
    with pytest.raises(ValueError, match="ENGINE_SIGNING_KEY") as short:
        Settings.from_environment({"ENGINE_SIGNING_KEY": KEY[:-1]})
    with pytest.raises(ValueError, match="COSMOS") as broken:
        CosmosAccount.from_environment({"COSMOS": connection.replace("https", "")})
    with pytest.raises(ValueError, match="COSMOS_KEY") as odd:
        CosmosAccount.from_environment({"COSMOS__accountEndpoint": "https://a.example/", "COSMOS_KEY": SECRET[:-1]})
    for refusal in (short, broken, odd):
        assert KEY[:-1] not in str(refusal.value)
        assert SECRET[:-1] not in str(refusal.value)


def test_what_is_stored_is_never_code() -> None:
    forbidden = {"pickle", "marshal", "shelve", "eval", "exec", "compile", "__import__", "import_module"}
    # Commands import what their user names, and the walk over an app's code what that code imports.
    importing = ("engine/guard", "engine/testing/", "engine/core/discovery.py")
    for path in sorted((ROOT / "engine").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        names |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) != "re"}
        names |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}
        place = path.relative_to(ROOT).as_posix()
        assert not names & (forbidden - ({"import_module"} if place.startswith(importing) else set())), place


def test_values_never_stand_in_the_text_of_a_query() -> None:
    odd = "x' OR 1=1 --"
    conditions = (Condition((("error", "message"),), "contains", (odd,)), Condition((("version",),), "is", (odd, odd)))
    listed = Selection.listed(Filter(odd, odd, odd, conditions=conditions))
    assert odd not in listed._text(continued=True)
    assert [*listed.parameters.values()] == [odd] * 6
    due = Selection.due(datetime(2026, 1, 1, tzinfo=UTC))
    assert "2026" not in due._text(continued=True)


def test_functions_ask_for_a_key_unless_they_say_otherwise() -> None:
    assert "FunctionApp(http_auth_level=auth_level(runtime))" in (ROOT / "function_app.py").read_text("utf-8")
    assert auth_level(Runtime([], lambda: SqliteStore(":memory:"))) == func.AuthLevel.FUNCTION
    assert re.findall(r"\bauth_level=func\.([\w.]+)", TRIGGERS.read_text("utf-8")) == ["AuthLevel.ANONYMOUS"] * 3


def test_tests_that_are_named_are_there() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT))
    assert len(named) >= 9
    for name in named:
        assert f"def {name}(" in sources, name
    for path in re.findall(r"`((?:tests|infra|engine|docs|\.github)/[\w/.]*)`", DOCUMENT):
        assert (ROOT / path).exists(), path
