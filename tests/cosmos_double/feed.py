"""The two feeds: changed items of a range, and the container's list of ranges.

The change feed in latest-version mode (https://learn.microsoft.com/azure/cosmos-db/change-feed-modes): the newest
version of each item that changed after an LSN, in LSN order, no deletions, earlier versions of an item left out.
Items of one transaction have one LSN and come in one page, so a page can be larger than asked for. The ETag of a
page is the LSN to go on from; with nothing new the answer is 304.
"""

import email.utils
from dataclasses import dataclass
from typing import Any

from . import wire
from .errors import bad_request
from .query_pages import MAX_PAGE_BYTES
from .state import Container, Document, Range, make_rid


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Changed items, and the LSN to go on from."""

    items: list[dict[str, Any]]
    lsn: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Scope:
    """Which part of a range a reader wants: one partition key, a span of hashes, or all of it."""

    key_text: str | None = None
    low: str = ""
    high: str = "FF"

    def holds(self, document: Document) -> bool:
        if self.key_text is not None and document.key[0] != self.key_text:
            return False
        return self.low <= document.epk < self.high


def changes(part: Range, scope: Scope, since: int, not_before: int | None, size: int, lsn: int) -> FeedPage:
    """Changes after the LSN `since`, as a replica at `lsn` sees them."""
    found = [
        document
        for document in part.view(lsn).values()
        if document.lsn > since and scope.holds(document)
        if not_before is None or document.body["_ts"] >= not_before
    ]
    found.sort(key=lambda document: (document.lsn, document.number))
    page: list[Document] = []
    used = 0
    for document in found:
        full = used + document.size > MAX_PAGE_BYTES or (size > 0 and len(page) >= size)
        if page and full and document.lsn != page[-1].lsn:
            break
        page.append(document)
        used += document.size
    items = [{**document.body, "_lsn": document.lsn} for document in page]
    return FeedPage(items, page[-1].lsn if page else max(since, lsn), used)


def position(if_none_match: str | None, if_modified_since: str | None, lsn: int) -> tuple[int, int | None]:
    """The LSN and the time to begin at: nothing given is the beginning, `*` is now."""
    since = None
    if if_modified_since is not None:
        try:
            since = int(email.utils.parsedate_to_datetime(if_modified_since).timestamp())
        except ValueError:
            raise bad_request(f"The If-Modified-Since {if_modified_since!r} is not an HTTP date.") from None
    if if_none_match is None:
        return 0, since
    if if_none_match == "*":
        return (0 if since is not None else lsn), since
    try:
        return int(if_none_match.strip('"')), since
    except ValueError:
        raise bad_request(f"The change feed position {if_none_match!r} is not an LSN.") from None


def ranges(container: Container, if_none_match: str | None) -> tuple[list[dict[str, Any]], int]:
    """Live ranges that appeared after a version of the list, and the version now."""
    try:
        since = int(if_none_match.strip('"')) if if_none_match else 0
    except ValueError:
        raise bad_request(f"The position {if_none_match!r} is not one of this feed.") from None
    return [_resource(container, p) for p in container.live_ranges() if p.version > since], container.version


def _resource(container: Container, part: Range) -> dict[str, Any]:
    rid = make_rid(container.rid, int(part.id).to_bytes(7, "little") + b"\x50")
    return {
        "_rid": rid,
        "id": part.id,
        "_etag": f'"{part.version}"',
        "minInclusive": part.minimum,
        "maxExclusive": part.maximum,
        "ridPrefix": int(part.id),
        "_self": f"{container.link}pkranges/{rid}/",
        "throughputFraction": 1 / len(container.live_ranges()),
        "status": "online",
        "parents": part.parents,
        "ownedArchivalPKRangeIds": [],
        "_ts": container.timestamp,
        "lsn": part.lsn,
    }


def envelope(container: Container, name: str, items: list[Any]) -> bytes:
    return wire.dumps({"_rid": container.rid, name: items, "_count": len(items)}).encode("utf-8")
