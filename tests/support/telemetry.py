"""Spans and metrics in memory, in place of those that an app exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from engine.ground import telemetry


@dataclass(frozen=True)
class Span:
    """A span that has ended: ids, and what it told."""

    trace_id: int
    span_id: int
    parent: int | None
    links: tuple[int, ...]
    attributes: Mapping[str, Any]
    is_error: bool


def _plain(span: ReadableSpan) -> Span:
    assert span.context is not None
    parent = None if span.parent is None else span.parent.span_id
    links = tuple(link.context.span_id for link in span.links)
    is_error = span.status.status_code is StatusCode.ERROR
    return Span(span.context.trace_id, span.context.span_id, parent, links, dict(span.attributes or {}), is_error)


@dataclass
class Recorded:
    """What the engine has told since."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def spans(self, name: str) -> list[Span]:
        """Those that have ended and are named so, in the order of their starts."""
        ended = [span for span in self.exporter.get_finished_spans() if span.name == name]
        return [_plain(span) for span in sorted(ended, key=lambda span: span.start_time or 0)]

    def points(self, name: str) -> list[Any]:
        """The data points of a metric."""
        data = self.reader.get_metrics_data()
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]

    def totals(self, name: str, *labels: str) -> Mapping[tuple[Any, ...], float]:
        """The sums of a counter by those attributes."""
        sums: dict[tuple[Any, ...], float] = {}
        for point in self.points(name):
            key = tuple(point.attributes[label] for label in labels)
            sums[key] = sums.get(key, 0) + point.value
        return sums


def record(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Have the engine tell this, until the test ends."""
    recorded = Recorded()
    traces, meters = TracerProvider(shutdown_on_exit=False), MeterProvider([recorded.reader], shutdown_on_exit=False)
    traces.add_span_processor(SimpleSpanProcessor(recorded.exporter))
    monkeypatch.setattr(telemetry, "_tracer", traces.get_tracer(telemetry.SCOPE))
    monkeypatch.setattr(telemetry, "_instruments", telemetry.instruments(meters.get_meter(telemetry.SCOPE)))
    return recorded
