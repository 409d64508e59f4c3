"""Workflows that a test replaces. Callers start a workflow by its own name, and a function of the test runs instead."""

from __future__ import annotations

import copy
import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.core.declarations import Workflow
from engine.core.discovery import reach
from engine.core.registry import Declaration, Registry

StandIn = Callable[..., Any]


class StagedRegistry(Registry):
    """An app in which functions stand in for workflows. A function stands in for every version of its workflow.

    The list need not contain a replaced workflow, nor the workflows that it calls. Raises as `Registry` does. Raises
    ValueError for a name that no workflow here has, and TypeError if a stand-in isn't a function of the same payload.
    """

    def __init__(
        self,
        workflows: Sequence[Workflow[Any, Any]],
        declares: Sequence[Declaration],
        replaced: Mapping[str, StandIn],
    ) -> None:
        real = [each for each in _reached(workflows) if each.name in replaced] if replaced else []
        for name in replaced:
            if name not in {each.name for each in real}:
                raise ValueError(_unknown(name, workflows))
        self._stand_ins = {(each.name, each.version): _stand_in(each, replaced[each.name]) for each in real}
        super().__init__(workflows, [*declares, *_reached(real)])

    def find(self, name: str, version: str) -> Workflow[Any, Any] | None:
        """The workflow with this name and version, or its stand-in."""
        return self._stand_ins.get((name, version)) or super().find(name, version)


def _reached(workflows: Sequence[Workflow[Any, Any]]) -> list[Workflow[Any, Any]]:
    """These workflows, and all workflows that their code calls."""
    called = [found.value for found in reach(workflows).named if isinstance(found.value, Workflow)]
    return list({id(each): each for each in (*workflows, *called)}.values())


def _stand_in(real: Workflow[Any, Any], function: StandIn) -> Workflow[Any, Any]:
    shown = f"children={{{real.name!r}: …}} takes a function of {'the payload' if real.takes_payload else 'nothing'}"
    if not callable(function) or isinstance(function, Workflow):
        raise TypeError(f"{shown}, not {function!r}")
    try:
        inspect.signature(function).bind(*([None] if real.takes_payload else []))
    except TypeError as error:
        raise TypeError(f"{shown}: {error}") from None

    async def run(*payload: Any) -> Any:
        result = function(*payload)
        return await result if inspect.isawaitable(result) else result

    one = copy.copy(real)
    one.__dict__ |= {"payload": real.payload, "result": real.result}  # the real types, which `run` doesn't show
    one.function = run
    return one


def _unknown(name: str, workflows: Sequence[Workflow[Any, Any]]) -> str:
    names = sorted({each.name for each in _reached(workflows)})
    close = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names) or 'none'}"
    return (
        f"children= names {name!r}, which is no workflow of this environment, nor one that its workflows call; {hint}"
    )
