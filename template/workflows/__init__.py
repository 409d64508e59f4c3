"""The workflows that this app runs. The order is a worked example: replace it with your own."""

from typing import Any

from engine import Workflow
from workflows.orders import fulfil

WORKFLOWS: list[Workflow[Any, Any]] = [fulfil]

__all__ = ["WORKFLOWS"]
