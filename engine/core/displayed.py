"""What a run's code shows of itself to people: a custom status, and tags.

Rules:
1. Both follow from the code and its history alone. So a replay shows the same again, and nothing of it is an event.
2. They belong to the execution, not to the run. What an earlier run has shown stays until this one shows other things.
3. A tag can be changed, and not removed. So the number of tags only grows, and a replay that begins with the tags of
   later turns refuses the same ones.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from engine.core.options import checked_tags
from engine.ground.errors import EncodingError, TooLarge
from engine.values.codec import Codec, stored_size

MAX_STATUS_BYTES = 2_048
"""The most bytes of a custom status as stored. It lies in the exec document, which is rewritten often."""
_PLAIN = (dict, list, str, int, float, bool, type(None))


class Displayed:
    """The custom status and the tags of one run. `tags`: those that the execution has so far."""

    def __init__(self, tags: Mapping[str, str]) -> None:
        self.status: str | None = None
        """JSON text. None: this run's code has shown no status."""
        self.tags = dict(tags)

    def set_status(self, value: Any) -> None:
        """Show `value`. Raises EncodingError, TooLarge."""
        kind: Any = type(value)
        codec = _codec(Any if kind in _PLAIN else kind)
        text = json.dumps(codec.shown(codec.encode(value)), ensure_ascii=False, separators=(",", ":"))
        if (size := stored_size(text)) > MAX_STATUS_BYTES:
            raise TooLarge(
                f"a custom status of {size:,} bytes is over the limit of {MAX_STATUS_BYTES:,}: show a summary, and "
                "return what is large from an activity or as the result"
            )
        self.status = text

    def set_tag(self, name: str, text: str) -> None:
        """Set a tag. Raises TypeError, ValueError."""
        self.tags = checked_tags({**self.tags, **checked_tags({name: text})})


@functools.lru_cache(maxsize=256)
def _codec(kind: Any) -> Codec:
    try:
        return Codec(kind, "the custom status")
    except TypeError as error:
        raise EncodingError(str(error)) from None
