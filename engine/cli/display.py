"""The API's answers, laid out for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from engine.cli.output import text

Json = Mapping[str, Any]

STYLES = {
    "completed": "green",
    "failed": "red",
    "stuck": "red",
    "interrupted": "yellow",
    "terminated": "yellow",
    "missing": "yellow",
}
MAX_VALUE = 160
"""The most characters of a value in a table."""


def state_of(status: Json) -> str:
    """The outcome of an execution, or its state, in one word."""
    if "outcome" in status:
        return str(status["outcome"])
    if status.get("suspended"):
        return "stuck" if "cause" in status else "suspended"
    return str(status.get("status", "running"))


def state(status: Json) -> Text:
    """The word of `state_of` in its colour."""
    word = state_of(status)
    return text(word, STYLES.get(word, ""))


def error_text(error: Json) -> str:
    """An error and what caused it, on one line."""
    message = f"{error['type']}: {error['message']}" if error.get("message") else str(error["type"])
    inner = "; ".join(error_text(one) for one in error.get("exceptions") or ())
    message += f" ({inner})" if inner else ""
    return f"{message}, caused by {error_text(error['cause'])}" if error.get("cause") else message


def show_execution(status: Json) -> RenderableType:
    """One execution, with a line for each field of its status."""
    table = _plain("", "")
    table.show_header = False
    table.add_row(text("execution"), text(status["executionId"], "bold"))
    table.add_row(text("workflow"), text(f"{status['workflow']}, version {status['version']}"))
    table.add_row(text("state"), state(status))
    shown = {"executionId", "workflow", "version", "status", "outcome", "suspended", "links", "pending"}
    for name, value in status.items():
        if name in shown or value is False:
            continue
        match name:
            case "error" | "cause":
                table.add_row(text(name), text(error_text(value), "red"))
            case "compensationErrors":
                table.add_row(text(name), text("; ".join(map(error_text, value)), "red"))
            case "tags":
                table.add_row(text(name), text(", ".join(f"{tag}={it}" for tag, it in value.items())))
            case _:
                table.add_row(text(name), text(value))
    return table


def show_list(executions: Sequence[Json]) -> RenderableType:
    """A table of executions, one on each line."""
    table = _plain("execution", "workflow", "state", "created", "")
    for one in executions:
        problem = one.get("cause") or one.get("error")
        table.add_row(
            text(one["executionId"]),
            text(one["workflow"]),
            state(one),
            text(one["createdAt"]),
            text(_cut(error_text(problem)) if problem else custom_status(one)),
        )
    return table if executions else text("no execution")


def custom_status(status: Json) -> str:
    """What the workflow's code shows of itself, on one line. Empty if it shows nothing."""
    return _cut(str(text(status["customStatus"]))) if "customStatus" in status else ""


def show_family(family: Json) -> RenderableType:
    """The tree of an execution's family."""

    def label(one: Json) -> Text:
        mark = "bold" if one["executionId"] == family["executionId"] else ""
        name = one.get("workflow", "")
        parts = [text(f"{one['step']}: " if one.get("step") else ""), text(f"{name} ", mark), state(one)]
        parts += [
            text(f" {one['executionId']}", "dim"),
            text(f" {one['problem']}" if one.get("problem") else "", "red"),
        ]
        return Text.assemble(*parts)

    def grow(tree: Tree, one: Json) -> Tree:
        for child in one.get("children", ()):
            grow(tree.add(label(child)), child)
        return tree

    root = family["root"]
    tree = grow(Tree(label(root)), root)
    return Group(tree, text("the tree has more executions, which aren't shown")) if family.get("truncated") else tree


def show_events(events: Sequence[Json]) -> RenderableType:
    """A table of the events of a history, one on each line."""
    table = _plain("", "at", "event", "step", "attempt", "took", "")
    for event in events:
        took = event.get("durationSeconds")
        table.add_row(
            text(event["number"]),
            text(event["at"]),
            text(event["kind"]),
            text(event.get("step", "")),
            text(event.get("attempt", "")),
            text("" if took is None else f"{took:g} s"),
            text(_cut(_event_value(event))),
        )
    return table


def show_stack(steps: Sequence[Json]) -> RenderableType:
    """The steps that an execution waits for, each with the lines of source that asked for it."""
    return Group(*(line for step in steps for line in _step_lines(step)))


def step_line(step: Json) -> Text:
    """A step that an execution waits for, on one line."""
    parts = [f"{step['kind']} {step['step']}", f"since {step['since']}"]
    if step.get("attempt", 1) > 1:
        parts.append(f"attempt {step['attempt']}")
    if "value" in step.get("details", {}):
        parts.append(f"heartbeat {text(step['details']['value'])[:MAX_VALUE]}")
    parts += [f"{word} {step[name]}" for word, name in (("next try", "nextTryAt"), ("due", "dueAt")) if name in step]
    if child := step.get("child"):
        parts.append(f"{child['workflow']} {child['executionId']} {state_of(child)}")
        parts += [child["leftAlone"]] if "leftAlone" in child else []
    if error := step.get("lastError"):
        parts.append(f"last error {_cut(error_text(error))}")
    return text(", ".join(parts))


def _step_lines(step: Json) -> Iterator[Text]:
    yield step_line(step)
    for line in step["stack"]:
        yield text(f"    {line['file']}:{line['line']} in {line['function']}", "dim")


def _event_value(event: Json) -> str:
    if error := event.get("error"):
        retry = f", tried again at {event['retryAt']}" if "retryAt" in event else ""
        return error_text(error) + retry
    if result := event.get("result"):
        return str(text(result["value"])) if "value" in result else f"{result['size']:,} characters"
    return " ".join(str(event[name]) for name in ("child", "worker") if name in event)


def _cut(value: str) -> str:
    return value if len(value) <= MAX_VALUE else f"{value[: MAX_VALUE - 1]}…"


def _plain(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("execution", "at", "created", "state"))
    return table
