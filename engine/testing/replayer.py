"""Replays recorded histories with today's code, to check that the code still follows them.

recording = await export(store, execution_id)         # JSON text: keep it beside your tests
replay(recording, WORKFLOWS)                          # raises NonDeterminism where the code has changed

python -m engine.testing workflows recordings/*.json
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.boundary.client import id_of
from engine.boundary.handle import Handle
from engine.core.declarations import Workflow
from engine.core.registry import by_version, raises_of
from engine.driving.runs import run_of
from engine.ground.errors import DecodingError, NonDeterminism, UnknownWorkflow, Unreadable
from engine.store.base import Store, payload_of
from engine.store.documents import Chunk, Execution, of_run
from engine.values.codec import Codec
from engine.values.events import effective
from engine.values.outcome import Outcome


class NoRecording(ValueError):
    """A text isn't a recording of an execution."""


@dataclass(frozen=True)
class Replayed:
    """The end of a recording with today's code: its outcome, or the steps that it waits for."""

    outcome: Outcome | None
    waiting: list[str]


async def export(store: Store, execution: str | Handle[Any]) -> str:
    """The recording of an execution, as JSON text. `execution` is its handle or its id. Raises StoreError if there is
    no such execution."""
    execution_id = id_of(execution)
    stored = await store.read(execution_id)
    loaded = await store.load(execution_id, stored.history_start)
    chunks = of_run(loaded.chunks, stored.run_id, stored.history_start)
    payload = payload_of(stored, loaded, [event for chunk in chunks[:1] for event in chunk.decoded()])
    result = loaded.output.value if loaded.output else stored.completed_result
    document = stored.model_copy(update={"payload": payload, "completed_result": result}).to_document()
    history = [chunk.to_document() for chunk in chunks]
    return json.dumps({"execution": document, "history": history}, indent=1)


def replay(recording: str, workflows: Sequence[Workflow[Any, Any]]) -> Replayed:
    """Replay a recording with today's code. No activity runs: each gives back its recorded result.

    Raises UnknownWorkflow if no workflow has the recording's name and version, and NoRecording for a text that `export`
    didn't write. Raises the Fault that would suspend the execution, such as NonDeterminism if the code asks for another
    step or ends with another outcome.
    """
    try:
        parsed = json.loads(recording)
        execution = Execution.from_document(parsed["execution"])
        chunks = [Chunk.from_document(chunk) for chunk in parsed["history"]]
    except (ValueError, TypeError, KeyError, DecodingError, Unreadable) as error:
        raise NoRecording(f"this isn't a recording of an execution: {type(error).__name__}: {error}") from error
    workflow = by_version(workflows).get((execution.workflow, execution.version))
    if workflow is None:
        raise UnknownWorkflow(f"no workflow is named {execution.workflow!r} with version {execution.version!r}")
    history = effective(event for chunk in chunks for event in chunk.decoded())
    run = run_of(workflow, execution, execution.payload, history, raises_of(workflows))
    try:
        run.begin()
        for event in history:
            run.apply(event)
        replayed = Replayed(run.outcome, [f"{step.kind} {step.id}" for step in run.open_steps()])
    finally:
        run.close()
    _compare(workflow, execution, replayed)
    return replayed


def _is_same(codec: Codec, one: str | None, other: str | None) -> bool:
    """Whether two results are equal as data. The text of a set may differ from process to process."""
    if one is None or other is None or one == other:
        return one == other
    return bool(codec.canonical(codec.decode(one)) == codec.canonical(codec.decode(other)))


def _compare(workflow: Workflow[Any, Any], execution: Execution, replayed: Replayed) -> None:
    if not execution.is_complete or execution.outcome == "terminated":
        return
    today = replayed.outcome
    if today is None:
        raise NonDeterminism(
            f"the recording ended as {execution.outcome}, but today's code still waits for {replayed.waiting}"
        )
    if today.kind != execution.outcome or not _is_same(workflow.result, today.value, execution.completed_result):
        raise NonDeterminism(
            f"the recording ended as {execution.outcome} with {execution.completed_result}, but today's code ends as "
            f"{today.kind} with {today.value}"
        )
    was, now = (error.type if error else None for error in (execution.error, today.error))
    if was != now:
        raise NonDeterminism(
            f"the recording ended as {execution.outcome} with {was}, but today's code ends as {today.kind} with {now}"
        )
