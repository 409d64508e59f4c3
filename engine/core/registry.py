"""What an app consists of: its workflows, and the activities, deferreds and channels that they use.

Rules, each checked where the app is composed:
1. One name means one workflow (in each version), one activity, one deferred and one channel. The same function under
   one name is one activity, whatever its options. A deferred or channel may be declared several times with one type.
2. A workflow that another one calls is in the list as well, unless the app declares that another app runs it.
3. Every annotation of a used declaration can be resolved, and its type can be stored.
4. A declaration that no workflow code names, but that stands in a visited module, is also known by its name. If the
   code names another one with that name, the named one wins.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from engine.core.activity import Activity
from engine.core.declarations import Channel, Deferred, Schedule, Workflow
from engine.core.declared_errors import declared_errors
from engine.core.discovery import Found, reach
from engine.core.inline_step import InlineActivity, texts_beside_steps
from engine.core.schedules import plan_changes
from engine.core.source_places import class_place
from engine.ground.errors import NotDurable
from engine.values.error_records import ErrorClasses
from engine.values.failures import Failure, check_fields
from engine.values.same_type import is_same_type, shown_type

Declaration = Activity[Any, Any] | Deferred[Any] | Channel[Any] | Workflow[Any, Any]
D = TypeVar("D", bound=Activity[Any, Any] | Deferred[Any] | Channel[Any])


class Registry:
    """The workflows of an app by name and version, and what their code uses.

    workflows: the workflows that this app runs. If several have one name, new executions run the last one.
    declares: activities, deferreds and channels that the walk over the code can't find, because their names are made
        while the code runs. Also workflows that the code calls and that another app on the same store runs.

    Raises TypeError for an object that is no declaration or can't be stored. Raises ValueError for two declarations
    with one name, and for a called workflow that isn't in the list. The message names the files and lines.
    """

    def __init__(self, workflows: Sequence[Workflow[Any, Any]], declares: Sequence[Declaration] = ()) -> None:
        self._versions = by_version(workflows)
        self._current = {workflow.name: workflow for workflow in self._versions.values()}
        for each in declares:
            if not isinstance(each, Activity | Deferred | Channel | Workflow):
                raise TypeError(f"declares= takes activities, deferreds, channels and workflows, not {each!r}")
        self._elsewhere = {(w.name, w.version) for w in declares if isinstance(w, Workflow)}
        reached = reach(self._versions.values())
        self._schedules = {w.name: w.schedule for w in self._current.values() if w.schedule is not None}
        self._add_keepers()
        declares = [*declares, *([plan_changes] if self._schedules else [])]
        named = [*reached.named, *(Found(each, None) for each in declares)]
        # `from engine import *` puts the engine's own channel beside the app's. Only an app with schedules has it.
        beside = [found for found in reached.beside if found.value is not plan_changes]
        self._check_children(named)
        self._activities = _by_name(Activity, named, beside)
        self.raises: ErrorClasses = declared_errors(self._activities.values())
        """The exception classes that come back as themselves from children and from handles."""
        self._inline = set(texts_beside_steps(reached.functions))
        self._deferreds = _by_name(Deferred, named, beside)
        self._channels = _by_name(Channel, named, beside)
        _check_kinds_of_deferreds(self._deferreds)
        for found in named:
            _check_annotations(found.value)
        for found in beside:
            if isinstance(found.value, type):
                _check_annotations(found.value)

    def find(self, name: str, version: str) -> Workflow[Any, Any] | None:
        """The workflow that an execution was started with."""
        return self._versions.get((name, version))

    def current(self, name: str) -> Workflow[Any, Any] | None:
        """The workflow that a new execution starts with."""
        return self._current.get(name)

    def names(self) -> list[str]:
        """The names that can be started."""
        return sorted(self._current)

    def schedules(self) -> dict[str, Schedule]:
        """The schedules that the app declares, by the names of their workflows."""
        return dict(self._schedules)

    def knows(self, name: str, version: str) -> bool:
        """Whether this app runs a workflow, or declares that another app does."""
        return (name, version) in self._versions or (name, version) in self._elsewhere

    def activity_names(self) -> list[str]:
        """The names of all activities."""
        return sorted(self._activities)

    def step_names(self) -> list[str]:
        """The names of all activities, and the texts that stand beside calls of `step` and may be names of inline
        steps."""
        return sorted({*self._activities, *self._inline})

    def check_step(self, activity: Activity[Any, Any]) -> None:
        """Raise NotDurable for an inline step that has the name of an activity."""
        declared = self._activities.get(activity.name)
        if declared is not None and isinstance(activity, InlineActivity):
            raise NotDurable(
                f"{activity!r} ({activity.place}) has the name of an activity ({declared.place}): give the step "
                "another name. To run that activity, call it without step()"
            )

    def deferred(self, name: str) -> Deferred[Any] | None:
        """The deferred of that name. For `vote[ann]`, the deferred may also be made from the declared `vote`."""
        found, kind = self._deferreds.get(name), self._deferreds.get(_kind_of(name))
        if found is None and kind is not None:
            with contextlib.suppress(ValueError):  # `name` may not be a valid name
                found = kind[name[len(kind.name) + 1 : -1]]
        return found

    def deferred_names(self) -> list[str]:
        """The names of all deferreds."""
        return sorted(self._deferreds)

    def channel(self, name: str) -> Channel[Any] | None:
        """The channel of that name."""
        return self._channels.get(name)

    def channel_names(self) -> list[str]:
        """The names of all channels."""
        return sorted(self._channels)

    def check_type(self, given: Deferred[Any] | Channel[Any]) -> None:
        """Raise TypeError if the app's own deferred or channel of that name has another type."""
        own = self.deferred(given.name) if isinstance(given, Deferred) else self.channel(given.name)
        if own is not None and not _is_same(own, given):
            raise TypeError(_clash(f"{type(given).__name__.lower()} {given.name!r}", own, given))

    def _add_keepers(self) -> None:
        for keeper in by_version([schedule.keeper for schedule in self._schedules.values()]).values():
            other = self._current.setdefault(keeper.name, keeper)
            if other is not keeper:
                raise ValueError(_clash(f"workflow {keeper.name!r}", other, keeper))
            self._versions[keeper.name, keeper.version] = keeper

    def _check_children(self, named: Iterable[Found]) -> None:
        missing = dict[int, str]()
        for found in named:
            workflow = found.value
            if not isinstance(workflow, Workflow):
                continue
            registered = self._versions.get((workflow.name, workflow.version))
            if registered is not None and registered is not workflow:
                raise ValueError(
                    _clash(f"workflow {workflow.name!r} version {workflow.version!r}", registered, workflow)
                )
            if not self.knows(workflow.name, workflow.version):
                missing[id(workflow)] = f"{_shown(workflow)} ({workflow.place}) is called{_by(found)}"
        if missing:
            raise ValueError(
                "; ".join(missing.values()) + ", but isn't in the list of workflows, so nobody would run it: add it to "
                "WORKFLOWS, or give it to declares= if another app on the same store runs it"
            )


