"""JSON as the service takes it in and gives it out.

1. A number is an IEEE 754 double (https://learn.microsoft.com/azure/cosmos-db/concepts-limits). Whole numbers
   come back without a fraction, and whole numbers beyond 2**53 as the nearest double. A hosted account has been
   seen to keep whole numbers of 64 bits exactly; no page promises it, so the double rounds.
2. `NaN`, `Infinity` and numbers beyond the range of a double are not JSON: 400.
3. Half of a surrogate pair is stored as U+FFFD, silently, as a hosted account does.
4. Nesting deeper than 128 levels is refused.
"""

import json
import re
from typing import Any

from .errors import bad_request

MAX_DEPTH = 128
_MAYBE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def invalid_payload() -> Exception:
    return bad_request("The request payload is invalid. Ensure to provide a valid request payload.")


def loads(raw: bytes) -> Any:
    """Parse a body, or refuse it."""
    try:
        value = json.loads(raw.decode("utf-8"), parse_int=_number, parse_float=_number, parse_constant=_no_constant)
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise invalid_payload() from None
    if depth(value) > MAX_DEPTH:
        raise bad_request(f"The document is nested deeper than {MAX_DEPTH} levels.")
    if _MAYBE_SURROGATE.search(raw):
        value = _mend(value)
    return value


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def size(value: Any) -> int:
    """Bytes of the UTF-8 text of a value, which is what the limits count."""
    return len(dumps(value).encode("utf-8"))


def number(value: float) -> int | float:
    """A double, written without its fraction when it has none."""
    if value.is_integer() and abs(value) < 2.0**64:
        return int(value)
    return value


def depth(value: Any) -> int:
    """Levels of nesting; a scalar has none."""
    deepest = 0
    stack = [(value, 1)]
    while stack:
        current, level = stack.pop()
        if isinstance(current, dict):
            children = list(current.values())
        elif isinstance(current, list):
            children = current
        else:
            continue
        deepest = max(deepest, level)
        stack.extend((child, level + 1) for child in children)
    return deepest


def _number(text: str) -> int | float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(text)
    return number(value)


def _no_constant(text: str) -> Any:
    raise ValueError(text)


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_mend(key): _mend(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_mend(item) for item in value]
    return value
