"""Rules that break chosen requests on purpose.

    double.faults.add(Answer(429, retry_after_ms=5), kind="batch", nth=2)
    double.faults.add(Drop(after_effect=True), kind="item", operation="create")
    double.faults.add(StaleRead(behind=3), kind="query", times=None)

A rule matches requests by kind, operation, method and a predicate, counts the matches, and acts on the matches
from the `nth` on, `times` of them (None: for ever). All rules whose turn it is act, in the order in which they
were added. Nothing is random, and nothing waits except what `Call` runs.

An action has two moments: before the request is handled, and after (`after_effect=True`: the write has happened,
and the client may never learn of it). A refusal or a drop at the first moment means that nothing happened.
"""

import abc
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from . import errors
from .errors import CosmosError
from .request import Request
from .rules import header_key
from .state import Account, Container


class Dropped(Exception):
    """The connection is to be closed without an answer."""


@dataclass(kw_only=True)
class Action(abc.ABC):
    """What a rule does to a request."""

    after_effect: bool = False

    async def at(self, moment: str, request: Request, account: Account) -> None:
        if (moment == "after") == self.after_effect:
            await self.act(request, account)

    @abc.abstractmethod
    async def act(self, request: Request, account: Account) -> None: ...


@dataclass
class Answer(Action):
    """Answer with this status: 429, 449, 408, 410 with sub-status 1002, 500, 503, 404 with sub-status 1002, ..."""

    status: int
    substatus: int = 0
    retry_after_ms: int | None = None
    message: str | None = None

    async def act(self, request: Request, account: Account) -> None:
        error = errors.throttled() if self.status == 429 else CosmosError(self.status, "Injected by a fault.")
        error.message = self.message or error.message
        error.substatus = self.substatus or error.substatus
        if self.retry_after_ms is not None:
            error.headers["x-ms-retry-after-ms"] = str(self.retry_after_ms)
        raise error


@dataclass
class Drop(Action):
    """Close the connection without an answer."""

    async def act(self, request: Request, account: Account) -> None:
        raise Dropped


@dataclass
class Cut(Action):
    """Close the connection in the middle of the answer: it says how long it is, and ends before that."""

    async def act(self, request: Request, account: Account) -> None:
        request.cut = True


@dataclass
class Call(Action):
    """Run a function of the test with the request; it may be a coroutine function, and may raise CosmosError."""

    function: Callable[[Request], Any]

    async def act(self, request: Request, account: Account) -> None:
        result = self.function(request)
        if inspect.isawaitable(result):
            await result


@dataclass
class StaleRead(Action):
    """Answer a read, query or feed from a replica that is so many commits behind.

    Never behind the session token that the request carries, and never behind what the undo log remembers.
    """

    behind: int = 1

    async def act(self, request: Request, account: Account) -> None:
        request.behind = self.behind


@dataclass
class ShortPage(Action):
    """Give a page of at most so many items, none included, with a continuation. The service may do that always."""

    items: int = 0

    async def act(self, request: Request, account: Account) -> None:
        request.page_limit = self.items


@dataclass
class Split(Action):
    """Split a physical partition: the one that the request goes to, or the named one."""

    range_id: str | None = None

    async def act(self, request: Request, account: Account) -> None:
        container = account.database(request.database or "").container(request.container or "")
        container.split(self.range_id or request.range_id or _range_of(container, request))


def _range_of(container: Container, request: Request) -> str | None:
    header = request.headers.get("x-ms-documentdb-partitionkey")
    return container.range_for(header_key(header).epk).id if header is not None else None


@dataclass
class Rule:
    """An action and the requests that it is for."""

    action: Action
    kind: str | None = None
    operation: str | None = None
    method: str | None = None
    when: Callable[[Request], bool] | None = None
    nth: int = 1
    times: int | None = 1
    seen: int = 0
    """Matching requests so far."""
    fired: int = 0
    """Requests that the action touched."""

    def takes(self, request: Request) -> bool:
        """Count the request if it matches; whether it's the action's turn."""
        wanted = (
            self.kind in (None, request.kind)
            and self.operation in (None, request.operation)
            and self.method in (None, request.method)
            and (self.when is None or self.when(request))
        )
        if not wanted:
            return False
        self.seen += 1
        if self.seen < self.nth or (self.times is not None and self.seen >= self.nth + self.times):
            return False
        self.fired += 1
        return True


class Faults:
    """The rules of a double, in force until they are cleared."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def add(
        self,
        action: Action,
        *,
        kind: str | None = None,
        operation: str | None = None,
        method: str | None = None,
        when: Callable[[Request], bool] | None = None,
        nth: int = 1,
        times: int | None = 1,
    ) -> Rule:
        """Add a rule; keep what it returns to see how often it fired."""
        rule = Rule(action, kind, operation, method, when, nth, times)
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        self._rules.clear()

    def unfired(self) -> list[Rule]:
        """Rules that never acted: in most tests a mistake."""
        return [rule for rule in self._rules if not rule.fired]

    def matching(self, request: Request) -> Iterable[Action]:
        return [rule.action for rule in self._rules if rule.takes(request)]
