"""The app of the chaos run: the real triggers, over the run's own workflows, and a sweep that comes more often."""

from __future__ import annotations

import azure.functions as func

import workflows
from tests.verification.chaos.program import CHAOS

workflows.WORKFLOWS[:] = CHAOS  # before the app reads them

from function_app import app, runtime  # noqa: E402

__all__ = ["app", "runtime"]


@app.timer_trigger("timer", schedule="*/2 * * * * *", use_monitor=False)
async def sweep_often(timer: func.TimerRequest) -> None:
    """Each two seconds instead of ten: what a fault left behind is found while the next one happens."""
    await runtime.worker.sweep()
