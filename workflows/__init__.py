"""The workflows that this app runs. The ones here are worked examples: replace them with your own."""

from workflows.documents import digest_documents
from workflows.expenses import approve_expense
from workflows.orders import fulfil

WORKFLOWS = [fulfil, digest_documents, approve_expense]

__all__ = ["WORKFLOWS"]
