"""The query dialect, which is what the engine and its runbook ask, and the tree that a query becomes.

    query   = SELECT list FROM name [WHERE or] [ORDER BY path [ASC | DESC]]
    list    = * | VALUE COUNT(1) | VALUE path | path {, path}
    or      = and {OR and}            and = test {AND test}
    test    = NOT test | ( or ) | operand compare operand | function
    compare = = | != | < | <= | > | >=
    function= IS_DEFINED(path) | STARTSWITH(operand, operand) | ARRAY_CONTAINS(operand, operand)
            | CONTAINS(operand, operand, operand)
    operand = path | literal | @parameter
    path    = alias step {step}       step = .name | ["name"]

The condition of a patch is `FROM name WHERE or`. Keywords are not names after a dot, as in the service: `c.value` is an
error there too. Anything else is a 400 that shows the text of the query
(https://learn.microsoft.com/azure/cosmos-db/nosql/query/ is the language that this is cut from).
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from .errors import CosmosError

_WORDS = """SELECT TOP DISTINCT VALUE FROM AS WHERE AND OR NOT IN BETWEEN LIKE ESCAPE EXISTS JOIN GROUP ORDER BY ASC
DESC OFFSET LIMIT TRUE FALSE NULL UNDEFINED UDF"""
KEYWORDS = frozenset(re.findall(r"\w+", _WORDS))
FUNCTIONS = {"IS_DEFINED": 1, "STARTSWITH": 2, "ARRAY_CONTAINS": 2, "CONTAINS": 3}
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>-?\d+(?:\.\d+)?)
  | (?P<string>'[^'\\]*'|"[^"\\]*")
  | (?P<parameter>@[A-Za-z_]\w*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<symbol><=|>=|!=|[=<>(),.*\[\]])
  | (?P<end>\Z)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str


@dataclass(frozen=True, slots=True)
class Path:
    segments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    arguments: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Both:
    """AND."""

    operands: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """OR."""

    operands: tuple["Expression", ...]


Expression = Literal | Parameter | Path | Compare | Function | Not | Both | Either


@dataclass(frozen=True, slots=True)
class Order:
    path: Path
    is_descending: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query. `columns` is None for `*` and for a count; `is_value` says that its one column is given bare."""

    text: str
    alias: str
    columns: tuple[Path, ...] | None
    is_value: bool
    where: Expression | None
    where_text: str
    order: Order | None
    is_count: bool = False


def parse(text: str) -> Query:
    """A query, or a 400."""
    return _Parser(text).query()


def parse_condition(text: str) -> Expression:
    """The filter predicate of a patch, or a 400."""
    return _Parser(text).condition()


