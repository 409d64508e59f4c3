"""The workflows of the host that these tests run, as they are."""

from __future__ import annotations

from typing import Any

from engine import Workflow
from tests.page.served import asks, fails, many, part, retries, returns, stuck, waits

WORKFLOWS: list[Workflow[Any, Any]] = [waits, part, retries, asks, returns, fails, stuck, many]
