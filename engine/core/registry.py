"""The workflows of an app, found by name and version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.core.declarations import Workflow


class Registry:
    """The workflows of an app, by name and version. The last one given of a name is the one that starts run."""

    def __init__(self, workflows: Sequence[Workflow[Any, Any]]) -> None:
        if isinstance(workflows, Workflow):
            raise TypeError(f"a registry takes a list of workflows: [{workflows.name}]")
        self._versions: dict[tuple[str, str], Workflow[Any, Any]] = {}
        self._current: dict[str, Workflow[Any, Any]] = {}
        for workflow in workflows:
            if not isinstance(workflow, Workflow):
                raise TypeError(f"a registry takes functions decorated with @workflow, not {workflow!r}")
            if (workflow.name, workflow.version) in self._versions:
                raise ValueError(f"{workflow!r} is registered twice: give one another name or version")
            _ = (
                workflow.payload,
                workflow.result,
            )  # resolve the annotations now: a bad one must fail the start-up
            self._versions[workflow.name, workflow.version] = workflow
            self._current[workflow.name] = workflow

    def find(self, name: str, version: str) -> Workflow[Any, Any] | None:
        """The workflow that an execution was started with."""
        return self._versions.get((name, version))

    def current(self, name: str) -> Workflow[Any, Any] | None:
        """The workflow that a new execution starts with."""
        return self._current.get(name)

    def names(self) -> list[str]:
        """The names that can be started."""
        return sorted(self._current)
