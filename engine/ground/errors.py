"""Every error of the engine, grouped by who has to act.

    Exception
    ├── Failure                 base of the user's own typed failures: an answer, not a fault
    ├── ActivityError           stands in the workflow for any other exception of an activity
    │   └── ActivityErrorGroup  stands for a group of exceptions
    ├── RetryAfter              an activity asks for its next attempt at a certain time
    ├── EncodingError           a value can't be stored as its declared type (the author's code)
    ├── TooLarge                a value or document passes the store's limit (the author's code)
    ├── Fault                   the deployment is at fault: the execution is suspended, never failed
    │   ├── NonDeterminism      the code no longer matches the recorded history
    │   ├── NotDurable          the workflow awaited something that can't be replayed
    │   ├── DecodingError       a stored value doesn't fit today's types
    │   ├── CodeFailed          the workflow's own code failed, under `suspend_on_failure`
    │   ├── Stuck               the workflow waits for something that nothing can bring
    │   ├── HistoryFull         a run has recorded more events than the settings allow
    │   ├── Quarantined         the execution keeps killing its drivers
    │   ├── NotRegistered       the workflow called a child that no app runs
    │   ├── UnknownLogic        a later version of the engine began the execution
    │   └── MissingDocument     the store lacks a document that the execution counts
    ├── ClientError             a request can't be met; the message says why
    │   ├── UnknownWorkflow, UnknownExecution, UnknownDeferred
    │   ├── InvalidInput        names the field
    │   ├── AlreadyStarted, AlreadySent, AlreadyResolved
    │   ├── AlreadyEnded, NotEnded, ExecutionStopped
    │   ├── LaterEngine         a later version of the engine wrote the execution
    │   ├── NotReopened         an execution that has ended can't run again
    │   ├── NotForked           an execution can't be forked there, or not with that payload
    │   └── UnreadableExecution
    └── StoreError
        ├── Conflict            another writer changed the document first: read again
        ├── Taken               a document of that id exists already
        ├── Missing             no such document
        ├── Unreadable          the exec document can't be read: it was changed by hand, or cut off
        ├── Refused             the store refuses the request
        └── Unavailable         the store can't be reached, or its answer was lost: the write may have happened

`Failure` has its own file, failures.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime


class ActivityError(Exception):
    """An activity failed with an exception that the workflow's author didn't declare.

    `type_name` is the exception's class name, `message` its text, `traceback` the text of its traceback in the
    activity, and `__cause__` the exception that caused it, in the same form.
    """

    def __init__(self, type_name: str, message: str, traceback: str = "") -> None:
        super().__init__(type_name, message, traceback)
        self.type_name = type_name
        self.message = message
        self.traceback = traceback

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}" if self.message else self.type_name


class ActivityErrorGroup(ExceptionGroup[Exception], ActivityError):  # type: ignore[override]
    """An activity failed with a group of exceptions, such as an `asyncio.TaskGroup` raises. Each exception in the group
    comes back as it would alone, so `except* CardDeclined` finds it. `type_name` is the class name of the group."""

    type_name: str

    def __new__(cls, message: str, exceptions: Sequence[Exception], type_name: str) -> ActivityErrorGroup:
        group = super().__new__(cls, message, exceptions)
        group.type_name = type_name
        return group

    def __init__(self, message: str, exceptions: Sequence[Exception], type_name: str) -> None:
        Exception.__init__(self, message, exceptions)
        self.traceback = ""

    def derive(self, excs: Sequence[Exception], /) -> ActivityErrorGroup:  # type: ignore[override]
        return ActivityErrorGroup(self.message, excs, self.type_name)


class RetryAfter(Exception):
    """Raised by an activity that knows when its next attempt makes sense.

    `when` is a delay (a timedelta, or seconds), a moment (a datetime with a time zone), or the text of an HTTP
    `Retry-After` header. The attempt counts as failed, and the activity's `retry=` still limits the attempts. Only the
    delay comes from here, and `max_delay` doesn't shorten it. Raise it `from` the error that caused it.

    Raises ValueError for a negative delay, for a moment without a time zone, and for text that isn't such a header.
    """

    def __init__(self, when: timedelta | float | datetime | str, message: str = "") -> None:
        super().__init__(message or f"try again after {when}")
        self.when = _moment_or_delay(when)

    def delay(self, now: datetime) -> timedelta:
        """How long to wait from `now` on."""
        return self.when if isinstance(self.when, timedelta) else max(self.when - now, timedelta(0))


def _moment_or_delay(when: timedelta | float | datetime | str) -> timedelta | datetime:
    if isinstance(when, str):
        return _moment_or_delay(_from_header(when))
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise ValueError(f"RetryAfter takes a moment with a time zone, not {when!r}")
        return when
    seconds = when.total_seconds() if isinstance(when, timedelta) else when
    if not 0 <= seconds <= timedelta.max.total_seconds():
        raise ValueError(f"RetryAfter takes a delay of zero or more, not {when!r}")
    return timedelta(seconds=seconds)


def _from_header(text: str) -> float | datetime:
    try:
        return float(text) if text.strip().isdecimal() else parsedate_to_datetime(text)
    except ValueError:
        raise ValueError(f"RetryAfter takes the text of a Retry-After header, not {text[:80]!r}") from None


class EncodingError(TypeError):
    """A value can't be stored as its declared type. The message names the place, the type and the reason."""


