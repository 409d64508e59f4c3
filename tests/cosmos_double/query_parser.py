"""The query dialect: a recursive-descent parser and the tree that it makes.

    query  = SELECT [TOP count] list FROM name [[AS] name] [WHERE or] [ORDER BY key {, key}]
             [OFFSET count LIMIT count]
    list   = * | VALUE COUNT(1) | VALUE path | item {, item}          item = path [AS name]
    key    = path [ASC | DESC]                                        count = whole number | @parameter
    or     = and {OR and}            and = not {AND not}              not = [NOT] test
    test   = ( or ) | operand [compare operand | [NOT] IN (operand {, operand})] | function
    compare= = | != | <> | < | <= | > | >=
    function = IS_DEFINED(path) | IS_NULL(operand) | STARTSWITH(operand, operand) | ARRAY_CONTAINS(operand, operand)
    operand= path | literal | @parameter
    path   = alias { .name | ["name"] | [index] }

The condition of a patch is `FROM name [[AS] name] [WHERE or]`. Keywords are not names after a dot, as in the
service: `c.value` and `c.order` are errors there, `c["value"]` is not. Anything else is a 400 that shows the
text of the query (https://learn.microsoft.com/azure/cosmos-db/nosql/query/ is the language that this is cut from).
"""

from dataclasses import dataclass, replace
from typing import Any

from .errors import CosmosError
from .query_lexer import Token, syntax_error, tokens

