"""What a workflow's code left behind at its end: tasks whose failure nobody saw, and unfinished steps and tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.core.loop import DurableLoop
from engine.core.steps import Step, TimerStep

MAX_LEFTOVERS = 20
"""The most texts for one execution, because the exec document has to stay small. The rest are only counted."""
MAX_TEXT = 200
"""The most characters of one text."""


def leftovers(loop: DurableLoop, steps: Iterable[Step]) -> tuple[str, ...]:
    """One text for each leftover: failures first, then steps, then tasks. If there are more than MAX_LEFTOVERS, the
    last text counts the rest."""
    texts = [_cut(text) for text in _all(loop, steps)]
    if len(texts) <= MAX_LEFTOVERS:
        return tuple(texts)
    return (*texts[: MAX_LEFTOVERS - 1], f"{len(texts) - MAX_LEFTOVERS + 1} more")


def have_failures(texts: Iterable[str]) -> bool:
    """Whether any of these leftovers is a failed task."""
    return any(text.startswith("task ") and " failed: " in text for text in texts)


def _all(loop: DurableLoop, steps: Iterable[Step]) -> Iterator[str]:
    for name, error in loop.unseen_failures():
        yield f"task {name} failed: {type(error).__name__}: {error}"
    for step in steps:
        if not (isinstance(step, TimerStep) and step.id == "time limit"):
            yield f"{step.kind} {step.id} was not finished"
    for name in loop.unfinished_tasks():
        yield f"task {name} was not finished"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"
