"""Evaluation of expressions over one item, with the language's third value, undefined.

1. A path that leads nowhere, and a parameter that was not given, is undefined.
2. Comparing different types, or ordering arrays and objects, is undefined
   (https://learn.microsoft.com/azure/cosmos-db/nosql/query/equality-comparison-operators). An item is in the
   result only if the filter is true: not false, not undefined.
3. `!=` between different types is undefined by that page, but accounts have been seen to answer true. What can
   go either way is refused with a message, rather than let a test pass on one reading.
4. Values sort by type: undefined, null, false, true, numbers, strings, arrays, objects
   (https://learn.microsoft.com/azure/cosmos-db/nosql/query/order-by).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .epk import UNDEFINED
from .errors import CosmosError
from .query_parser import (
    Among,
    Both,
    Compare,
    Either,
    Expression,
    Function,
    Literal,
    Not,
    Parameter,
    Path,
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression can refer to."""

    item: Mapping[str, Any]
    parameters: Mapping[str, Any]


def is_true(expression: Expression, scope: Scope) -> bool:
    return evaluate(expression, scope) is True


def evaluate(expression: Expression, scope: Scope) -> Any:
    """The value of an expression: JSON, or UNDEFINED."""
    match expression:
        case Literal(value):
            return value
        case Parameter(name):
            return scope.parameters.get(name, UNDEFINED)
        case Path():
            return resolve(expression, scope.item)
        case Compare(operator, left, right):
            return compare(operator, evaluate(left, scope), evaluate(right, scope))
        case Among(operand, choices):
            value = evaluate(operand, scope)
            return _either([compare("=", value, evaluate(choice, scope)) for choice in choices])
        case Function(name, arguments):
            return _call(name, [evaluate(argument, scope) for argument in arguments])
        case Not(operand):
            value = evaluate(operand, scope)
            return not value if isinstance(value, bool) else UNDEFINED
        case Both(operands):
            return _both([evaluate(operand, scope) for operand in operands])
        case Either(operands):
            return _either([evaluate(operand, scope) for operand in operands])


def resolve(path: Path, item: Any) -> Any:
    """The value at a path, or UNDEFINED."""
    value = item
    for segment in path.segments:
        if isinstance(segment, str):
            found = isinstance(value, Mapping) and segment in value
        else:
            found = isinstance(value, list) and 0 <= segment < len(value)
        if not found:
            return UNDEFINED
        value = value[segment]
    return value


def compare(operator: str, left: Any, right: Any) -> Any:
    if left is UNDEFINED or right is UNDEFINED:
        return UNDEFINED
    kind = type_name(left)
    if kind != type_name(right):
        if operator == "!=":
            raise CosmosError(
                400,
                f"The double refuses '!=' between {kind} and {type_name(right)}: documented as undefined, seen as "
                "true. Write IS_NULL, IS_DEFINED or NOT instead.",
            )
        return UNDEFINED
    if operator in ("=", "!="):
        equal = same(left, right)
        return equal if operator == "=" else not equal
    if kind in ("array", "object"):
        return UNDEFINED
    match operator:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right


def same(left: Any, right: Any) -> bool:
    """Deep equality that tells true from 1."""
    if type_name(left) != type_name(right):
        return False
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)


def type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


_RANKS = {"null": 1, "boolean": 2, "number": 3, "string": 4, "array": 5, "object": 6}


def sort_value(value: Any) -> list[Any]:
    """A value that compares as ORDER BY does; JSON, so that a continuation token can carry it."""
    if value is UNDEFINED:
        return [0, 0]
    rank = _RANKS[type_name(value)]
    if rank >= 5:  # arrays and objects have no order among themselves
        return [rank, 0]
    return [rank, 0 if value is None else value]


def _call(name: str, arguments: list[Any]) -> Any:
    first = arguments[0]
    match name:
        case "IS_DEFINED":
            return first is not UNDEFINED
        case "IS_NULL":
            return first is None
        case "STARTSWITH":
            prefix = arguments[1]
            return first.startswith(prefix) if isinstance(first, str) and isinstance(prefix, str) else UNDEFINED
        case _:
            wanted = arguments[1]
            if not isinstance(first, list) or wanted is UNDEFINED:
                return UNDEFINED
            return any(same(element, wanted) for element in first)


def _both(values: list[Any]) -> Any:
    if any(value is False for value in values):
        return False
    return True if all(value is True for value in values) else UNDEFINED


def _either(values: list[Any]) -> Any:
    if any(value is True for value in values):
        return True
    return False if all(value is False for value in values) else UNDEFINED
