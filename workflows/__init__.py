"""The workflows that this app runs. The ones here are worked examples: replace them with your own."""

from typing import Any

from engine import Workflow
from workflows.documents import digest_documents
from workflows.expenses import approve_expense
from workflows.orders import fulfil

WORKFLOWS: list[Workflow[Any, Any]] = [fulfil, digest_documents, approve_expense]

__all__ = ["WORKFLOWS"]
