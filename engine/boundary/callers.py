"""Callers and what they may do: sign-in by the platform, two roles, and permissions for each workflow.

1. The caller's identity comes from one header. The platform's sign-in sets this header, and removes it from requests
   that bring one. The app reads the header only if `ENGINE_SIGN_IN` says that this sign-in is on. Without sign-in,
   callers use a key of the host, may do everything, and have no name.
2. Each route needs a role. READABLE names the routes for readers. All other routes are for operators, who may also
   read. OPEN names the routes that need no caller.
3. If the app has a `permits` function, it is asked last. It may refuse the workflow to the caller.
4. The log names the operator of each change to an execution.
"""

from __future__ import annotations

import base64
import contextvars
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from engine.boundary.answers import Problem, Request
from engine.boundary.filters import FilterError, parse
from engine.ground.errors import ClientError
from engine.store.documents import Execution

Role = Literal["reader", "operator"]
"""What a caller may do. A reader looks. An operator also starts, stops and sends values."""
ROLES: tuple[Role, ...] = ("reader", "operator")

PRINCIPAL_HEADER = "x-ms-client-principal"
"""The header in which the platform's sign-in names the caller.
(https://learn.microsoft.com/azure/app-service/configure-authentication-user-identities)"""

LISTING = frozenset({"list_executions", "count_executions"})
"""The functions that read many executions."""
READABLE = LISTING | {"poll", "poll_by_key", "health", "read_history", "read_steps", "read_family", "describe_api"}
"""The functions that only read."""
OPEN = frozenset({"resolve_by_token", "show_page", "show_file"})
"""The functions that need no caller: one takes a signed token as the key, the others serve files without data."""
NOTED = frozenset(
    {"interrupt", "resume", "retry", "fork", "terminate", "purge", "send", "resolve_deferred", "deferred_token"}
)
"""The functions whose callers are logged."""

_ID_CLAIMS = ("http://schemas.microsoft.com/identity/claims/objectidentifier", "oid")
_NAME_CLAIMS = ("preferred_username", "name", "appid", "azp")
_MOST_CHARACTERS = 100
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
"""The present time for a filter that is read only for its workflows."""

_log = logging.getLogger("engine")
_current: contextvars.ContextVar[Caller | None] = contextvars.ContextVar("caller", default=None)


@dataclass(frozen=True)
class Caller:
    """A signed-in caller. `id` is the object id in Entra, which never changes. `name` is for people."""

    id: str
    name: str
    roles: frozenset[Role]

    def may(self, role: Role) -> bool:
        """Whether the caller has that role. An operator may do what a reader may."""
        return role in self.roles or "operator" in self.roles

    def __str__(self) -> str:
        return f"{self.name} ({self.id})" if self.name else self.id


Permits = Callable[[Caller, Role, str], bool]
"""Decides whether a caller with this role may use it on the workflow of that name."""


def current() -> Caller | None:
    """The caller of the present request. None without sign-in, and for a request with a token."""
    return _current.get()


def name_of_current() -> str | None:
    """The caller of the present request as text, to be stored with what the caller asks for."""
    caller = current()
    return None if caller is None else str(caller)


def needed(function: str) -> Role | None:
    """The role that a route's function needs. None if it needs no caller."""
    if function in OPEN:
        return None
    return "reader" if function in READABLE else "operator"


async def admit(
    function: str,
    request: Request,
    route: Mapping[str, str],
    permits: Permits | None,
    read: Callable[[str], Awaitable[Execution]],
) -> None:
    """Check that the caller may call a route, and make it the current caller of this task. `route` has the values of
    the route's parameters. `read` reads an execution. Raises Problem with 401 if nobody has signed in, and with 403 if
    the caller may not do this."""
    role = needed(function)
    if role is None:
        return
    caller = _read_principal(request.headers.get(PRINCIPAL_HEADER, ""))
    if not caller.may(role):
        raise _forbidden(f"{caller} does not have the role {role}")
    if permits is not None:
        for workflow in await _workflows(function, request, route, read):
            if not permits(caller, role, workflow):
                raise _forbidden(f"{caller} may not act as {role} on workflow {workflow}")
    _current.set(caller)


def note(function: str, route: Mapping[str, str], status: int) -> None:
    """Log what the current caller did to an execution. Nothing is logged without a caller, for a function that isn't
    NOTED, or for an error. `status` is the status of the answer."""
    caller = current()
    if caller is None or function not in NOTED or status >= 400:
        return
    fields = {"action": function, "execution_id": route["id"], "by": str(caller)}
    _log.info("execution %s: %s by %s", route["id"], function, caller, extra=fields)


async def _workflows(
    function: str, request: Request, route: Mapping[str, str], read: Callable[[str], Awaitable[Execution]]
) -> Iterable[str]:
    """The names of the workflows that a request concerns. Empty if there is no such execution or workflow."""
    if "id" in route:
        try:
            return [(await read(route["id"])).workflow]
        except ClientError:
            return []  # the route itself gives a better error
    if function not in LISTING:
        return [route["name"]] if "name" in route else []
    if not (named := _listed(request)):
        raise _forbidden(
            "this app permits each workflow separately: name the workflows of the list, as in ?q=workflow:NAME"
        )
    return named


def _listed(request: Request) -> set[str]:
    """The workflows that a list is limited to. Empty if the list isn't limited by workflow."""
    try:
        conditions = parse(request.query.get("q", ""), _ANY_TIME).filter.conditions
    except FilterError:
        return set()
    terms = [c.values for c in conditions if c.paths == (("workflow",),) and c.operator == "is" and not c.negated]
    terms += [(request.query["workflow"],)] if request.query.get("workflow") else []
    return {str(name) for names in terms for name in names}


def _read_principal(header: str) -> Caller:
    try:
        principal = json.loads(base64.b64decode(header, validate=True))
        claims = [(str(claim["typ"]), str(claim["val"])) for claim in principal["claims"]]
        role_claims = ("roles", str(principal.get("role_typ")))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise _unknown() from None
    id = _first(claims, _ID_CLAIMS)
    if not id:
        raise _unknown()
    roles = {value for kind, value in claims if kind in role_claims}
    return Caller(id, _first(claims, _NAME_CLAIMS), frozenset(role for role in ROLES if role in roles))


def _first(claims: list[tuple[str, str]], kinds: tuple[str, ...]) -> str:
    """The text of the first of these claims that is present, in one line."""
    found = dict(reversed(claims))
    text = next((found[kind] for kind in kinds if kind in found), "")
    return " ".join(text.split())[:_MOST_CHARACTERS]


def _unknown() -> Problem:
    return Problem(401, "Nobody has signed in", "this app needs a sign-in with Entra: send a bearer token")


def _forbidden(detail: str) -> Problem:
    return Problem(403, "Not permitted", detail)
