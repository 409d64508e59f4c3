"""How a workflow's code ends: compensations, finalizers, the time limit, and the outcome.

Rules:
1. Compensations run if the workflow failed or was interrupted, the newest first. Finalizers run after them, the oldest
   first, however the workflow ended.
2. A compensation or finalizer that fails is recorded with the outcome. The others still run.
3. An interrupt may arrive after the code has ended well. Then the compensations run after all.
4. An interrupt and the time limit cancel the code only once. The second of them only changes the outcome.
5. Each finalizer knows the final outcome. If the outcome changes after a finalizer ran, the finalizer runs again.
6. A restart ends the run, not the execution. An interrupt wins over a restart: the execution ends as interrupted.
7. With `suspend_on_failure`, a mistake of the code itself (TypeError, KeyError) holds the execution. The execution then
   winds up only if it is interrupted.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from engine.core.declarations import Workflow
from engine.core.loop import DurableLoop
from engine.ground.errors import ActivityError, EncodingError, TooLarge
from engine.values.error_records import ErrorClasses, ErrorRecord, fitting, record
from engine.values.failures import Failure
from engine.values.logic_flags import LogicFlag
from engine.values.outcome import Outcome, OutcomeKind


class Restart(BaseException):
    """Ends the workflow's own code. The execution begins again with `payload`, a JSON text."""

    def __init__(self, payload: str) -> None:
        super().__init__(payload)
        self.payload = payload


