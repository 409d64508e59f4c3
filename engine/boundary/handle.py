"""A handle: one execution as code outside the workflow sees it, with the type of its result."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar, overload

from engine.boundary.status import Status
from engine.core.activity import MISSING
from engine.core.declarations import Channel, Deferred, Workflow
from engine.ground.errors import InvalidInput
from engine.values.failures import Failure

R = TypeVar("R")
T = TypeVar("T")


class Speaker(Protocol):
    """The calls of its client that a handle needs."""

    async def status(self, execution: str) -> Status: ...

    async def wait(self, execution: str, timeout: float | timedelta | None = None) -> Status: ...

    async def resolve(self, execution: str, deferred: Any, value: Any = None) -> Status: ...

    async def reject(self, execution: str, deferred: str | Deferred[Any], failure: Failure) -> Status: ...

    async def send(self, execution: str, channel: Any, value: Any, *, key: str | None = None) -> Status: ...

    async def interrupt(self, execution: str, *, reason: str | None = None) -> Status: ...

    async def resume(self, execution: str) -> Status: ...

    async def retry(self, execution: str) -> Status: ...

    async def fork(
        self,
        execution: str,
        from_: str,
        payload: Any = MISSING,
        *,
        results: Mapping[str, Any] | None = None,
        key: str | None = None,
        reason: str | None = None,
    ) -> Handle[Any]: ...

    async def terminate(self, execution: str) -> Status: ...

    async def purge(self, execution: str) -> None: ...


class Handle(Generic[R]):
    """One execution of a workflow that returns R. Made by `client.start` and `client.handle`.

    A handle holds no state. You may make any number of handles for one execution, in any process.
    """

    def __init__(self, client: Speaker, workflow: Workflow[Any, R], execution_id: str) -> None:
        self._client = client
        self._workflow = workflow
        self.execution_id = execution_id

    async def status(self) -> Status:
        """The execution's status. Raises UnknownExecution."""
        return await self._client.status(self.execution_id)

    async def wait(self, timeout: float | timedelta | None = None) -> Status:
        """Wait until the execution has ended, for `timeout` at most. Returns its status then. Raises
        UnknownExecution."""
        return await self._client.wait(self.execution_id, timeout)

    async def result(self, timeout: float | timedelta | None = None) -> R:
        """Wait until the execution has ended, and return the workflow's result. `timeout`: seconds, or a timedelta.

        Raises the error with which the execution failed: a Failure or an exception of a class in the app's `raises=` as
        itself, any other as ActivityError. Raises ExecutionStopped if the execution was interrupted or terminated,
        TimeoutError if it hasn't ended in time, UnknownExecution if there is no such execution, and InvalidInput if the
        execution belongs to another workflow.
        """
        status = await self.wait(timeout)
        if status.workflow != self._workflow.name:
            raise InvalidInput(
                f"execution {self.execution_id} belongs to workflow {status.workflow}, not to {self._workflow.name}"
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
        """Resolve a deferred with a value. The first value wins. The same value again is a success. Raises
        UnknownExecution, UnknownDeferred, InvalidInput, EncodingError, AlreadyResolved, AlreadyEnded."""
        return await self._client.resolve(self.execution_id, deferred, value)

    async def reject(self, deferred: str | Deferred[Any], failure: Failure) -> Status:
        """Resolve a deferred with a typed failure. The failure is raised where the workflow awaits the deferred. Raises
        as `resolve` does."""
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
        """Ask the execution to stop and clean up. Once the interrupt is accepted, the execution ends as interrupted. If
        it had ended before, `interrupted` is False in the returned status.

        reason: up to 1,000 characters. The status shows it, and it is the message of the CancelledError in the
            workflow. If there are several interrupts, the first reason stays.

        Raises UnknownExecution, InvalidInput.
        """
        return await self._client.interrupt(self.execution_id, reason=reason)

    async def resume(self) -> Status:
        """Let a suspended execution run again, including a quarantined one. Raises UnknownExecution, AlreadyEnded."""
        return await self._client.resume(self.execution_id)

    async def retry(self) -> Status:
        """Let an execution that failed or was interrupted run again, with today's code. Its history is kept up to the
        step that failed. A running execution stays unchanged. Raises UnknownExecution. Raises NotReopened if the
        execution ended in another way, if its compensations have run, or if a parent knows its end."""
        return await self._client.retry(self.execution_id)

    async def fork(
        self,
        from_: str,
        payload: Any = MISSING,
        *,
        results: Mapping[str, Any] | None = None,
        key: str | None = None,
        reason: str | None = None,
    ) -> Handle[R]:
        """Start a new execution that takes over the history of this one up to a step, and goes on from there. This
        execution stays as it is. Returns the handle of the fork.

        from_: the step, as the history names it: `charge`, `charge#2`, a deferred's name.
        payload: another payload for the fork. What it changes must come after the step.
        results: other results for steps before it, by step. The code must still come to the step.
        key: the idempotency key of the fork. Forking again with it returns the same fork. Without a key, each call
            makes another fork.
        reason: up to 1,000 characters. The status and the history of the fork show it. If forking is asked for again
            with a key, the first reason stays.

        Raises UnknownExecution. Raises NotForked if something can't come along, or if the history doesn't replay, with
        this payload or at all. Raises AlreadyStarted if the key names another execution, and InvalidInput,
        EncodingError or TooLarge for what is given.
        """
        return await self._client.fork(self.execution_id, from_, payload, results=results, key=key, reason=reason)

    async def terminate(self) -> Status:
        """End the execution at once, and run nothing: no cleanup, no compensation. Its children go on. Raises
        UnknownExecution, AlreadyEnded."""
        return await self._client.terminate(self.execution_id)

    async def purge(self) -> None:
        """Delete all documents of the execution, which must have ended. Raises UnknownExecution, NotEnded."""
        await self._client.purge(self.execution_id)

    def __repr__(self) -> str:
        return f"<handle of {self._workflow.name} {self.execution_id}>"