@dataclass(frozen=True, slots=True)
class _Token:
    """`kind` is keyword, name, number, string, parameter, symbol or end."""

    kind: str
    text: str
    start: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._read())
        self._at = 0
        self._alias = ""

    def query(self) -> Query:
        self._expect("SELECT")
        after_select = self._at
        while self._peek.kind != "end" and self._peek.text != "FROM":
            self._at += 1
        self._from()
        after_from, self._at = self._at, after_select
        is_count = self._take_count()
        columns, is_value = (None, True) if is_count else self._list()
        if self._peek.text != "FROM":
            raise self._unexpected()
        self._at = after_from
        where = self._or() if self._take("WHERE") else None
        after_where = self._peek.start
        where_text = self._text[self._tokens[after_from + 1].start : after_where].strip() if where else ""
        order = self._order() if self._take("ORDER") else None
        self._end()
        if is_count and order is not None:
            raise self._error("COUNT goes with no ORDER BY in this dialect.")
        return Query(self._text, self._alias, columns, is_value, where, where_text, order, is_count)

    def condition(self) -> Expression:
        self._from()
        self._expect("WHERE")
        where = self._or()
        self._end()
        return where

    # Clauses

    def _from(self) -> None:
        self._expect("FROM")
        self._alias = self._name()

    def _take_count(self) -> bool:
        words = [token.text for token in self._tokens[self._at : self._at + 5]]
        is_count = words == ["VALUE", "COUNT", "(", "1", ")"]
        self._at += 5 * is_count
        return is_count

    def _list(self) -> tuple[tuple[Path, ...] | None, bool]:
        if self._take("*"):
            return None, False
        if self._take("VALUE"):
            return (self._path(),), True
        columns = [self._path()]
        while self._take(","):
            columns.append(self._path())
        return tuple(columns), False

    def _order(self) -> Order:
        self._expect("BY")
        path = self._path()
        is_descending = self._take("DESC")
        if not is_descending:
            self._take("ASC")
        return Order(path, is_descending)

    # Expressions

    def _or(self) -> Expression:
        operands = [self._and()]
        while self._take("OR"):
            operands.append(self._and())
        return operands[0] if len(operands) == 1 else Either(tuple(operands))

    def _and(self) -> Expression:
        operands = [self._test()]
        while self._take("AND"):
            operands.append(self._test())
        return operands[0] if len(operands) == 1 else Both(tuple(operands))

    def _test(self) -> Expression:
        if self._take("NOT"):
            return Not(self._test())
        if self._take("("):
            inner = self._or()
            self._expect(")")
            return inner
        if self._peek.text.upper() in FUNCTIONS:
            return self._function()
        left = self._operand()
        if self._peek.text not in COMPARISONS:
            raise self._unexpected()
        return Compare(self._next().text, left, self._operand())

    def _function(self) -> Function:
        token = self._next()
        name = token.text.upper()
        self._expect("(")
        arguments = [self._operand()]
        while self._take(","):
            arguments.append(self._operand())
        self._expect(")")
        if len(arguments) != FUNCTIONS[name] or (name == "IS_DEFINED" and not isinstance(arguments[0], Path)):
            raise self._unexpected(token)
        return Function(name, tuple(arguments))

    def _operand(self) -> Expression:
        token = self._peek
        if token.kind == "name":
            return self._path()
        self._next()
        match token.kind:
            case "string":
                return Literal(token.text[1:-1])
            case "number":
                return Literal(json.loads(token.text))
            case "parameter":
                return Parameter(token.text)
            case "keyword" if token.text in _CONSTANTS:
                return Literal(_CONSTANTS[token.text])
        raise self._unexpected(token)

    def _path(self) -> Path:
        token = self._next()
        if token.text != self._alias:
            raise self._unexpected(token)
        segments = list[str]()
        while True:
            if self._take("."):
                segments.append(self._name())
            elif self._take("["):
                inner = self._next()
                if inner.kind != "string":
                    raise self._unexpected(inner)
                segments.append(inner.text[1:-1])
                self._expect("]")
            elif segments:
                return Path(tuple(segments))
            else:
                raise self._unexpected()

    # Tokens

    def _read(self) -> Any:
        position = 0
        while True:
            match = _TOKEN.match(self._text, position)
            if match is None:
                raise self._error(f"Syntax error, invalid token near {self._text[position : position + 9]!r}.")
            kind = str(match.lastgroup)
            text, position = match[kind], match.end()
            if kind == "name" and text.upper() in KEYWORDS:
                kind, text = "keyword", text.upper()
            yield _Token(kind, text, match.start(match.lastgroup or 0))
            if kind == "end":
                return

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _take(self, text: str) -> bool:
        is_there = self._peek.kind in ("keyword", "symbol") and self._peek.text == text
        self._at += is_there
        return is_there

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected()

    def _name(self) -> str:
        token = self._next()
        if token.kind != "name":
            raise self._unexpected(token)
        return token.text

    def _end(self) -> None:
        if self._peek.kind != "end":
            raise self._unexpected()

    def _unexpected(self, token: _Token | None = None) -> CosmosError:
        near = (token or self._peek).text or "the end"
        return self._error(f"Syntax error, incorrect syntax near {near!r}.")

    def _error(self, reason: str) -> CosmosError:
        """400 as the service words it, with the query's text so that the test that wrote it can see it."""
        message = f"{reason} Query: {self._text}"
        return CosmosError(400, message, detail=[{"severity": "Error", "code": "SC1001", "message": message}])
