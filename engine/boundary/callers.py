"""Who calls, and what they may do: sign-in by the platform, two roles, and a say for each workflow.

1. The caller is read from one header. The platform's sign-in sets that header, and takes it away from whoever sends it.
   The app reads it only if `ENGINE_SIGN_IN` says that this sign-in stands in front. Otherwise the header means nothing:
   callers come with a key of the host's, may do everything, and have no name.
2. A route needs a role. READABLE names those for a reader; all others are for an operator, who may read as well. OPEN
   names those that ask for no caller.
3. `permits`, if the app has one, is asked last: it may refuse a caller the workflow.
4. What an operator does to an execution is logged with the operator.
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
"""What a caller may do: look, or also start, stop and bring values."""
ROLES: tuple[Role, ...] = ("reader", "operator")

PRINCIPAL_HEADER = "x-ms-client-principal"
"""Where the platform's sign-in puts the caller. (https://learn.microsoft.com/azure/app-service/configure-authentication-user-identities)"""

LISTING = frozenset({"list_executions", "count_executions"})
"""The functions that look at many executions."""
READABLE = LISTING | {"poll", "poll_by_key", "health", "read_history", "read_steps", "read_family", "describe_api"}
"""The functions that only look."""
OPEN = frozenset({"resolve_by_token", "show_page", "show_file"})
"""The functions that ask for no caller: a signed token is the key, or it is a file of the page, which holds no data."""
NOTED = frozenset({"interrupt", "resume", "retry", "terminate", "purge", "send", "resolve_deferred", "deferred_token"})
"""The functions whose callers are logged."""

_ID_CLAIMS = ("http://schemas.microsoft.com/identity/claims/objectidentifier", "oid")
_NAME_CLAIMS = ("preferred_username", "name", "appid", "azp")
_MOST_CHARACTERS = 100
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
"""When a filter is read for its workflows alone."""

_log = logging.getLogger("engine")
_current: contextvars.ContextVar[Caller | None] = contextvars.ContextVar("caller", default=None)


@dataclass(frozen=True)
class Caller:
    """Who signed in. `id` is the object id in Entra, which never changes; `name` is for people."""

    id: str
    name: str
    roles: frozenset[Role]

    def may(self, role: Role) -> bool:
        """Whether the caller has that role. An operator may do what a reader may."""
        return role in self.roles or "operator" in self.roles

    def __str__(self) -> str:
        return f"{self.name} ({self.id})" if self.name else self.id


Permits = Callable[[Caller, Role, str], bool]
"""Whether a caller, who has the role, may act in it on the workflow of that name."""


def current() -> Caller | None:
    """The caller whose request is being answered. None without sign-in, and for whoever brought a token."""
    return _current.get()


def needed(function: str) -> Role | None:
    """The role that a route's function asks for. None: no caller is asked for."""
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
    """Let in the caller of a route, for the rest of this task. `route` has the values of the route's names; `read`
    gives an execution. Raises Problem with 401 if nobody signed in, and with 403 if the caller may not do that."""
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
    """Log that the caller of this task did something to an execution, if so. `status` is that of the answer."""
    caller = current()
    if caller is None or function not in NOTED or status >= 400:
        return
    fields = {"action": function, "executionId": route["id"], "by": str(caller)}
    _log.info("execution %s: %s by %s", route["id"], function, caller, extra=fields)


async def _workflows(
    function: str, request: Request, route: Mapping[str, str], read: Callable[[str], Awaitable[Execution]]
) -> Iterable[str]:
    """The names of the workflows that a request is about. None for one that is about none that there is."""
    if "id" in route:
        try:
            return [(await read(route["id"])).workflow]
        except ClientError:
            return []  # the route says it better
    if function not in LISTING:
        return [route["name"]] if "name" in route else []
    if not (named := _listed(request)):
        raise _forbidden("callers here see the workflows that they are permitted: name them, as ?q=workflow:NAME")
    return named


def _listed(request: Request) -> set[str]:
    """The workflows that a list is limited to; none if it isn't limited by workflow."""
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
    """The text of the first of these claims that there is, in one line."""
    found = dict(reversed(claims))
    text = next((found[kind] for kind in kinds if kind in found), "")
    return " ".join(text.split())[:_MOST_CHARACTERS]


def _unknown() -> Problem:
    return Problem(401, "Nobody has signed in", "this app takes callers whom Entra has signed in: send a bearer token")


def _forbidden(detail: str) -> Problem:
    return Problem(403, "Not permitted", detail)
