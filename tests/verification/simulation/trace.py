"""What happened, in order: cheap to keep, readable when it is asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from engine.store.documents import EXEC, Document
from tests.verification.simulation.container import Documents


class Trace:
    """Lines of (time, who, what, details). Details are made into text only when the trace is read."""

    def __init__(self) -> None:
        self._lines: list[tuple[float, str, str, tuple[Any, ...]]] = []

    def add(self, at: float, who: str, what: str, *details: Any) -> None:
        self._lines.append((at, who, what, details))

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[str]:
        for at, who, what, details in self._lines:
            yield f"{at:10.3f}  {who:<9} {what:<24} {' '.join(_text(one) for one in details)}".rstrip()

    def digest(self) -> str:
        """The same for the same run."""
        return hashlib.sha256("\n".join(self).encode()).hexdigest()


class Change:
    """A transaction that went through, as a detail of a line."""

    def __init__(self, before: Documents, after: Documents) -> None:
        self._before = before
        self._after = after

    def __str__(self) -> str:
        changed = [d for id, d in self._after.items() if d is not self._before.get(id)]
        gone = [f"-{id}" for id in self._before if id not in self._after]
        return "; ".join([*map(_document, changed), *gone])


def _text(detail: Any) -> str:
    if isinstance(detail, BaseException):
        return f"{type(detail).__name__}({detail})"
    return str(detail)


def _document(document: Document) -> str:
    if document["id"] == EXEC:
        return _exec(document)
    if "events" in document:
        return f"{document['id']}[{', '.join(map(_event, document['events']))}]"
    return f"{document['id']}={str(document.get('value') or document.get('error'))[:40]}"


def _exec(document: Document) -> str:
    state = document.get("outcome") or ("suspended" if document["suspended"] else "running")
    worker, lease, due = document.get("worker"), document.get("leaseExpiresAt"), document.get("dueAt")
    parts = [
        f"exec{document['_etag']} {document['workflow']}/{document['version']} {state}",
        f"worker={worker[:4]} until {lease[14:23]}" if worker and lease else "",
        f"due={due[11:23]}" if due else "",
        f"wake={document['wake']} seenWake={document['seenWake']} inbox={document['inboxCount']}",
        f"length={document['historyLength']} claims={document['claims']}",
        "interrupted" if document["interrupted"] else "",
        f"cause={document['cause']['type']}" if "cause" in document else "",
    ]
    return " ".join(part for part in parts if part)


def _event(event: Document) -> str:
    return " ".join(str(event[name])[:40] for name in ("kind", "step", "value", "attempt") if name in event)
