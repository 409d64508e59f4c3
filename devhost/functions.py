"""What the host knows of each function that it serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from devhost.retry import RetryPolicy


@dataclass(frozen=True)
class HttpTrigger:
    """When an HTTP request calls a function."""

    route: str
    """The route's template, without the prefix of all routes."""
    methods: frozenset[str] | None
    """Upper-case HTTP methods; None for every one."""
    anonymous: bool
    """Whether callers need no key."""


@dataclass(frozen=True)
class TimerTrigger:
    """When a timer calls a function. `schedule` is an NCRONTAB expression with its references resolved."""

    schedule: str
    run_on_startup: bool


@dataclass(frozen=True)
class FeedTrigger:
    """How the change feed is handed to a function."""

    poll_seconds: float
    """The pause after a read that returned no documents."""
    max_items: int
    """Documents in one batch, at most."""


@dataclass(frozen=True)
class QueueTrigger:
    """Which queue's messages call a function."""

    queue: str


@dataclass(frozen=True)
class QueueOutput:
    """Where the messages go that a function sets in a parameter."""

    parameter: str
    queue: str


@dataclass(frozen=True)
class Function:
    """One function of the app, ready to be called."""

    name: str
    call: Callable[..., Any]
    is_async: bool
    binding: str
    """The trigger's type as the platform names it; it also names the converter of the trigger's data."""
    trigger: HttpTrigger | TimerTrigger | FeedTrigger | QueueTrigger
    parameter: str
    """The parameter that takes the trigger's data."""
    as_text: bool
    """Whether that parameter takes the data as JSON text (it is annotated `str`)."""
    wants_context: bool
    has_return: bool
    """Whether the function may return anything but None."""
    retry: RetryPolicy | None
    outputs: tuple[QueueOutput, ...] = ()


@dataclass(frozen=True)
class App:
    """A loaded app."""

    name: str
    module: ModuleType
    functions: tuple[Function, ...]
