"""Executions that an app can't drive and so leaves alone."""

from __future__ import annotations

from engine.core.registry import Registry
from engine.store.documents import Execution


def why_left_alone(execution: Execution, registry: Registry) -> str | None:
    """Why an app with this registry doesn't drive an execution that hasn't ended. None if the app drives it, or if the
    registry says that another app on the same store does."""
    if execution.is_complete:
        return None
    if execution.is_of_later_engine:
        flags = ", ".join(execution.logic_flags) or "none"
        return f"a later version of the engine wrote it (schema {execution.schema_version}, logic flags: {flags})"
    if not registry.knows(execution.workflow, execution.version):
        return f"this deployment lacks workflow {execution.workflow!r} version {execution.version!r}"
    return None
