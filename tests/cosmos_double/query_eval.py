"""Evaluation of expressions over one item, with the language's third value, undefined.

1. A path that leads nowhere, and a parameter that was not given, is undefined.
2. Comparing different types, or ordering arrays and objects, is undefined
   (https://learn.microsoft.com/azure/cosmos-db/nosql/query/equality-comparison-operators). An item is in the result
   only if the filter is true: not false, not undefined.
3. `!=` between different types is undefined by that page, but accounts have been seen to answer true. What can go
   either way is refused with a message, rather than let a test pass on one reading.
4. Values sort by type: undefined, null, false, true, numbers, strings, arrays, objects
   (https://learn.microsoft.com/azure/cosmos-db/nosql/query/order-by).
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .epk import UNDEFINED
from .errors import CosmosError
from .query_parser import Both, Compare, Either, Expression, Function, Literal, Not, Parameter, Path

_OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_RANKS = {"null": 1, "boolean": 2, "number": 3, "string": 4, "array": 5, "object": 6}


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
        case Compare(name, left, right):
            return compare(name, evaluate(left, scope), evaluate(right, scope))
        case Function(name, arguments):
            return _call(name, *(evaluate(argument, scope) for argument in arguments))
        case Not(operand):
            value = evaluate(operand, scope)
            return not value if isinstance(value, bool) else UNDEFINED
        case Both(operands):
            values = [evaluate(operand, scope) for operand in operands]
            return False if False in values else _true_or_undefined(all(value is True for value in values))
        case Either(operands):
            values = [evaluate(operand, scope) for operand in operands]
            return False if all(value is False for value in values) else _true_or_undefined(True in values)


def resolve(path: Path, item: Any) -> Any:
    """The value at a path, or UNDEFINED."""
    value = item
    for segment in path.segments:
        if not isinstance(value, Mapping) or segment not in value:
            return UNDEFINED
        value = value[segment]
    return value


def compare(name: str, left: Any, right: Any) -> Any:
    if left is UNDEFINED or right is UNDEFINED:
        return UNDEFINED
    kind = _type(left)
    if kind != _type(right):
        if name == "!=":
            raise CosmosError(
                400,
                f"The double refuses '!=' between {kind} and {_type(right)}: documented as undefined, seen as true. "
                "Write IS_DEFINED instead.",
            )
        return UNDEFINED
    return UNDEFINED if kind in ("array", "object") else _OPERATORS[name](left, right)


def sort_value(value: Any) -> list[Any]:
    """A value that compares as ORDER BY does; JSON, so that a continuation token can carry it."""
    if value is UNDEFINED:
        return [0, 0]
    rank = _RANKS[_type(value)]
    return [rank, 0 if rank in (1, 5, 6) else value]  # arrays and objects have no order among themselves


def _call(name: str, first: Any, second: Any = UNDEFINED, ignores_case: Any = False) -> Any:
    if name == "IS_DEFINED":
        return first is not UNDEFINED
    if name == "CONTAINS":
        if not isinstance(first, str) or not isinstance(second, str):
            return UNDEFINED
        return second.casefold() in first.casefold() if ignores_case is True else second in first
    if name == "STARTSWITH":
        return first.startswith(second) if isinstance(first, str) and isinstance(second, str) else UNDEFINED
    return second in first if isinstance(first, list) and isinstance(second, str) else UNDEFINED


def _true_or_undefined(is_true: bool) -> Any:
    return True if is_true else UNDEFINED


def _type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
