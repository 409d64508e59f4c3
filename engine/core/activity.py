"""Activities: functions that a workflow calls as durable steps. Nothing here runs by itself."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from types import MethodType
from typing import Any, ClassVar, Generic, ParamSpec, Protocol, Self, TypeVar, cast

from engine.core.loop import DurableLoop
from engine.core.retry import NEVER, Retry
from engine.core.source_places import declared_at
from engine.ground.names import checked_name
from engine.values.codec import Signature
from engine.values.limits import declared_limits

P = ParamSpec("P")
R = TypeVar("R")

Call = Coroutine[object, object, R]
"""A call that gives an R when awaited. The type contains no Any, because mypy finds no type for an `asyncio.gather` of
calls whose types contain Any."""
MISSING: Any = object()
"""Stands for a payload or an option that wasn't given. None can't, because None may be given."""


class CallsActivities(Protocol):
    """What an activity needs from the context of the workflow code that calls it."""

    def call_activity(self, activity: Activity[Any, Any], args: Any, kwargs: Any) -> Coroutine[Any, Any, Any]: ...


class StandIns(Protocol):
    """Functions that run in place of the activities' own functions, in tests."""

    def function_of(self, activity: Activity[Any, Any]) -> Callable[..., Any]: ...

    def is_async(self, activity: Activity[Any, Any]) -> bool: ...


stand_ins: contextvars.ContextVar[StandIns | None] = contextvars.ContextVar("stand_ins", default=None)
"""In the context of a driver: the stand-ins that its activities run. None: they run their own functions."""


def current_context() -> Any:
    """The context of the run whose code is being executed, or None outside of workflow code."""
    loop = asyncio._get_running_loop()
    return loop.owner if isinstance(loop, DurableLoop) else None


class Activity(Generic[P, R]):
    """A function that a workflow calls as a durable step. Made by `@activity`.

    In a workflow, a call is a step: it is awaited once and runs at least once, and its result is stored. Anywhere else,
    a call calls the plain function.
    """

    MADE_BY: ClassVar[str] = "@activity"
    """What the author has written, for messages."""
    KIND: ClassVar[str] = "activity"
    """What it is called in messages."""

    def __init__(
        self,
        function: Callable[P, R] | Callable[P, Awaitable[R]],
        name: str | None,
        retry: Retry | None,
        timeout: timedelta | None,
        raises: Sequence[type[BaseException]],
        limits: tuple[object, object, object] = (None, None, None),
    ) -> None:
        generates = inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)
        if (not inspect.isroutine(function) and not isinstance(function, functools.partial)) or generates:
            hint = ": it has a yield, which makes it a generator" if generates else ""
            raise TypeError(f"{self.MADE_BY} takes a function or an async function, not {function!r}{hint}")
        if _stands_in_a_class(function):
            raise TypeError(
                f"{self.MADE_BY} can't take {plain(function).__qualname__} from its class: no instance would be "
                f"given. Give it an instance's method, as in charge = activity(Payments(client).charge)"
            )
        _check_attempts(retry, timeout)
        if not isinstance(raises, Sequence):
            raise TypeError(f"raises= takes a list of exception classes, not {raises!r}")
        for declared in raises:
            if not (isinstance(declared, type) and issubclass(declared, Exception)) or issubclass(
                declared, StopIteration | StopAsyncIteration
            ):
                raise TypeError(f"raises= takes exception classes that a coroutine may raise, not {declared!r}")
        functools.update_wrapper(cast(Any, self), function)
        self.function: Callable[..., Any] = function
        self.origin: Activity[Any, Any] = self
        """The activity as it was declared, without the options of one call."""
        self.name = checked_name(name or plain(function).__name__, self.KIND)
        self.retry = retry or NEVER
        self.timeout = timeout
        self.raises = tuple(raises)
        self.limits = declared_limits(function, f"{self.KIND} {self.name}", *limits)
        """Its limits across the deployment. None: there are none."""
        self._is_async = inspect.iscoroutinefunction(function)
        self._shown = repr(self)
        self.place = declared_at()

    def is_same(self, other: Activity[Any, Any]) -> bool:
        """Whether both may have one name in a run. `self` is the one that was called later."""
        return self.origin is other.origin

    def sharing_with(self, known: Activity[Any, Any]) -> Activity[Any, Any]:
        """This activity, with what it may take over from one of its name that was called before in the run."""
        return self

    @property
    def to_run(self) -> Callable[..., Any]:
        """The function that an attempt runs: the author's function, or its stand-in in a test."""
        others = stand_ins.get()
        return self.function if others is None else others.function_of(self)

    @property
    def is_async(self) -> bool:
        """Whether `to_run` is async. A function that isn't async runs in a thread."""
        others = stand_ins.get()
        return self._is_async if others is None else others.is_async(self)

    @functools.cached_property
    def signature(self) -> Signature:
        """How arguments and result are stored. It is built at first use, when every annotation can be resolved."""
        return Signature(self.function, f"{self.KIND} {self.name}")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        run = current_context()
        if run is None:
            return cast(Call[R], self.function(*args, **kwargs)) if self._is_async else self._plain_call(args, kwargs)
        return named(cast(CallsActivities, run).call_activity(self, args, kwargs), self._shown)

    def with_options(self, *, retry: Retry | None = MISSING, timeout: timedelta | None = MISSING) -> Self:
        """The same activity with other options for one call, as in `charge.with_options(timeout=minute)(order)`.

        retry: when to repeat a failed attempt of this call. None: never.
        timeout: the time limit of one attempt. None: no limit.

        An option that isn't given stays as declared. The history doesn't record options. So they may change while
        executions run, and a change applies to all later attempts. Raises TypeError and ValueError as `@activity` does.
        """
        _check_attempts(None if retry is MISSING else retry, None if timeout is MISSING else timeout)
        one = copy.copy(self)
        one.retry = self.retry if retry is MISSING else retry or NEVER
        one.timeout = self.timeout if timeout is MISSING else timeout
        return one

    def _plain_call(self, args: Any, kwargs: Any) -> Call[R]:
        async def call() -> R:
            made = self.function(*args, **kwargs)
            result: R = await made if inspect.isawaitable(made) else made
            return result

        return named(call(), self._shown)

    def __repr__(self) -> str:
        return f"<activity {self.name}>"


class SyncActivity(Activity[P, R]):
    """An activity whose function is sync and runs in a thread. Its calls are awaited, like those of every activity.
    `function` is the plain function: `pack.function("lamp")` calls it without a workflow and without `await`."""

    function: Callable[P, R]


def plain(function: Any) -> Any:
    """The function under `functools.partial` and bound methods."""
    while isinstance(function, functools.partial | MethodType):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    return function


def _check_attempts(retry: object, timeout: object) -> None:
    if retry is not None and not isinstance(retry, Retry):
        raise TypeError(f"retry= takes a Retry, such as Retry(max_attempts=3), not {retry!r}")
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"the timeout of an activity must be a timedelta, not {timeout!r}")
    if timeout is not None and timeout <= timedelta(0):
        raise ValueError(f"the timeout of an activity must be more than zero, not {timeout}")


def _stands_in_a_class(function: Any) -> bool:
    within = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not inspect.isfunction(function) or not within or within.endswith("<locals>"):
        return False
    return next(iter(inspect.signature(function).parameters), "") == "self"


def named(call: Call[R], name: str) -> Call[R]:
    """Name the coroutine of a call, for Python's warning if nobody awaits it."""
    cast(Any, call).__qualname__ = name
    return call
