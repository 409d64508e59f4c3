"""The text that a row keeps of a document, and what is made of one that was changed by hand or cut off."""

from __future__ import annotations

import json

from engine.ground.errors import DecodingError, Unreadable
from engine.store.documents import Document, unreadable


def document_of(execution_id: str, id: str, body: str) -> Document:
    """The document in a row. Raises DecodingError if the body isn't the JSON object of a document with the row's ids,
    Unreadable for an exec document."""
    try:
        document = json.loads(body)
    except (ValueError, TypeError, RecursionError) as error:
        raise unreadable(execution_id, id, f"it isn't JSON: {error}") from None
    if not isinstance(document, dict):
        raise unreadable(execution_id, id, "it isn't a JSON object")
    for name, expected in (("id", id), ("executionId", execution_id)):
        if document.get(name) != expected:
            raise unreadable(execution_id, id, f"its {name} is {str(document.get(name))[:80]!r}")
    return document


def document_or_stub(execution_id: str, id: str, body: str) -> Document:
    """The document in a row; of one that can't be read, its names alone, so that its reader can say which it is."""
    try:
        return document_of(execution_id, id, body)
    except (DecodingError, Unreadable):
        return {"executionId": execution_id, "id": id}
