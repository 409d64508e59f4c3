"""What an error of Cosmos DB means, and the policy for sending a request again.

The SDK would repeat a write after a lost answer, and report a conflict with its own first try. That is switched off
(see `client.py`). This file may repeat a write, because an etag, a create or a predicate guards every write. If the
first try landed, the service refuses the repetition. The store then reads the document back and finds its own
`writeId`.

The policy sends a request again after: 429 (not before the time that the service asks for), 449, 408, 410, 500, 502,
503, 504, a 404 of a replica that is behind the session (sub-status 1002), a 403 of a region that no longer serves the
account (3, 1008), a lost connection, and an answer that doesn't come in time. Every other error is final.

Limits: at most ATTEMPTS sends. No send starts later than BUDGET seconds after the first, and none takes longer than
PATIENCE. Between two sends the policy waits a random time of up to FIRST seconds. FIRST doubles each time, up to
LONGEST. After a 429 the policy waits at least as long as the service asked for. If that is longer than the rest of the
budget, or if a limit is reached, the store raises Unavailable.
"""

from __future__ import annotations

import asyncio
import enum
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError

from engine.ground.errors import Conflict, Missing, Refused, Taken, TooLarge, Unavailable

T = TypeVar("T")

ATTEMPTS = 10
BUDGET = 20.0
"""Seconds. The budget is shorter than a lease, so that a driver usually learns in time that it can't write. The last
send may take PATIENCE more. Etags and the seal stop a driver that comes back so late; time alone wouldn't."""
FIRST = 0.05
LONGEST = 2.0
PATIENCE = 30.0
"""Seconds that one send may take. The SDK may search two minutes for a region that moved. If it can't read the
partitions, it may wait for its own lock for ever."""

ERRORS: tuple[type[Exception], ...] = (AzureError, aiohttp.ClientError, TimeoutError, OSError)
"""What a request may raise."""
_STUMBLES: tuple[type[Exception], ...] = (KeyError, TypeError)
"""What the SDK (4.17) raises when it can't handle an answer: a KeyError at a 404/1002 if it holds no session token of
the container, a TypeError if it can't read the partitions."""

_AGAIN = frozenset({408, 410, 429, 449, 500, 502, 503, 504})
_AGAIN_FOR = frozenset({(404, 1002), (403, 3), (403, 1008)})
"""These sub-statuses mean: the session isn't available, the region takes no writes, the region doesn't serve the
account."""
_OWNER_NOT_FOUND = 1003


class Meaning(enum.Enum):
    """What an error says about the request."""

    AGAIN = "send it again"
    TAKEN = "a document of that id exists"
    CONFLICT = "a condition doesn't hold"
    MISSING = "there is no such document"
    TOO_LARGE = "the service takes no request of that size"
    FORBIDDEN = "the account doesn't let us in"
    NO_CONTAINER = "the database or the container doesn't exist"
    REFUSED = "the request makes no sense to the service"


@dataclass(frozen=True)
class Trouble:
    """An error of a request, with its meaning. `wait` is the time in seconds that the service asked for."""

    meaning: Meaning
    text: str
    wait: float = 0.0

    @classmethod
    def of(cls, error: Exception) -> Trouble:
        """The only place that looks at status codes and at the SDK's exceptions."""
        if isinstance(error, ClientAuthenticationError):
            return cls(Meaning.FORBIDDEN, _first_line(error))
        if not isinstance(error, CosmosHttpResponseError | CosmosBatchOperationError):
            return cls(Meaning.AGAIN, _first_line(error))
        status, substatus = int(error.status_code or 0), int(error.sub_status or 0)
        text = f"{status}{f'/{substatus}' if substatus else ''} {_first_line(error)}"
        if status in _AGAIN or (status, substatus) in _AGAIN_FOR:
            return cls(Meaning.AGAIN, text, _retry_after(headers_of(error)))
        if status == 404 and substatus == _OWNER_NOT_FOUND:
            return cls(Meaning.NO_CONTAINER, text)
        meanings = {
            401: Meaning.FORBIDDEN,
            403: Meaning.FORBIDDEN,
            404: Meaning.MISSING,
            409: Meaning.TAKEN,
            412: Meaning.CONFLICT,
            413: Meaning.TOO_LARGE,
        }
        return cls(meanings.get(status, Meaning.REFUSED), text)

    def as_error(self, what: str) -> Exception:
        """The engine's error for it. `what` says what was being done."""
        match self.meaning:
            case Meaning.TAKEN:
                return Taken(f"{what}: a document of that id exists already")
            case Meaning.CONFLICT:
                return Conflict(f"{what}: it changed since it was read, or is complete")
            case Meaning.MISSING:
                return Missing(f"{what}: there is no such document")
            case Meaning.TOO_LARGE:
                return TooLarge(f"{what}: larger than a request to Cosmos DB may be, 2 MB ({self.text})")
            case Meaning.FORBIDDEN:
                return Unavailable(
                    f"{what}: Cosmos DB lets this app do nothing: its identity needs the data plane role 'Cosmos DB "
                    f"Built-in Data Contributor', or its key is wrong ({self.text})"
                )
            case Meaning.NO_CONTAINER:
                return Unavailable(f"{what}: the database or container doesn't exist any more ({self.text})")
            case Meaning.REFUSED:
                return Refused(f"{what}: {self.text}")
            case _:
                return Unavailable(f"{what}: {self.text}")


@dataclass(frozen=True)
class Resend:
    """The policy. Tests pass their own `sleep`, `clock` (seconds from any origin) and `random` (0 to 1)."""

    attempts: int = ATTEMPTS
    budget: float = BUDGET
    patience: float = PATIENCE
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random

    async def __call__(self, what: str, send: Callable[[], Awaitable[T]]) -> T:
        """The result of `send`, which is called as often as the policy allows. `what` says in errors what was being
        done. Raises StoreError or TooLarge."""
        start = self.clock()
        for number in range(1, self.attempts + 1):
            try:
                async with asyncio.timeout(self.patience):
                    return await send()
            except (*ERRORS, *_STUMBLES) as error:
                if not _is_known(error):
                    raise
                trouble = Trouble.of(error)
                pause = trouble.wait + self.random() * min(FIRST * 2 ** (number - 1), LONGEST)
                late = self.clock() + pause > start + self.budget
                if trouble.meaning is not Meaning.AGAIN or number == self.attempts or late:
                    raise trouble.as_error(what) from error
            await self.sleep(pause)
            if self.clock() > start + self.budget:  # the process was frozen
                raise trouble.as_error(what)
        raise AssertionError("unreachable")


def _is_known(error: Exception) -> bool:
    """Whether it is an error of a request, and not of the program."""
    return isinstance(error, ERRORS) or isinstance(error.__context__, CosmosHttpResponseError)


def headers_of(error: Exception) -> Mapping[str, Any]:
    """The headers of an answer that the SDK raised; none if there was no answer."""
    headers: Mapping[str, Any] | None = getattr(error, "headers", None)
    return headers or {}


def _retry_after(headers: Mapping[str, Any]) -> float:
    try:
        return max(0.0, float(headers.get("x-ms-retry-after-ms", 0)) / 1000)
    except ValueError:
        return 0.0


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else 'no answer'}"