def raises_of(workflows: Sequence[Workflow[Any, Any]]) -> ErrorClasses:
    """The exception classes that a registry of these workflows has, also if it would refuse them as an app."""
    reached = reach(by_version(workflows).values())
    return declared_errors(_by_name(Activity, reached.named, reached.beside).values())


def by_version(workflows: Sequence[Workflow[Any, Any]]) -> dict[tuple[str, str], Workflow[Any, Any]]:
    """The workflows of a list, by name and version. Raises TypeError for any other object in the list, and ValueError
    for two workflows with one name and version."""
    if isinstance(workflows, Workflow):
        raise TypeError(f"an app takes a list of workflows: [{workflows.name}]")
    found = dict[tuple[str, str], Workflow[Any, Any]]()
    for workflow in workflows:
        if not isinstance(workflow, Workflow):
            raise TypeError(f"an app's list of workflows takes functions decorated with @workflow, not {workflow!r}")
        first = found.setdefault((workflow.name, workflow.version), workflow)
        if first is not workflow:
            raise ValueError(_clash(_shown(workflow), first, workflow))
    return found


def _by_name(kind: type[D], named: Iterable[Found], beside: Iterable[Found]) -> dict[str, D]:
    """The declarations of this kind by name. Those that code names replace those beside it."""
    first, second = _unique(kind, named), _unique(kind, beside)
    return second | first


def _unique(kind: type[D], all_found: Iterable[Found]) -> dict[str, D]:
    unique = dict[str, D]()
    for found in all_found:
        if isinstance(found.value, kind):
            first = unique.setdefault(found.value.name, found.value)
            if not _is_same(first, found.value):
                raise ValueError(_clash(f"{kind.__name__.lower()} {first.name!r}", first, found.value))
    return unique


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, Activity):
        return bool(one.function == other.function)
    return (one.codec.plain and other.codec.plain) or is_same_type(one.type, other.type)


def _check_kinds_of_deferreds(deferreds: dict[str, Deferred[Any]]) -> None:
    for name, deferred in deferreds.items():
        kind = deferreds.get(_kind_of(name))
        if kind is not None and not _is_same(kind, deferred):
            raise ValueError(_clash(f"deferred {name!r}", kind, deferred))


def _kind_of(name: str) -> str:
    """The name before the bracket in `vote[ann]`; empty if there is none."""
    return name.partition("[")[0] if name.endswith("]") else ""


def _clash(what: str, first: Any, second: Any) -> str:
    if isinstance(first, Workflow):
        cure = "give one of them another name or version"
    elif isinstance(first, Activity):
        cure = "a name means one activity in an app, so give one of them a name of its own, @activity(name=…)"
    else:
        what += f" is declared with two types, {shown_type(first.type)} and {shown_type(second.type)}"
        return f"{what}: {first.place} and {second.place}; a name means one type in an app, so rename one of them"
    if first.place == second.place:
        return f"{what} is made several times at {first.place}, each time of something else; {cure}"
    return f"{what} is declared twice, at {first.place} and at {second.place}; {cure}"


def _shown(workflow: Workflow[Any, Any]) -> str:
    return f"workflow {workflow.name!r} version {workflow.version!r}"


def _by(found: Found) -> str:
    if found.within is None:
        return ""
    code = found.within.__code__
    return f" by {found.within.__qualname__} ({code.co_filename}:{code.co_firstlineno})"


def _check_annotations(value: Any) -> None:
    try:
        match value:
            case Activity():
                _ = value.signature
            case Workflow():
                _ = value.payload, value.result
            case Deferred() | Channel():
                _ = value.codec
            case type() if issubclass(value, Failure):
                check_fields(value)
    except Exception as error:
        place = class_place(value) if isinstance(value, type) else value.place
        raise TypeError(f"{place}: {error}") from error
