"""The dialect: what parses, what is refused, and what expressions mean.

https://learn.microsoft.com/azure/cosmos-db/nosql/query/ is the language. What is said of a hosted account was
recorded by the public repository xo/dbimp (docs/COSMOS.md).
"""

from typing import Any

import pytest

from tests.cosmos_double.epk import UNDEFINED
from tests.cosmos_double.errors import CosmosError
from tests.cosmos_double.query_eval import Scope, evaluate
from tests.cosmos_double.query_parser import Order, Path, parse

ITEM = {"n": 5, "text": "abc", "yes": True, "nothing": None, "list": ["one", "two"], "deep": {"x": 1}}


def value(expression: str, **parameters: Any) -> Any:
    query = parse(f"SELECT * FROM c WHERE {expression}")
    assert query.where is not None
    return evaluate(query.where, Scope(ITEM, {f"@{name}": given for name, given in parameters.items()}))


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("c.n = 5.0", True),
        ("c.n != 5", False),
        ("c.n < 5 OR c.n >= 5", True),
        ("c.n > 4 AND c.n <= 5", True),
        ("c.n = -5", False),
        ("c.n = @a", False),
        ("c.text = 'abc'", True),
        ('c.text < "abd"', True),
        ("c.yes = true", True),
        ("c.nothing = null", True),
        ("c.deep.x = 1", True),
        ("IS_DEFINED(c.n)", True),
        ("is_defined(c.none)", False),
        ("STARTSWITH(c.text, 'ab')", True),
        ("STARTSWITH(c.text, 'AB')", False),
        ("ARRAY_CONTAINS(c.list, 'two')", True),
        ("ARRAY_CONTAINS(c.list, 'three')", False),
        ("(c.n = 1 OR c.n = 5) AND c.text = 'abc'", True),
        ("c.n = 1 OR c.n = 5 AND c.text = 'x'", False),
        ("c.n = 5 OR c.none = 1", True),
        ("c.n = 1 AND c.none = 1", False),
        ("NOT c.n = 1", True),
        ("NOT (IS_DEFINED(c.none) AND c.none = 1)", True),
        ('c["deep"]["x"] = 1', True),
        ("CONTAINS(c.text, 'B', true)", True),
        ("CONTAINS(c.text, 'B', false)", False),
    ],
)
def test_values(expression: str, result: bool) -> None:
    assert value(expression, a=1) is result


@pytest.mark.parametrize(
    "expression",
    [
        "c.none = 1",
        "c.none != 1",
        "NOT c.none = 1",
        "CONTAINS(c.n, '5', true)",
        "c.n = @missing",
        "c.n = '5'",
        "c.n < 'a'",
        "c.nothing < 5",
        "c.list < c.list",
        "c.n = 5 AND c.none = 1",
        "c.n = 1 OR c.none = 1",
        "STARTSWITH(c.n, 'a')",
        "ARRAY_CONTAINS(c.text, 'a')",
    ],
)
def test_undefined(expression: str) -> None:
    """Neither true nor false, so the item is not in the result:
    https://learn.microsoft.com/azure/cosmos-db/nosql/query/equality-comparison-operators
    """
    assert value(expression) is UNDEFINED


@pytest.mark.parametrize("expression", ["c.text != null", "c.n != 'a'"])
def test_what_accounts_and_the_page_disagree_on_is_refused(expression: str) -> None:
    with pytest.raises(CosmosError, match="refuses '!='"):
        value(expression)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT *",
        "SELECT FROM c",
        "SELECT * FROM c WHERE",
        "SELECT * FROM c WHERE c.n =",
        "SELECT * FROM c WHERE c.n == 5",
        "SELECT * FROM c WHERE d.n = 5",
        "SELECT * FROM c WHERE c.n = 5;",
        "SELECT * FROM c WHERE (c.n = 5",
        "SELECT * FROM c WHERE c.n = 5)",
        "SELECT * FROM c WHERE c.text = 'open",
        "SELECT * FROM c WHERE NOT",
        "SELECT * FROM c WHERE c[0] = 1",
        "SELECT * FROM c WHERE c['a' = 1",
        "SELECT * FROM c WHERE c.n BETWEEN 1 AND 2",
        "SELECT * FROM c WHERE c.n IN (1, 2)",
        "SELECT * FROM c WHERE CONTAINS(c.text, 'a')",
        "SELECT * FROM c WHERE STARTSWITH(c.text, 'a', true)",
        "SELECT * FROM c WHERE IS_DEFINED('a')",
        "SELECT * FROM c WHERE c.value = 1",
        "SELECT DISTINCT c.a FROM c",
        "SELECT TOP 1 * FROM c",
        "SELECT COUNT(1) FROM c",
        "SELECT VALUE COUNT(1) FROM c ORDER BY c.n",
        "SELECT * FROM c ORDER BY c.n, c.m",
        "SELECT * FROM c OFFSET 1 LIMIT 1",
    ],
)
def test_everything_else_is_a_400_that_shows_the_query(text: str) -> None:
    """A semicolon and `c.value` are errors in the service too."""
    with pytest.raises(CosmosError) as caught:
        parse(text)
    assert caught.value.status == 400
    assert f"Query: {text}" in caught.value.message


def test_the_tree_of_a_query() -> None:
    query = parse("select x.a, x.b from x where x.a = 1 order by x.a desc")
    assert (query.alias, query.columns, query.is_value) == ("x", (Path(("a",)), Path(("b",))), False)
    assert (query.where_text, query.order) == ("x.a = 1", Order(Path(("a",)), True))


def test_names_that_only_look_like_keywords_are_names() -> None:
    assert parse("SELECT * FROM c WHERE c.status = 1 AND c.orderId = 2 AND c.top_ = 3").where is not None
