"""Sign-in: who the caller is, which role each route asks for, and what forged headers are worth."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import azure.functions as func
import pytest

from devhost.user import StandIn
from engine import Deferred, Runtime, Settings, workflow
from engine.boundary.callers import PRINCIPAL_HEADER, Caller, Permits, Role
from engine.boundary.functions import auth_level, blueprint
from engine.ground import tokens
from engine.store.sqlite.store import SqliteStore

KEY = "k" * 32
answer = Deferred("callers.answer", str)


@workflow(name="callers_ask")
async def ask(name: str) -> str:
    """Waits for a value from outside."""
    return await answer


@workflow(name="callers_other")
async def other() -> str:
    """Waits for the same."""
    return await answer


class App:
    """The engine's routes, called as the host calls them, by somebody or nobody."""

    def __init__(self, permits: Permits | None = None, sign_in: bool = True) -> None:
        settings = Settings(sign_in=sign_in, signing_keys=(KEY,))
        self.runtime = Runtime([ask, other], lambda: SqliteStore(":memory:"), settings, permits=permits)
        app = func.FunctionApp(http_auth_level=auth_level(self.runtime))
        app.register_functions(blueprint(self.runtime))
        self.functions: dict[str, Callable[..., Any]] = {}
        self.routes: dict[str, Any] = {}
        for function in app.get_functions():
            if function.is_http_function():
                self.functions[function.get_function_name()] = function.get_user_function()  # type: ignore[index]
                self.routes[function.get_function_name()] = function.get_trigger()  # type: ignore[index]

    async def call(
        self, function: str, header: str | None = None, body: str = "", query: Any = None, **names: str
    ) -> tuple[int, Any]:
        given = {"id": "0" * 32, "name": "callers_ask", "token": "x", "file": "app.js"} | names
        request = func.HttpRequest(
            method="POST",
            url="https://app.example/api/executions/x",
            headers={} if header is None else {PRINCIPAL_HEADER: header},
            params=query or {},
            route_params={name: given[name] for name in re.findall(r"{(\w+)}", self.routes[function].route)},
            body=body.encode(),
        )
        response = await self.functions[function](request)
        text = response.get_body().decode()
        return response.status_code, json.loads(text) if text.startswith("{") else text


def signed_in(*roles: str, name: str = "Ada") -> str:
    return StandIn(name, roles).header()


def principal(**fields: Any) -> str:
    return base64.b64encode(json.dumps(fields).encode()).decode()


READER_MAY = {
    "poll",
    "poll_by_key",
    "list_executions",
    "count_executions",
    "health",
    "read_history",
    "read_steps",
    "read_family",
    "describe_api",
}
OF_NO_WORKFLOW = {"start", "health", "list_executions", "count_executions", "describe_api"}
NOBODY_MAY = {"resolve_by_token", "show_page", "show_file"}
ROUTES = sorted(App().routes)


@pytest.mark.parametrize("route", ROUTES)
async def test_each_route_asks_for_its_role(route: str) -> None:
    """Nobody, somebody without a role, a reader, an operator: who is let in meets the route's own answer."""
    app = App()
    refused = {}
    for who in ((), ("stranger",), ("reader",), ("operator",), ("reader", "operator")):
        header = signed_in(*who) if who else None
        status, _ = await app.call(route, header, '"x"')
        refused[who] = status if status in (401, 403) else None
    public, readable = route in NOBODY_MAY, route in READER_MAY
    assert refused == {
        (): None if public else 401,
        ("stranger",): None if public else 403,
        ("reader",): None if public or readable else 403,
        ("operator",): None,
        ("reader", "operator"): None,
    }
    await app.runtime.close(timedelta(0))


def test_every_route_that_changes_something_is_for_operators() -> None:
    """A route that is new is for operators until it is named as one that only looks."""
    app = App()
    looks = {name for name, trigger in app.routes.items() if [str(m.value) for m in trigger.methods] == ["GET"]}
    assert looks >= READER_MAY
    assert "deferred_token" not in READER_MAY, "whoever has a token can resolve"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "operator",
        "e30=",
        base64.b64encode(b"\xff\xfe").decode(),
        base64.b64encode(b"[" * 100_000).decode(),
        principal(claims=None),
        principal(claims=[{"typ": "roles"}]),
        principal(claims=["roles"]),
        principal(claims=[{"typ": "roles", "val": "operator"}]),
        principal(claims=[{"typ": "oid", "val": ""}, {"typ": "roles", "val": "operator"}]),
        principal(claims=[{"typ": ["oid"], "val": {"a": 1}}]),
        f"{signed_in('operator')},{signed_in('operator')}",
    ],
)
async def test_a_header_that_names_nobody_is_nobody(header: str) -> None:
    assert (await App().call("interrupt", header))[0] == 401


@pytest.mark.parametrize(
    "claims",
    [
        [("oid", "1"), ("groups", "operator")],
        [("oid", "1"), ("name", "operator"), ("scp", "operator")],
        [("oid", "1"), ("roles", "Operator")],
        [("oid", "1"), ("roles", "reader operator")],
    ],
)
async def test_only_a_role_is_a_role(claims: list[tuple[str, str]]) -> None:
    header = principal(role_typ="roles", claims=[{"typ": kind, "val": value} for kind, value in claims])
    assert (await App().call("interrupt", header))[0] == 403


async def test_roles_come_under_the_name_that_the_platform_gives_them() -> None:
    kind = "http://schemas.microsoft.com/ws/2008/06/identity/claims/role"
    id = {"typ": "http://schemas.microsoft.com/identity/claims/objectidentifier", "val": "7"}
    header = principal(role_typ=kind, claims=[id, {"typ": kind, "val": "operator"}])
    app = App()
    assert (await app.call("interrupt", header))[0] == 404
    await app.runtime.close(timedelta(0))