FUNCTIONS = {"IS_DEFINED": 1, "IS_NULL": 1, "STARTSWITH": 2, "ARRAY_CONTAINS": 2}
COMPARISONS = {"=": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str


@dataclass(frozen=True, slots=True)
class Path:
    segments: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Among:
    operand: "Expression"
    choices: tuple["Expression", ...]


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


Expression = Literal | Parameter | Path | Compare | Among | Function | Not | Both | Either
Count = int | Parameter


@dataclass(frozen=True, slots=True)
class OrderKey:
    path: Path
    descending: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query. `select` is "*", "count", "value" or "list"; `columns` are (name, path)."""

    text: str
    alias: str
    select: str = "*"
    columns: tuple[tuple[str, Path], ...] = ()
    top: Count | None = None
    where: Expression | None = None
    order: tuple[OrderKey, ...] = ()
    offset: Count | None = None
    limit: Count | None = None


def parse(text: str) -> Query:
    """A query, or a 400."""
    try:
        return _Parser(text).query()
    except RecursionError:
        raise syntax_error(text, 0, len(text), "SC3007", "The query is nested too deeply.") from None


def parse_condition(text: str) -> Query:
    """The filter predicate of a patch, or a 400."""
    try:
        return _Parser(text).condition()
    except RecursionError:
        raise syntax_error(text, 0, len(text), "SC3007", "The condition is nested too deeply.") from None


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._at = 0
        self._alias = ""

    def query(self) -> Query:
        if self._peek.kind == "end":
            raise syntax_error(self._text, 0, 0, "SC1002", "Syntax error, the query is empty.")
        self._expect("SELECT")
        top = self._count() if self._take("TOP") else None
        after_top = self._at
        self._skip_to_from()
        query = self._from()
        after_from, self._at = self._at, after_top
        query = replace(self._select_list(query), top=top)
        if self._peek.text != "FROM":
            raise self._unexpected()
        self._at = after_from
        query = replace(query, where=self._or() if self._take("WHERE") else None)
        if self._take("ORDER"):
            query = replace(query, order=self._order())
        if self._take("OFFSET"):
            offset = self._count()
            self._expect("LIMIT")
            query = replace(query, offset=offset, limit=self._count())
        self._end()
        if query.select == "count" and (query.order or query.top is not None or query.offset is not None):
            raise self._refuse("COUNT goes with neither TOP, ORDER BY nor OFFSET in this dialect.")
        if query.top is not None and query.offset is not None:
            raise self._refuse("TOP and OFFSET LIMIT can't be used together.")
        return query

    def condition(self) -> Query:
        query = self._from()
        query = replace(query, where=self._or() if self._take("WHERE") else None)
        self._end()
        return query

    # Clauses

    def _skip_to_from(self) -> None:
        while self._peek.text != "FROM" or self._peek.kind != "keyword":
            if self._peek.kind == "end":
                raise self._unexpected()
            self._at += 1

    def _from(self) -> Query:
        self._expect("FROM")
        alias = self._name()
        if self._take("AS") or self._peek.kind == "name":
            alias = self._name()
        self._alias = alias
        return Query(self._text, alias)

    def _select_list(self, query: Query) -> Query:
        if self._take_symbol("*"):
            return query
        if self._take("VALUE"):
            if self._peek.kind == "name" and self._peek.text.upper() == "COUNT" and self._peek.text != query.alias:
                self._at += 1
                self._symbol("(")
                if self._next().text != "1":
                    raise self._refuse("COUNT takes 1 in this dialect.")
                self._symbol(")")
                return replace(query, select="count")
            return replace(query, select="value", columns=(("", self._path()),))
        columns = [self._column(1)]
        while self._take_symbol(","):
            columns.append(self._column(len(columns) + 1))
        names = [name for name, _ in columns]
        if len(set(names)) < len(names):
            raise syntax_error(self._text, 0, len(self._text), "SC2022", "A property name is used twice.")
        return replace(query, select="list", columns=tuple(columns))

    def _column(self, position: int) -> tuple[str, Path]:
        path = self._path()
        if self._take("AS"):
            return self._name(), path
        last = path.segments[-1] if path.segments else self._alias
        return (last if isinstance(last, str) else f"${position}"), path

    def _order(self) -> tuple[OrderKey, ...]:
        self._expect("BY")
        keys = [self._order_key()]
        while self._take_symbol(","):
            keys.append(self._order_key())
        return tuple(keys)

    def _order_key(self) -> OrderKey:
        path = self._path()
        if not path.segments or not all(isinstance(segment, str) for segment in path.segments):
            raise self._refuse("ORDER BY takes properties of the item.")
        descending = self._take("DESC")
        if not descending:
            self._take("ASC")
        return OrderKey(path, descending)

    def _count(self) -> Count:
        token = self._next()
        if token.kind == "parameter":
            return Parameter(token.text)
        if token.kind == "number" and isinstance(token.value, int) and token.text.isdigit():
            return token.value
        raise self._unexpected(token)

    # Expressions

    def _or(self) -> Expression:
        operands = [self._and()]
        while self._take("OR"):
            operands.append(self._and())
        return operands[0] if len(operands) == 1 else Either(tuple(operands))

    def _and(self) -> Expression:
        operands = [self._not()]
        while self._take("AND"):
            operands.append(self._not())
        return operands[0] if len(operands) == 1 else Both(tuple(operands))

    def _not(self) -> Expression:
        return Not(self._not()) if self._take("NOT") else self._test()

    def _test(self) -> Expression:
        if self._take_symbol("("):
            inner = self._or()
            self._symbol(")")
            return inner
        if self._is_function():
            return self._function()
        left = self._operand()
        if self._peek.kind == "symbol" and self._peek.text in COMPARISONS:
            return Compare(COMPARISONS[self._next().text], left, self._operand())
        negated = self._take("NOT")
        if self._take("IN"):
            among = Among(left, self._list())
            return Not(among) if negated else among
        if negated:
            raise self._unexpected()
        return left

    def _list(self) -> tuple[Expression, ...]:
        self._symbol("(")
        found = [self._operand()]
        while self._take_symbol(","):
            found.append(self._operand())
        self._symbol(")")
        return tuple(found)

    def _is_function(self) -> bool:
        following = self._tokens[self._at + 1] if self._peek.kind == "name" else None
        return following is not None and following.text == "("

    def _function(self) -> Function:
        token = self._next()
        name = token.text.upper()
        if name not in FUNCTIONS:
            raise self._refuse(f"The function {token.text!r} is not in this dialect.", token)
        arguments = self._list()
        if len(arguments) != FUNCTIONS[name]:
            raise self._refuse(f"The function {name} takes {FUNCTIONS[name]} argument(s).", token)
        if name == "IS_DEFINED" and not isinstance(arguments[0], Path):
            raise self._refuse("IS_DEFINED takes a path.", token)
        return Function(name, arguments)

    def _operand(self) -> Expression:
        token = self._peek
        if token.kind == "name":
            return self._path()
        self._at += 1
        if token.kind in ("string", "number"):
            return Literal(token.value)
        if token.kind == "parameter":
            return Parameter(token.text)
        if token.text == "-" and self._peek.kind == "number":
            return Literal(-self._next().value)
        constants = {"TRUE": True, "FALSE": False, "NULL": None}
        if token.kind == "keyword" and token.text in constants:
            return Literal(constants[token.text])
        raise self._unexpected(token)

    def _path(self) -> Path:
        token = self._next()
        if token.kind != "name":
            raise self._unexpected(token)
        if token.text != self._alias:
            reason = f"Identifier {token.text!r} could not be resolved."
            raise syntax_error(self._text, token.start, token.end, "SC2001", reason)
        segments: list[str | int] = []
        while True:
            if self._take_symbol("."):
                segments.append(self._name())
            elif self._take_symbol("["):
                inner = self._next()
                if inner.kind not in ("string", "number") or not isinstance(inner.value, str | int):
                    raise self._unexpected(inner)
                segments.append(inner.value)
                self._symbol("]")
            else:
                return Path(tuple(segments))

    # Tokens

    @property
    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _take(self, keyword: str) -> bool:
        if self._peek.kind == "keyword" and self._peek.text == keyword:
            self._at += 1
            return True
        return False

    def _take_symbol(self, text: str) -> bool:
        if self._peek.kind == "symbol" and self._peek.text == text:
            self._at += 1
            return True
        return False

    def _expect(self, keyword: str) -> None:
        if not self._take(keyword):
            raise self._unexpected()

    def _symbol(self, text: str) -> None:
        if not self._take_symbol(text):
            raise self._unexpected()

    def _name(self) -> str:
        token = self._next()
        if token.kind != "name":
            raise self._unexpected(token)
        return token.text

    def _end(self) -> None:
        if self._peek.kind != "end":
            raise self._unexpected()

    def _unexpected(self, token: Token | None = None) -> CosmosError:
        wrong = token or self._peek
        near = wrong.text or "the end"
        reason = f"Syntax error, incorrect syntax near {near!r}."
        return syntax_error(self._text, wrong.start, wrong.end, "SC1001", reason)

    def _refuse(self, reason: str, token: Token | None = None) -> CosmosError:
        wrong = token or self._peek
        return syntax_error(self._text, wrong.start, wrong.end, "SC2005", reason)
