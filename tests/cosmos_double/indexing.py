"""The indexing policy of a container: is it valid, and can it serve an ORDER BY?

From https://learn.microsoft.com/azure/cosmos-db/index-policy:

1. A policy names the root path `/*` in its included or its excluded paths.
2. A more precise path beats a less precise one; `/?` is more precise than `/*`.
3. `id` and `_ts` are always indexed; the partition key is not, unless a path includes it.
4. ORDER BY a property needs that property indexed.
"""

from dataclasses import dataclass
from typing import Any

from .errors import bad_request, not_modelled

DEFAULT = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [{"path": '/"_etag"/?'}],
}
_SYSTEM = {"_rid", "_self", "_etag", "_attachments", "_ts"}

Segments = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Rule:
    segments: Segments
    below: bool  # `/*` rather than `/?`
    included: bool

    def matches(self, path: Segments) -> bool:
        if not self.below:
            return path == self.segments
        inside = path[: len(self.segments)] == self.segments
        return inside and (len(path) > len(self.segments) or not self.segments)

    @property
    def precision(self) -> tuple[int, bool]:
        return len(self.segments), not self.below


class IndexingPolicy:
    """A validated policy."""

    def __init__(self, definition: dict[str, Any] | None) -> None:
        given = dict(definition or {})
        unknown = set(given) - {"indexingMode", "automatic", "includedPaths", "excludedPaths"}
        if unknown or given.get("indexingMode", "consistent") != "consistent":
            raise not_modelled(f"the indexing policy {given}")
        if not given.get("includedPaths") and not given.get("excludedPaths"):
            given.update(includedPaths=DEFAULT["includedPaths"], excludedPaths=DEFAULT["excludedPaths"])
        given = {**DEFAULT, **{"includedPaths": [], "excludedPaths": []}, **given}
        self.definition = given
        self._rules = [_rule(entry, True) for entry in given["includedPaths"]]
        self._rules += [_rule(entry, False) for entry in given["excludedPaths"]]
        if not any(rule.below and not rule.segments for rule in self._rules):
            raise bad_request(
                'The special mandatory indexing path "/" is not provided in any of the path type sets. '
                "Please provide this path in one of the sets."
            )

    def is_indexed(self, path: Segments) -> bool:
        """Whether a scalar at this path is in the index."""
        if path in (("id",), ("_ts",)):
            return True
        matching = [rule for rule in self._rules if rule.matches(path)]
        return max(matching, key=lambda rule: rule.precision).included if matching else False

    def indexed_values(self, item: dict[str, Any]) -> dict[Segments, Any]:
        """The indexed scalars of an item, by path; the array index is part of the key, not of the path."""
        found: dict[Segments, Any] = {}
        stack: list[tuple[Segments, Segments, Any]] = [
            ((name,), (name,), value) for name, value in item.items() if name not in _SYSTEM
        ]
        while stack:
            path, place, value = stack.pop()
            if isinstance(value, dict):
                stack += [((*path, name), (*place, name), inner) for name, inner in value.items()]
            elif isinstance(value, list):
                stack += [((*path, "[]"), (*place, str(i)), inner) for i, inner in enumerate(value)]
            elif self.is_indexed(path):
                found[place] = value
        return found


def split_path(path: str) -> Segments:
    """`/a/"b c"/[]` as its segments."""
    segments: list[str] = []
    rest = path
    while rest:
        if not rest.startswith("/"):
            raise bad_request(f"The path {path!r} is invalid: it must start with '/'.")
        rest = rest[1:]
        if rest[:1] in ("'", '"'):
            end = rest.find(rest[0], 1)
            if end < 0:
                raise bad_request(f"The path {path!r} has an open quote.")
            segment, rest = rest[1:end], rest[end + 1 :]
        else:
            segment, slash, rest = rest.partition("/")
            rest = slash + rest
        if not segment:
            raise bad_request(f"The path {path!r} has an empty segment.")
        segments.append(segment)
    return tuple(segments)


def _rule(entry: Any, included: bool) -> _Rule:
    path = entry.get("path") if isinstance(entry, dict) else None
    if not isinstance(path, str) or not path.endswith(("/?", "/*")):
        raise bad_request(f"The indexing path {path!r} could not be accepted: it must end with '/?' or '/*'.")
    return _Rule(split_path(path[:-2]), path.endswith("*"), included)
