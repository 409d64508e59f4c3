"""The functions that authors use: `@workflow`, `@activity`, and what a workflow or activity may call while it runs."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import sys
import traceback
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, overload

from engine.core.activity import MISSING, Activity, SyncActivity, current_context
from engine.core.activity_info import ActivityInfo, current_info
from engine.core.attempt_state import details_of, lifespan_of, state_of, text_of
from engine.core.context import Context
from engine.core.declarations import KeyFunction, Workflow
from engine.core.options import DEFAULT_PARALLEL, Options, Tags
from engine.core.retry import Retry
from engine.values.limits import KeyOf, Limit
from engine.values.outcome import Outcome

if TYPE_CHECKING:
    from typing_extensions import TypeForm

P = ParamSpec("P")
R = TypeVar("R")


class _ActivityWords:
    """`@activity`, and what the code of an activity may call, such as `activity.info()`."""

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Activity[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncActivity[P, R]: ...
    @overload
    def __call__(
        self,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        raises: Sequence[type[BaseException]] = (),
        concurrency: int | None = None,
        limit: Limit | None = None,
        key: KeyOf | None = None,
    ) -> _ActivityDecorator: ...
    def __call__(  # type: ignore[misc]
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        raises: Sequence[type[BaseException]] = (),
        concurrency: int | None = None,
        limit: Limit | None = None,
        key: KeyOf | None = None,
    ) -> Any:
        """Make a function, async or not, an activity: a step that runs at least once and whose result is stored.

        name: the activity's name in the history. The default is the function's name. Never change it while executions
            run.
        retry: when to repeat a failed attempt. The default is never.
        timeout: the time limit of one attempt. The default is none. A sync function can't be stopped: its late result
            is ignored.
        raises: exception classes that come back as themselves. `Failure` subclasses always do.
        concurrency: how many attempts may run at once in the whole deployment, from 1 to 1,000. The default is any
            number.
        limit: how many attempts may begin within a period in the whole deployment, such as
            `Limit(10, per=timedelta(seconds=1))`. The default is any number.
        key: a function of some of the activity's parameters, by their names, such as `lambda order: order.tenant`. It
            gives a str or an int, and `concurrency` and `limit` then hold for each of these.

        Raises TypeError and ValueError for options that can't work.
        """
        decorator = _ActivityDecorator(name, retry, timeout, raises, (concurrency, limit, key))
        return decorator if function is None else decorator(function)

    def info(self) -> ActivityInfo:
        """The execution, step, attempt and idempotency key of the activity that is running. Raises RuntimeError
        outside of one."""
        return current_info()

    def heartbeat(self, details: object) -> None:
        """Note how far the activity that is running has come. The next attempt reads it with `last_heartbeat`, also
        after a crash.

        details: any value that can be stored, up to 4,096 characters as JSON. It replaces the details before it.

        Call it as often as you like: the details are written when the lease is extended (by default every 10 s), and
        when an attempt fails. A crash may lose what was noted since. The step's end deletes them. Raises RuntimeError
        outside an activity, and EncodingError or TooLarge for details that can't be stored.
        """
        state = state_of("activity.heartbeat()")
        state.details = text_of(details)

    @overload
    def last_heartbeat(self) -> Any: ...
    @overload
    def last_heartbeat(self, type: TypeForm[R]) -> R | None: ...
    def last_heartbeat(self, type: Any = Any) -> Any:
        """The details that this step noted last with `heartbeat`, in this attempt or an earlier one. None if there are
        none. `type` is the type of the details; without it, they are plain JSON. Raises RuntimeError outside an
        activity, and EncodingError if the details aren't of that type."""
        return details_of(state_of("activity.last_heartbeat()").details, type)

    def lifespan(self, type: type[R]) -> R:
        """What the app's lifespan has opened for this process, such as an HTTP client or a pool. `type` is its class.
        Raises RuntimeError outside an activity, and TypeError if the app has no lifespan or opened something else."""
        return lifespan_of(state_of("activity.lifespan()"), type)

    def is_cancelled(self) -> bool:
        """Whether nobody waits for this attempt any more: its timeout is over, the workflow gave the step up or was
        interrupted, the execution was terminated, or this process lost it or stops. A sync activity asks from time to
        time, and returns, because a thread can't be stopped. An async one is cancelled. Raises RuntimeError outside an
        activity."""
        return state_of("activity.is_cancelled()").is_cancelled