class WindUp:
    """The end of one run's code."""

    def __init__(
        self, workflow: Workflow[Any, Any], loop: DurableLoop, flags: frozenset[str], raises: ErrorClasses
    ) -> None:
        self.outcome: Outcome | None = None
        self.next_payload: str | None = None
        """The payload of the next run, if the code ended with a restart."""
        self.interrupted = False
        self._reason = "the execution was interrupted"
        self.cause: BaseException | None = None
        """The error with which the workflow failed or was interrupted, for its compensations and finalizers."""
        self._workflow = workflow
        self._loop = loop
        self._raises = raises
        self._answers: list[BaseException] = []
        """The errors with which children answered."""
        self._has_endings = LogicFlag.ENDINGS in flags
        self._is_cancelled = False
        self._main: asyncio.Task[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._compensations: list[tuple[str, Callable[[], Awaitable[Any]]]] = []
        self._finalizers: list[Callable[[Outcome], Awaitable[Any]]] = []
        self._heard: dict[int, OutcomeKind] = {}
        """The last outcome that each finalizer was given, by the finalizer's place in the list."""
        self._errors: list[ErrorRecord] = []
        self._out_of_time: TimeoutError | None = None
        self.undone: list[str] = []
        """The compensations that have begun, by name."""

    @property
    def has_begun(self) -> bool:
        """Whether the workflow's own code has been started."""
        return self._main is not None

    def begin(self, arguments: tuple[Any, ...]) -> None:
        """Set the time limit, and start the workflow's own code."""
        if self._workflow.options.time_limit is not None:
            self._loop.call_later(self._workflow.options.time_limit.total_seconds(), self._run_out_of_time)
        self._main = self._loop.create_task(
            self._workflow.function(*arguments), name="workflow", context=contextvars.Context()
        )

    @property
    def has_ended(self) -> bool:
        """Whether the workflow's own code has ended."""
        return self._main is not None and self._main.done()

    @property
    def held(self) -> BaseException | None:
        """The error of the workflow's own code that holds the execution instead of failing it, or None."""
        main = self._main
        if main is None or not main.done() or self.interrupted or self._out_of_time is not None or main.cancelled():
            return None
        error = main.exception()
        return error if self._workflow.options.suspend_on_failure and self._is_mistake(error) else None

    def note_answer(self, error: BaseException | None) -> None:
        """Note the error with which a child answered, if there is one. It is no mistake of the code."""
        if error is not None:
            self._answers.append(error)

    @property
    def undoable(self) -> tuple[str, ...]:
        """The compensations that are registered and have not begun, by name."""
        return tuple(name for name, _ in self._compensations)

    def compensate(self, name: str, undo: Callable[[], Awaitable[Any]]) -> None:
        """Register `undo` under `name`. It runs if the workflow fails or is interrupted."""
        self._compensations.append((name, undo))

    def finalize(self, last: Callable[[Outcome], Awaitable[Any]]) -> None:
        """Register `last` to run at the very end."""
        self._finalizers.append(last)

    def restart(self, payload: str) -> NoReturn:
        """End the workflow's own code, so that it begins again. Raises RuntimeError in another task than the workflow's
        own, and if compensations or finalizers would be lost."""
        if asyncio.current_task(self._loop) is not self._main:
            raise RuntimeError("restart() must be called by the workflow's own code, not by one of its tasks")
        if self._compensations or self._finalizers:
            raise RuntimeError(
                f"restart() would lose {len(self._compensations)} compensations and {len(self._finalizers)} finalizers "
                "of this run: undo or finish what they are for first, in a try/finally of your own"
            )
        raise Restart(payload)

    def interrupt(self, reason: str | None) -> None:
        """Cancel the workflow's own code, with the reason as the message."""
        self.interrupted = True
        self._reason = reason or self._reason
        self.outcome = None
        assert self._main is not None
        if self._task is not None and self._task.done():
            self._task = None  # the code had ended well: its steps are undone now
        self._cancel(self._main, self._reason)

    def proceed(self) -> None:
        """Wind up as far as possible while the loop is idle. Sets the outcome once everything has ended."""
        assert self._main is not None
        if not self._main.done() or self.outcome is not None or self.held is not None:
            return
        if self._task is None:
            ended = self._end(self._main)
            if self._has_more(ended):
                self._task = self._loop.create_task(self._wind_up(self._main), context=contextvars.Context())
                self._loop.run_until_idle()
        if self._task is None or self._task.done():
            self.outcome = self._end(self._main)

    def _run_out_of_time(self) -> None:
        limit = self._workflow.options.time_limit
        if self._main is not None and not self._main.done():
            self._out_of_time = TimeoutError(f"the execution took longer than its time limit of {limit}")
            self._cancel(self._main, str(self._out_of_time))

    def _cancel(self, main: asyncio.Task[Any], reason: str) -> None:
        if not (self._is_cancelled and self._has_endings):
            self._is_cancelled = True
            main.cancel(reason)

    async def _wind_up(self, main: asyncio.Task[Any]) -> None:
        while self._has_more(ended := self._end(main)):  # look again each time: an interrupt may have come
            if self._compensations and ended.kind != "completed":
                name, undo = self._compensations.pop()
                self.undone.append(name)
                await self._try(undo)
            elif (place := self._next_to_tell(ended)) is not None:
                self._heard[place] = ended.kind
                last = self._finalizers[place]
                await self._try(lambda last=last, ended=ended: last(ended))  # type: ignore[misc]

    def _has_more(self, ended: Outcome) -> bool:
        undoes = bool(self._compensations) and ended.kind != "completed"
        return undoes or self._next_to_tell(ended) is not None

    def _next_to_tell(self, ended: Outcome) -> int | None:
        """The place of the first finalizer that doesn't know this outcome yet, or None."""
        for place in range(len(self._finalizers)):
            heard = self._heard.get(place)
            if heard is None or (self._has_endings and heard != ended.kind):
                return place
        return None

    async def _try(self, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            error = await (self._loop.create_task(self._perform(work)) if self._has_endings else self._perform(work))
        except asyncio.CancelledError as cancelled:  # the work cancelled its own task
            error = cancelled
        if error is not None:
            self._errors.append(record(error, self._raises))

    async def _perform(self, work: Callable[[], Awaitable[Any]]) -> BaseException | None:
        """Do the work. An error is returned instead of raised, because a raised GeneratorExit would close the awaiting
        code."""
        try:
            await work()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if isinstance(error, GeneratorExit) and self._loop.is_closed():  # the code is dropped
                raise
            return error
        return None

    def _end(self, main: asyncio.Task[Any]) -> Outcome:
        """How the workflow's own code ended."""
        error: BaseException | None = self._out_of_time
        value: str | None = None
        if error is None and main.cancelled():
            error = asyncio.CancelledError("the workflow cancelled itself")
        elif error is None and (error := main.exception()) is None:
            try:
                value, _ = self._workflow.result.round_trip(main.result())
            except (EncodingError, TooLarge) as problem:
                error = problem
        if isinstance(error, Restart):
            self.next_payload, error = None if self.interrupted else error.payload, None
        self.cause = error
        failures = fitting(self._errors)
        if self.interrupted:
            saved = None if main.cancelled() or error is None else record(error, self._raises)
            if saved is None:
                self.cause = asyncio.CancelledError(self._reason)
            return Outcome("interrupted", error=saved, compensation_errors=failures)
        if error is not None:
            return Outcome("failed", error=record(error, self._raises), compensation_errors=failures)
        return Outcome("completed", value=value, compensation_errors=failures)

    def _is_mistake(self, error: BaseException | None) -> bool:
        """Whether an error is a mistake of the code itself. A Failure, the error of an activity or a child, and a
        timeout are answers."""
        if isinstance(error, BaseExceptionGroup):
            return any(self._is_mistake(one) for one in error.exceptions)
        is_answer = isinstance(error, Failure | ActivityError | TimeoutError) or any(
            error is one for one in self._answers
        )
        return isinstance(error, Exception) and not is_answer
