"""A handle: one execution, seen from outside, with the type of its result."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar, overload

from engine.boundary.status import Status
from engine.core.declarations import Channel, Deferred, Workflow
from engine.ground.errors import InvalidInput
from engine.values.failures import Failure

R = TypeVar("R")
T = TypeVar("T")


class Speaker(Protocol):
    """What a handle asks of its client."""

    async def status(self, execution: str) -> Status: ...

    async def wait(self, execution: str, timeout: float | timedelta | None = None) -> Status: ...

    async def resolve(self, execution: str, deferred: Any, value: Any = None) -> Status: ...

    async def reject(self, execution: str, deferred: str | Deferred[Any], failure: Failure) -> Status: ...

    async def send(self, execution: str, channel: Any, value: Any, *, key: str | None = None) -> Status: ...

    async def interrupt(self, execution: str, *, reason: str | None = None) -> Status: ...

    async def resume(self, execution: str) -> Status: ...

    async def retry(self, execution: str) -> Status: ...

    async def terminate(self, execution: str) -> Status: ...

    async def purge(self, execution: str) -> None: ...


class Handle(Generic[R]):
    """One execution of a workflow that returns R. Made by `client.start` and `client.handle`.

    A handle holds nothing: make as many of one execution as you like, in any process.
    """

    def __init__(self, client: Speaker, workflow: Workflow[Any, R], execution_id: str) -> None:
        self._client = client
        self._workflow = workflow
        self.execution_id = execution_id

    async def status(self) -> Status:
        """How the execution stands. Raises UnknownExecution."""
        return await self._client.status(self.execution_id)

    async def wait(self, timeout: float | timedelta | None = None) -> Status:
        """Its status once it has ended, or as it stands after `timeout`. Raises UnknownExecution."""
        return await self._client.wait(self.execution_id, timeout)

    async def result(self, timeout: float | timedelta | None = None) -> R:
        """What the workflow returned, once the execution has ended. `timeout`: in seconds, or a timedelta.

        Raises the Failure or ActivityError that the execution ended with, ExecutionStopped if it was interrupted or
        terminated, TimeoutError if it hasn't ended in time, UnknownExecution if there is no such execution, and
        InvalidInput if the execution is one of another workflow.
        """
        status = await self.wait(timeout)
        if status.workflow != self._workflow.name:
            raise InvalidInput(
                f"execution {self.execution_id} is one of workflow {status.workflow}, not of {self._workflow.name}"
            )
        if not status.is_complete:
            raise TimeoutError(f"execution {self.execution_id} hasn't ended yet: ask again, the execution goes on")
        status.check()
        value: R = self._workflow.result.decode(status.result or "null")
        return value

    @overload
    async def resolve(self, deferred: Deferred[None]) -> Status: ...
    @overload
    async def resolve(self, deferred: Deferred[T], value: T) -> Status: ...
    @overload
    async def resolve(self, deferred: str, value: Any = None) -> Status: ...
    async def resolve(self, deferred: Any, value: Any = None) -> Status:
        """Resolve a deferred with a value. The first value wins: the same value again is a success. Raises
        UnknownExecution, UnknownDeferred, InvalidInput, EncodingError, AlreadyResolved, AlreadyEnded."""
        return await self._client.resolve(self.execution_id, deferred, value)

    async def reject(self, deferred: str | Deferred[Any], failure: Failure) -> Status:
        """Resolve a deferred with a typed failure, which is raised where the workflow awaits the deferred. Raises as
        `resolve` does."""
        return await self._client.reject(self.execution_id, deferred, failure)

    @overload
    async def send(self, channel: Channel[T], value: T, *, key: str | None = None) -> Status: ...
    @overload
    async def send(self, channel: str, value: Any, *, key: str | None = None) -> Status: ...
    async def send(self, channel: Any, value: Any, *, key: str | None = None) -> Status:
        """Send a value to a channel. With a `key`, sending the value again changes nothing. Raises UnknownExecution,
        UnknownDeferred for a channel that nobody declares, InvalidInput, EncodingError, AlreadyEnded, and AlreadySent
        for another value under that key."""
        return await self._client.send(self.execution_id, channel, value, key=key)

    async def interrupt(self, *, reason: str | None = None) -> Status:
        """Ask the execution to stop and clean up. Once accepted, the execution ends as interrupted; `interrupted` is
        False in the status of one that had ended before. `reason`: up to 1,000 characters, shown in the status, and the
        message of the CancelledError in the workflow; of several, the first stays. Raises UnknownExecution,
        InvalidInput."""
        return await self._client.interrupt(self.execution_id, reason=reason)

    async def resume(self) -> Status:
        """Let a suspended execution run again, also a quarantined one. Raises UnknownExecution, AlreadyEnded."""
        return await self._client.resume(self.execution_id)

    async def retry(self) -> Status:
        """Let an execution that failed or was interrupted run again, with the code of today. Its history is kept up to
        the step that failed. One that runs is left as it is. Raises UnknownExecution, and NotReopened for one that
        ended otherwise, whose compensations have run, or whose end a parent knows."""
        return await self._client.retry(self.execution_id)

    async def terminate(self) -> Status:
        """End the execution at once, and run nothing: no cleanup, no compensation. Its children go on. Raises
        UnknownExecution, AlreadyEnded."""
        return await self._client.terminate(self.execution_id)

    async def purge(self) -> None:
        """Delete all that is stored of the execution, which has ended. Raises UnknownExecution, NotEnded."""
        await self._client.purge(self.execution_id)

    def __repr__(self) -> str:
        return f"<handle of {self._workflow.name} {self.execution_id}>"