class TooLarge(ValueError):
    """A value is larger than a document may be. The message names the place, the size and the limit, in bytes."""


class Fault(Exception):
    """The deployment, not the workflow, is at fault. The execution is suspended with this as its cause, and its
    recorded history stays unchanged. After a corrected deployment, `resume` lets the execution continue."""


class NonDeterminism(Fault):
    """The workflow's code asked for something that differs from its history."""


class NotDurable(Fault):
    """The workflow used a function that a replay can't repeat. The message names the call and its replacement."""


class DecodingError(Fault):
    """A stored value can't be read as the type that today's code declares."""


class CodeFailed(Fault):
    """The workflow has `suspend_on_failure`, and a mistake of its own code raised `error`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"the workflow's own code raised {type(error).__name__}: {error}")
        self.error = error


class Stuck(Fault):
    """The workflow waits for something that no step, no timer and nobody outside can ever bring."""


class HistoryFull(Fault):
    """A run has recorded as many events as the settings allow. The message names `restart`, which begins a new
    history."""


class Quarantined(Fault):
    """The execution was claimed too many times without progress, because its driver dies each time."""


class UnknownLogic(Fault):
    """The execution carries a logic flag that this version of the engine doesn't know."""


class NotRegistered(Fault):
    """The workflow called a workflow that isn't in the app's list. The call can't be found before the code runs."""


class MissingDocument(Fault):
    """The execution counts more documents than the store returns, even after several reads."""


class ClientError(Exception):
    """A request that can't be met. The message says what was wrong and what to do."""


class UnknownWorkflow(ClientError):
    """No workflow of that name is registered."""


class UnknownExecution(ClientError):
    """No execution has that id. It may have been purged."""


class UnknownDeferred(ClientError):
    """No deferred of that name is declared."""


class InvalidInput(ClientError):
    """The input doesn't fit the declared type. `fields` lists pairs of a field and its problem."""

    def __init__(self, message: str, fields: list[tuple[str, str]] | None = None) -> None:
        super().__init__(message)
        self.fields = fields or []


class AlreadyEnded(ClientError):
    """The execution has ended and takes no more input."""


class ExecutionStopped(ClientError):
    """The execution was interrupted or terminated, so it has no result."""


class UnreadableExecution(ClientError):
    """The execution's exec document can't be read. The message says what is wrong. Somebody must repair the
    document."""


class LaterEngine(ClientError):
    """A later version of the engine wrote the execution in a schema that this one doesn't know. It isn't changed."""


class NotReopened(ClientError):
    """The execution has ended in a way that doesn't let it run again. The message says why."""


class NotForked(ClientError):
    """The execution can't be forked from that step, or not with that payload. The message says why. Nothing is
    stored."""


class NotEnded(ClientError):
    """The execution still runs, or has ended only a moment ago. The request is only for executions that are over."""


class AnotherValue(ClientError):
    """A request was made before with another value. `differences` says where the values differ, with both.
    `outer_differences` says the same with the aliases of fields, as they are called over HTTP."""

    def __init__(self, message: str, differences: Sequence[str], outer_differences: Sequence[str]) -> None:
        super().__init__(message)
        self.differences = tuple(differences)
        self.outer_differences = tuple(outer_differences)

    @property
    def outer_message(self) -> str:
        """The message with the aliases of fields."""
        return str(self).replace("; ".join(self.differences), "; ".join(self.outer_differences))


class AlreadySent(AnotherValue):
    """Another value was sent to the channel before with this key."""


class AlreadyStarted(AnotherValue):
    """An execution was started before with this idempotency key and another payload. That execution goes on unchanged.
    `execution_id` is its id."""

    def __init__(
        self, message: str, execution_id: str, differences: Sequence[str], outer_differences: Sequence[str]
    ) -> None:
        super().__init__(message, differences, outer_differences)
        self.execution_id = execution_id


class AlreadyResolved(ClientError):
    """The deferred was resolved before with another value. `first` is the JSON text of that value or error."""

    def __init__(self, message: str, first: str) -> None:
        super().__init__(message)
        self.first = first


class StoreError(Exception):
    """Base of the errors that a store raises."""


class Conflict(StoreError):
    """Another writer changed the document since it was read. Nothing was written."""


class Taken(StoreError):
    """A document with that id was written by someone else. Nothing was written."""


class Missing(StoreError):
    """No such document."""


class Unreadable(StoreError):
    """An exec document can't be read. The message names the execution and the problem. The execution is unusable until
    somebody repairs the document."""


class Refused(StoreError):
    """The store refuses the request, and sending it again won't help. Nothing was written."""


class Unavailable(StoreError):
    """The store gave no answer that says what happened. The write may have happened or not."""
