"""Spans and metrics of the engine, made with OpenTelemetry's API. The app decides where to send them.

1. Only this module imports OpenTelemetry. Everything here does nothing without the package (the extra `telemetry`), or
   without a provider that the app has set.
2. Spans and metrics contain names, numbers and classes of errors. They never contain a value, a key or a message.
3. An execution belongs to the trace in which it was started. Its first segment is a span of that trace, and so are the
   activities and children of that segment. Each later segment begins its own trace, linked to the first one. An
   execution may last for years; a trace can't.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context, attach, detach
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    IS_PRESENT = False
else:
    IS_PRESENT = True

SCOPE = "durable-workflows"
"""The name under which spans and metrics are exported."""

COUNTERS = {
    "durable.executions.ended": "Executions that have ended, by workflow and outcome.",
    "durable.executions.suspended": "Suspensions with a cause, by workflow and cause: Quarantined, NonDeterminism, …",
    "durable.activity.attempts": "Attempts of activities, by activity and whether they failed.",
    "durable.activity.retries": "Attempts after the first, by activity.",
    "durable.store.requests": "Requests to the database, by operation and status.",
    "durable.store.request_units": "Request units of Cosmos DB, by operation.",
}
LEVELS = {"durable.drives": "Executions that are driven now."}
MEASURES = {
    "durable.feed.lag": "Age of the oldest change in a batch of the feed.",
    "durable.sweep.overdue": "How long the execution that is due for longest has waited, at each sweep.",
    "durable.loop.blocked": "How long the event loop stood still, when a warning named what blocks it.",
}
"""In seconds."""

_Attributes = Mapping[str, str | int | float]


def instruments(meter: Any) -> dict[str, Any]:
    """Every instrument, by name."""
    counters = {name: meter.create_counter(name, description=text) for name, text in COUNTERS.items()}
    levels = {name: meter.create_up_down_counter(name, description=text) for name, text in LEVELS.items()}
    return counters | levels | {name: meter.create_histogram(name, "s", text) for name, text in MEASURES.items()}


_instruments: dict[str, Any] = {}
if IS_PRESENT:
    _tracer = trace.get_tracer(SCOPE)
    _instruments |= instruments(metrics.get_meter(SCOPE))
    _traceparent = TraceContextTextMapPropagator()


def add(name: str, amount: float = 1, **attributes: str | int) -> None:
    """Add to one of COUNTERS or LEVELS."""
    if (instrument := _instruments.get(name)) is not None:
        instrument.add(amount, attributes)


def measure(name: str, seconds: float, **attributes: str | int) -> None:
    """Record one of MEASURES."""
    if (instrument := _instruments.get(name)) is not None:
        instrument.record(max(0.0, seconds), attributes)


def traceparent() -> str | None:
    """The current span in the format of W3C trace context. None without a current span."""
    carrier: dict[str, str] = {}
    if IS_PRESENT and trace.get_current_span().get_span_context().is_valid:
        _traceparent.inject(carrier)
    return carrier.get("traceparent")


@contextlib.contextmanager
def continued(parent: str | None) -> Iterator[None]:
    """Spans inside belong to the trace that a caller names in the header `traceparent`. A text that can't be read is
    ignored."""
    if not IS_PRESENT or (context := _context(parent)) is None:
        yield
        return
    with _current(trace.get_current_span(context)):
        yield


@contextlib.contextmanager
def segment(execution_id: str, workflow: str, started_in: str | None, is_first: bool) -> Iterator[Marks]:
    """A span for one execution segment: from the claim until the execution is let go."""
    attributes = {"durable.execution_id": execution_id, "durable.workflow": workflow}
    add("durable.drives")
    try:
        with _span(f"drive {workflow}", attributes, started_in, belongs=is_first) as marks:
            yield marks
    finally:
        add("durable.drives", -1)


@contextlib.contextmanager
def attempt(activity: str, execution_id: str, step: str, number: int) -> Iterator[Marks]:
    """A span for one attempt of an activity. `number` counts from 1. A cancelled attempt isn't counted: it leaves no
    trace, and runs again."""
    attributes: _Attributes = {
        "durable.activity": activity,
        "durable.execution_id": execution_id,
        "durable.step": step,
        "durable.attempt": number,
    }
    with _span(f"activity {activity}", attributes) as marks:
        yield marks
    add("durable.activity.attempts", activity=activity, outcome="failed" if marks.error else "completed")
    if number > 1:
        add("durable.activity.retries", activity=activity)


@contextlib.contextmanager
def request(operation: str) -> Iterator[Marks]:
    """A span for one request to the database. A request without an answer has the status 0."""
    with _span(f"store {operation}", {"db.operation.name": operation}, is_client=True) as marks:
        try:
            yield marks
        finally:
            add("durable.store.requests", operation=operation, status=marks.status)
            add("durable.store.request_units", marks.request_units, operation=operation)


class Marks:
    """The facts about a span that are known only at its end."""

    def __init__(self, span: Any = None) -> None:
        self._span = span
        self.error: str | None = None
        self.status = 0
        self.request_units = 0.0

    def answered(self, status: int, request_units: float) -> None:
        """Note that the database has answered with this HTTP status."""
        self.status, self.request_units = status, request_units
        self.note("db.response.status_code", status)
        self.note("durable.request_units", request_units)

    def failed(self, kind: str) -> None:
        """Note that the span ended with an error of this class."""
        self.error = kind
        self.note("error.type", kind)
        if self._span is not None:
            self._span.set_status(Status(StatusCode.ERROR))

    def note(self, name: str, value: str | int | float) -> None:
        """Add an attribute."""
        if self._span is not None:
            self._span.set_attribute(name, value)


@contextlib.contextmanager
def _span(
    name: str, attributes: _Attributes, started_in: str | None = None, *, belongs: bool = True, is_client: bool = False
) -> Iterator[Marks]:
    """Begin a span and make it current. With `started_in`, the span is in that trace, or linked to it if not `belongs`.
    Without `started_in`, it is in the current trace."""
    if not IS_PRESENT:
        yield Marks()
        return
    start = _context(started_in)
    links = [] if start is None or belongs else [Link(trace.get_current_span(start).get_span_context())]
    context = start if belongs else Context()
    kind = SpanKind.CLIENT if is_client else SpanKind.INTERNAL
    span: Span = _tracer.start_span(name, context, kind, attributes, links)
    marks = Marks(span)
    try:
        with _current(span):
            yield marks
    except BaseException as error:
        marks.failed(type(error).__name__)
        raise
    finally:
        span.end()


@contextlib.contextmanager
def _current(span: Span) -> Iterator[None]:
    """That span is the current one. A coroutine that is closed because nobody awaits it any more, as with its event
    loop, ends in the context of whoever frees it: there is nothing to restore."""
    token, is_freed = attach(trace.set_span_in_context(span)), False
    try:
        yield
    except GeneratorExit:
        is_freed = True
        raise
    finally:
        if not is_freed:
            detach(token)


def _context(parent: str | None) -> Context | None:
    if parent is None:
        return None
    context = _traceparent.extract({"traceparent": parent}, Context())
    return context if trace.get_current_span(context).get_span_context().is_valid else None