async def test_without_sign_in_the_header_means_nothing() -> None:
    """Anybody could send it. The host asks for a key then, and a caller has no name."""
    app = App(sign_in=False)
    levels = {name: trigger.auth_level.value for name, trigger in app.routes.items()}
    assert levels == {name: "anonymous" if name in NOBODY_MAY else "function" for name in levels}
    for header in (None, signed_in(), signed_in("reader"), "nonsense"):
        assert (await app.call("interrupt", header))[0] == 404
    assert {trigger.auth_level.value for trigger in App().routes.values()} == {"anonymous"}
    await app.runtime.close(timedelta(0))


async def test_what_an_operator_does_is_logged_with_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    """The fields stand apart from the sentence; a name can't begin a line of its own."""
    app = App()
    ada = signed_in("operator", name="Ada\nexecution 0: terminate by root")
    _, started = await app.call("start", ada, '"x"', name="callers_ask")
    id = started["executionId"]
    with caplog.at_level(logging.INFO, "engine"):
        for function in ("resolve_deferred", "interrupt", "resume", "terminate", "poll"):
            body = '"yes"' if function == "resolve_deferred" else ""
            await app.call(function, ada, body, id=id, name="callers.answer")
    noted = [record for record in caplog.records if hasattr(record, "by")]
    assert [(record.action, record.execution_id) for record in noted] == [  # type: ignore[attr-defined]
        (action, id) for action in ("resolve_deferred", "interrupt", "resume", "terminate")
    ]
    assert all("\n" not in record.getMessage() for record in noted)
    assert noted[0].by == "Ada execution 0: terminate by root (local-Ada execution 0: terminate by root)"
    await app.runtime.close(timedelta(0))


async def test_who_interrupted_stays_with_the_execution() -> None:
    """The first one stays, as the first reason does. Nobody names another caller in the body."""
    app = App()
    ada, grace = signed_in("operator"), signed_in("operator", name="Grace")
    _, started = await app.call("start", ada, '"x"', name="callers_ask")
    id = started["executionId"]
    assert (await app.call("interrupt", grace, '{"by": "root"}', id=id))[0] == 400
    for who in (grace, ada):
        status, shown = await app.call("interrupt", who, id=id)
        assert (status, shown["interruptedBy"]) == (202, "Grace (local-Grace)")
    await app.runtime.close(timedelta(0))


async def test_a_token_needs_no_caller() -> None:
    app = App()
    _, started = await app.call("start", signed_in("operator"), '"x"', name="callers_ask")
    target = tokens.Target("callers_ask", started["executionId"], "callers.answer")
    token = tokens.sign(tokens.encode(target), [KEY])
    assert (await app.call("resolve_by_token", None, '"yes"', token=token))[0] == 204
    await app.runtime.close(timedelta(0))


async def test_an_app_may_refuse_a_workflow() -> None:
    """The hook is asked after the role, for the workflow of the start, of the execution, or of the list."""
    asked: list[tuple[str, Role, str]] = []

    def permits(caller: Caller, role: Role, workflow: str) -> bool:
        asked.append((caller.name, role, workflow))
        return workflow == "callers_ask"

    app = App(permits)
    ada = signed_in("operator")
    status, mine = await app.call("start", ada, '"x"', name="callers_ask")
    assert status == 202
    assert (await app.call("start", ada, name="callers_other"))[0] == 403
    theirs = (await app.runtime.client.start(other)).execution_id
    for function in sorted(set(ROUTES) - NOBODY_MAY - OF_NO_WORKFLOW):
        assert (await app.call(function, ada, '"yes"', id=theirs, name="callers.answer"))[0] == 403, function
    assert (await app.call("poll", ada, id=mine["executionId"]))[0] == 200
    assert (await app.call("poll", ada, id="0" * 32))[0] == 404
    assert (await app.call("health", ada))[0] == 200
    for function in ("list_executions", "count_executions"):
        answers = {q: (await app.call(function, ada, query={"q": q}))[0] for q in LISTS}
        assert answers == LISTS
    assert (await app.call("list_executions", ada, query={"workflow": "callers_ask"}))[0] == 200
    assert (await app.call("list_executions", ada, query={"workflow": "callers_other"}))[0] == 403
    asked.clear()
    assert (await app.call("interrupt", signed_in("reader"), id=theirs))[0] == 403
    assert asked == []
    await app.runtime.close(timedelta(0))


LISTS = {
    "": 403,
    "status:running": 403,
    "workflow:callers_ask": 200,
    "workflow:callers_ask is:suspended": 200,
    "workflow:callers_ask,callers_other": 403,
    "workflow:callers_other": 403,
    "-workflow:callers_other": 403,
    "-workflow:callers_ask": 403,
    "workflow:": 403,
}
"""Filters, and the answers to a caller who may see `callers_ask`."""


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"ENGINE_SIGN_IN": "yes"}, "entra or empty"),
        ({"ENGINE_SIGN_IN": "entra", "WEBSITE_AUTH_ENABLED": "False"}, "signs nobody in"),
    ],
)
def test_an_app_that_would_trust_anybody_does_not_start(environment: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Settings.from_environment(environment)
    assert Settings.from_environment({"ENGINE_SIGN_IN": "entra", "WEBSITE_AUTH_ENABLED": "True"}).sign_in
    assert not Settings.from_environment({"WEBSITE_AUTH_ENABLED": "False"}).sign_in
