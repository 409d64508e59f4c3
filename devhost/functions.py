"""Descriptions of an app's functions, as the host serves them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from devhost.retry import RetryPolicy


@dataclass(frozen=True)
class HttpTrigger:
    """Which HTTP requests call a function."""

    route: str
    """The route's template, without the prefix of all routes."""
    methods: frozenset[str] | None
    """HTTP methods in upper case. None means every method."""
    anonymous: bool
    """Whether callers may omit the key."""


@dataclass(frozen=True)
class TimerTrigger:
    """When a timer calls a function. `schedule` is an NCRONTAB expression. Its references to settings are resolved."""

    schedule: str
    run_on_startup: bool


@dataclass(frozen=True)
class FeedTrigger:
    """How a function gets the change feed."""

    poll_seconds: float
    """The pause after a read that returned no documents."""
    max_items: int
    """The most documents in one batch."""


@dataclass(frozen=True)
class QueueTrigger:
    """The queue whose messages call a function."""

    queue: str


@dataclass(frozen=True)
class QueueOutput:
    """An output parameter of a function, and the queue that gets the messages set in it."""

    parameter: str
    queue: str


@dataclass(frozen=True)
class Function:
    """One function of the app, ready to be called."""

    name: str
    call: Callable[..., Any]
    is_async: bool
    binding: str
    """The trigger's type, as the platform names it. The converter of the trigger's data has the same name."""
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
    left_out: tuple[str, ...] = ()
    """For each function that this host can't serve: its name, and why."""