class _ActivityDecorator:
    def __init__(
        self,
        name: str | None,
        retry: Retry | None,
        timeout: timedelta | None,
        raises: Sequence[type[BaseException]],
        limits: tuple[int | None, Limit | None, KeyOf | None],
    ) -> None:
        self._options = (name, retry, timeout, raises, limits)

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Activity[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncActivity[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Activity[Any, Any]:
        kind = Activity if inspect.iscoroutinefunction(function) else SyncActivity
        return kind(function, *self._options)


class _WorkflowWords:
    """`@workflow`, and the replacements for functions that a replay can't repeat."""

    logger: logging.LoggerAdapter[logging.Logger]
    """Writes each line of a workflow once, however often its code is replayed."""

    def __init__(self) -> None:
        self.logger = _WorkflowLogger(logging.getLogger("engine.workflow"))

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Workflow[P, R]: ...
    @overload
    def __call__(
        self,
        *,
        name: str | None = None,
        version: str = "1",
        idempotency_key: KeyFunction | None = None,
        max_parallel: int = DEFAULT_PARALLEL,
        tags: Tags | None = None,
        suspend_on_failure: bool = False,
        time_limit: timedelta | None = None,
        retention: timedelta | None = None,
    ) -> Callable[[Callable[P, Awaitable[R]]], Workflow[P, R]]: ...
    def __call__(  # type: ignore[misc]
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        version: str = "1",
        idempotency_key: KeyFunction | None = None,
        max_parallel: int = DEFAULT_PARALLEL,
        tags: Tags | None = None,
        suspend_on_failure: bool = False,
        time_limit: timedelta | None = None,
        retention: timedelta | None = None,
    ) -> Any:
        """Make an async function of one payload (or none) a workflow.

        name: the workflow's name, with letters, digits, `_` and `.`. The default is the function's name.
        version: an execution continues with the version that started it. Register both versions while both are needed.
        idempotency_key: a function that makes a key of the payload. Starting twice with one key is starting once.
        max_parallel: how many activities of one execution run at a time.
        tags: texts by name, shown with each execution, and filtered by in lists; or a function that makes them of the
            payload at the start. At most 20, of 256 characters each.
        suspend_on_failure: whether an activity that fails for good, or a mistake of the workflow's own code
            (TypeError), suspends the execution. `resume` then runs it again.
        time_limit: after this time an execution is cancelled, compensated and failed with a TimeoutError.
        retention: how long a finished execution is kept, at least a minute. Zero means for ever. The default comes from
            the settings: 30 days. During this time, another start finds the execution instead of running it again.
        """
        options = Options(max_parallel, {} if tags is None else tags, suspend_on_failure, time_limit, retention)

        def decorate(function: Callable[..., Awaitable[Any]]) -> Workflow[Any, Any]:
            return Workflow(function, name, version, idempotency_key, options)

        return decorate if function is None else decorate(function)

    def now(self) -> datetime:
        """The time of the event that the workflow saw last, in UTC. The same in every replay."""
        return _context("workflow.now()").now

    def random(self) -> random.Random:
        """Random numbers that are the same in every replay of this execution."""
        return _context("workflow.random()").random

    def uuid4(self) -> uuid.UUID:
        """A random UUID that is the same in every replay, and different at each call."""
        return _context("workflow.uuid4()").random_uuid()

    def patched(self, patch: str) -> bool:
        """Whether this run goes by a change of its code: True where the code comes here for the first time, from then
        on in this run, and in its replays; False in the replay of a run that had passed here without the change.

        `patch` names the change, once for all: up to 200 printable characters. Raises ValueError for another id.
        """
        return _context("workflow.patched()").has_patch(patch)

    def deprecate_patch(self, patch: str) -> None:
        """In the place of `patched(patch)`, once no run goes the old way: its code is gone, and histories that record
        the patch still replay. Remove it once no such run is left, either. A run that had passed here without the
        change is suspended with NonDeterminism."""
        _context("workflow.deprecate_patch()").deprecate_patch(patch)

    def set_status(self, value: Any) -> None:
        """Show how far the execution is: in its status, in lists, on the page and by the command line.

        value: plain JSON data, a pydantic model, a dataclass or any other value that can be stored, up to 2,048 bytes
            of JSON text as stored. None clears it. The newest one counts. It survives a `restart`.

        It costs no request of its own. It is written together with what the engine writes next: at the latest when the
        execution is suspended or ends, or, while an activity runs, with the next heartbeat. Raises EncodingError or
        TooLarge for a value that can't be shown; then nothing changes.
        """
        _context("workflow.set_status()").set_status(value)

    def set_tag(self, name: str, text: str) -> None:
        """Set a tag of this execution, or change it. It is listed and filtered by as the tags of `tags=` are, and
        survives a `restart`. It is written as a status is.

        The limits of `tags=` hold: 20 tags, of 256 characters each. A tag can't be removed; its text may be empty.
        Raises TypeError for what isn't text, ValueError for one that is too long or one too many; then nothing changes.
        """
        _context("workflow.set_tag()").set_tag(name, text)

    def execution_id(self) -> str:
        """The id of this execution."""
        return _context("workflow.execution_id()").execution_id

    def cause(self) -> BaseException | None:
        """In a compensation or finalizer, the error with which the workflow failed. CancelledError if it was
        interrupted, None if it ended well."""
        return _context("workflow.cause()").cause

    def as_completed(
        self, awaitables: Iterable[Awaitable[R]], *, timeout: float | timedelta | None = None
    ) -> Iterator[Any]:
        """As `asyncio.as_completed`, but bare coroutines start in the given order. `asyncio.as_completed` starts them
        in the order of their memory addresses. `timeout`: seconds, or a timedelta."""
        _context("workflow.as_completed()")
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        return asyncio.as_completed([asyncio.ensure_future(a) for a in awaitables], timeout=seconds)


class _WorkflowLogger(logging.LoggerAdapter[logging.Logger]):
    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger, {})

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Keep the line until the events of its turn are recorded. The text is made now, because its arguments may
        change."""
        context: Context | None = current_context()
        if context is None:
            self.logger.log(level, msg, *args, **kwargs)
            return
        text, error = _formatted(msg, args), kwargs.get("exc_info")
        if kwargs.get("stack_info"):
            text += "\nStack (most recent call last):\n" + "".join(traceback.format_stack(limit=10)[:-1])
        if error and not isinstance(error, BaseException | tuple):
            error = sys.exc_info()
        context.write_log(level, text, error or None, kwargs.get("extra"))


def _formatted(message: object, args: tuple[object, ...]) -> str:
    try:
        return logging.LogRecord("", 0, "", 0, message, args, None).getMessage()
    except Exception as error:  # noqa: BLE001 - an argument's own formatting may raise anything
        return f"{message!r} can't be formatted with {len(args)} arguments: {type(error).__name__}"


def _context(what: str) -> Context:
    context: Context | None = current_context()
    if context is None:
        raise RuntimeError(f"{what} is for the code of a workflow")
    return context


def compensate(undo: Callable[P, Awaitable[Any]], *args: P.args, **kwargs: P.kwargs) -> None:
    """Register the compensation `undo(*args, **kwargs)`. It runs if the workflow fails or is interrupted.

    The newest compensation runs first, and each is durable. If one fails, the error is recorded with the outcome, and
    the others still run. Call this only from the code of a workflow.
    """
    context = _context("compensate()")
    if not callable(undo):
        raise TypeError(
            f"compensate() takes a function and its arguments, compensate(refund, payment), not {_given(undo)}"
        )
    context.compensate(_name_of(undo), lambda: _awaitable(undo(*args, **kwargs), f"compensate({_name_of(undo)}, …)"))


def finalizer(last: Callable[[Outcome], Awaitable[Any]]) -> None:
    """Register the async function `last` to run at the very end, after compensations, with the workflow's outcome.

    `last` may call activities. If an interrupt changes the outcome before it is recorded, `last` runs again. It doesn't
    run when the execution is suspended or terminated.
    """
    context = _context("finalizer()")
    if not callable(last):
        raise TypeError(f"finalizer() takes an async function of the outcome, not {last!r}")
    context.finalize(lambda outcome: _awaitable(last(outcome), f"finalizer({_name_of(last)})"))


def restart(payload: Any = MISSING) -> NoReturn:
    """End this run of the workflow, and begin the next one under the same execution id, with an empty history.

    The new run keeps channel values that nobody received, deferreds that nobody awaited, tags and waiting parents.
    Children that this run waits for are interrupted, as at its end. `payload` is the workflow's payload; leave it out
    if the workflow takes none. Call `restart` from the workflow's own code, not from a task that the code made. It
    raises a BaseException, so that `finally` blocks run. A time limit counts for each run.

    Raises EncodingError or TooLarge for a payload that can't be stored, and RuntimeError if compensations or finalizers
    are registered: they would be lost.
    """
    context = _context("restart()")
    context.restart(context.workflow.default_payload() if payload is MISSING else payload)


def _awaitable(made: Any, call: str) -> Awaitable[Any]:
    if not inspect.isawaitable(made):
        raise TypeError(f"{call} takes an activity or an async function; this one gave a {type(made).__name__}")
    return made


def _given(argument: object) -> str:
    return "the coroutine of a call" if inspect.iscoroutine(argument) else repr(argument)


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", function))


activity = _ActivityWords()
workflow = _WorkflowWords()
