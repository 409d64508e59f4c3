"""Partial document update: the operations `set` and `incr` on properties of the item itself.

https://learn.microsoft.com/azure/cosmos-db/partial-document-update gives the operations and
https://learn.microsoft.com/azure/cosmos-db/partial-document-update-faq the limits: ten operations, no system
properties. The other operations, and paths below a property, are not modelled.
"""

from typing import Any

from .errors import CosmosError, bad_request, not_modelled
from .indexing import Segments
from .rules import SYSTEM_PROPERTIES

MAX_OPERATIONS = 10


def apply(body: dict[str, Any], operations: Any, key_path: Segments) -> dict[str, Any]:
    """A changed copy of `body`; all operations or none."""
    if not isinstance(operations, list) or not operations:
        raise bad_request("A patch needs a list of operations.")
    if len(operations) > MAX_OPERATIONS:
        raise bad_request(f"The number of patch operations can't exceed '{MAX_OPERATIONS}'.")
    result = dict(body)
    for position, operation in enumerate(operations, 1):
        name = _property(operation, key_path, f"For Operation({position})")
        if operation["op"] == "set":
            result[name] = operation["value"]
            continue
        before, amount = result.get(name, 0), operation["value"]
        if type(before) is not int or type(amount) is not int:
            raise bad_request(f"For Operation({position}): the increment of {before!r} by {amount!r} takes numbers.")
        result[name] = before + amount
    return result


def _property(operation: Any, key_path: Segments, where: str) -> str:
    """The property that an operation changes."""
    if not isinstance(operation, dict) or set(operation) != {"op", "path", "value"}:
        raise bad_request(f"{where}: an operation has an op, a path and a value.")
    if operation["op"] not in ("set", "incr"):
        raise not_modelled(f"the patch operation {operation['op']!r}")
    slash, name = operation["path"][:1], operation["path"][1:]
    if slash != "/" or not name.isidentifier():
        raise CosmosError(400, f"{where}: the path {operation['path']!r} is invalid.")
    if name in ("id", *SYSTEM_PROPERTIES) or (name,) == key_path:
        raise bad_request(f"{where}: the property {name!r} can't be patched.")
    return name
