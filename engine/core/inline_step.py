"""Inline steps: functions that a workflow runs as durable steps without a declaration, by `step("name", function)`.

Rules:
1. An inline step is an activity whose name is given at the call. It is recorded, retried, replayed and shown as one.
2. One name means one function in a run. Functions with the same code are the same: a lambda in a loop is made anew in
   each round, and so is a method of a new object.
3. Only the arguments are recorded. What the function captures, or is bound to, is not.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from types import CodeType, FunctionType
from typing import Any, ParamSpec, Self, TypeVar, cast, overload

from engine.core.activity import MISSING, Activity, Call, CallsActivities, current_context, named, plain
from engine.core.bytecode import names_of, texts_of
from engine.core.declarations import Workflow
from engine.core.retry import Retry
from engine.ground.names import checked_name

P = ParamSpec("P")
R = TypeVar("R")


class InlineActivity(Activity[P, R]):
    """An activity that one call of `step` makes of a function."""

    MADE_BY = "step()"
    KIND = "step"

    def is_same(self, other: Activity[Any, Any]) -> bool:
        return isinstance(other, InlineActivity) and _code(self.function) == _code(other.function)

    def sharing_with(self, known: Activity[Any, Any]) -> Activity[Any, Any]:
        """With the signature that was built before. A replay may come to a step a thousand times."""
        if _annotations(known.function) == _annotations(self.function):
            self.__dict__["signature"] = known.signature
        return self

    def __repr__(self) -> str:
        return f"<step {self.name}>"


def _code(function: Any) -> CodeType | Any:
    """What two functions share that do the same with other captured values."""
    return getattr(plain(function), "__code__", plain(function))


def _annotations(function: Any) -> tuple[type, Any]:
    return type(function), getattr(plain(function), "__annotations__", None)


class Steps:
    """`step("name", function, *args)`: a call of any function as a durable step, with the options of this object."""

    __name__ = "step"

    def __init__(
        self, retry: Retry | None, timeout: timedelta | None = None, raises: Sequence[type[BaseException]] = ()
    ) -> None:
        self._retry = retry
        self._timeout = timeout
        self._raises = raises

    @overload
    def __call__(
        self, name: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Call[R]: ...
    @overload
    def __call__(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Call[R]: ...
    def __call__(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Call[Any]:
        """Run a function as a durable step, as in `await step("fetch", fetch, url)`. For the code of a workflow.

        name: the step's name in the history. Never change it while executions run.
        function: any function, async or not, also a lambda or a method. A sync one runs in a thread. Its annotations
            say how arguments and result are stored. Without annotations they are plain JSON.
        args, kwargs: the function's arguments. They are recorded. What the function captures isn't recorded.

        The step runs at least once. It makes three attempts, by `Retry()`; `step.with_options` sets another rule.
        Awaiting it raises `ActivityError`, or a `Failure` as itself. Raises RuntimeError outside a workflow, TypeError
        for what isn't a function, and EncodingError if an argument can't be stored. Two functions under one name, or
        the name of an activity, suspend the execution with NotDurable.
        """
        run = current_context()
        if run is None:
            raise RuntimeError(f"step({name!r}, …) is for the code of a workflow. Elsewhere, call the function itself")
        _check_function(name, function)
        activity = InlineActivity[..., Any](function, name, self._retry, self._timeout, self._raises)
        return named(cast(CallsActivities, run).call_activity(activity, args, kwargs), repr(activity))

    def with_options(
        self,
        *,
        retry: Retry | None = MISSING,
        timeout: timedelta | None = MISSING,
        raises: Sequence[type[BaseException]] = MISSING,
    ) -> Self:
        """`step` with other options, as in `step.with_options(timeout=minute)("fetch", fetch, url)`.

        retry: when to repeat a failed attempt. None: never.
        timeout: the time limit of one attempt. None: no limit.
        raises: exception classes that come back as themselves. `Failure` subclasses always do.
        """
        return type(self)(
            self._retry if retry is MISSING else retry,
            self._timeout if timeout is MISSING else timeout,
            self._raises if raises is MISSING else raises,
        )


step = Steps(Retry())


def _check_function(name: object, function: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f'step() takes a name first, as in step("fetch", fetch, url), not {name!r}')
    checked_name(name, InlineActivity.KIND)
    if isinstance(function, Activity | Workflow):
        raise TypeError(f"{function!r} is a step by itself: await {function.name}(…), without step()")
    if inspect.iscoroutine(function):
        function.close()
        raise TypeError(f"step({name!r}, …) is given the coroutine of a call: give the function, then its arguments")
    try:
        inspect.signature(function)
    except ValueError:
        raise TypeError(
            f"step({name!r}, …): Python knows no signature of {function!r}: wrap it in a function of your own"
        ) from None
    except TypeError:
        raise TypeError(f"step({name!r}, …) takes a function, not {function!r}") from None


def texts_beside_steps(functions: Iterable[FunctionType]) -> Iterator[str]:
    """The texts in those functions that call `step`. The names of their steps are among them."""
    for function in functions:
        names = names_of(function.__code__)
        values = [function.__globals__.get(root) for root, *_ in names.from_globals]
        imported = any("step" in each.names for each in names.imports)
        if imported or any(isinstance(value, Steps) for value in values) or "step" in names.attributes:
            yield from texts_of(function.__code__)
            yield from (value for value in values if isinstance(value, str))
