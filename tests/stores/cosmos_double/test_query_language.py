"""The dialect: what parses, what is refused, and what expressions mean.

https://learn.microsoft.com/azure/cosmos-db/nosql/query/ is the language. What is said of a hosted account was
recorded by the public repository xo/dbimp (docs/COSMOS.md).
"""

import contextlib
import random
import re
from typing import Any

import pytest

from tests.cosmos_double.epk import UNDEFINED
from tests.cosmos_double.errors import CosmosError
from tests.cosmos_double.query_eval import Scope, evaluate
from tests.cosmos_double.query_parser import OrderKey, Parameter, Path, parse

ITEM = {
    "n": 5,
    "big": 9007199254740992,
    "text": "abc",
    "yes": True,
    "no": False,
    "nothing": None,
    "list": [1, "two", {"x": 1}],
    "deep": {"a b": {"value": 1}},
}


def value(expression: str, **parameters: Any) -> Any:
    query = parse(f"SELECT * FROM c WHERE {expression}")
    assert query.where is not None
    return evaluate(query.where, Scope(ITEM, {f"@{name}": given for name, given in parameters.items()}))


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("c.n = 5", True),
        ("c.n != 5", False),
        ("c.n <> 4", True),
        ("c.n < 5 OR c.n >= 5", True),
        ("c.n > 4 AND c.n <= 5", True),
        ("c.n = -5", False),
        ("c.n = 5.0", True),
        ("c.big = 9007199254740993", True),
        ("c.text = 'abc'", True),
        ('c.text = "abc"', True),
        (r"c.text != 'it\'s'", True),
        ("c.text < 'abd'", True),
        ("c.yes = true", True),
        ("c.yes", True),
        ("NOT c.no", True),
        ("c.nothing = null", True),
        ("c.list = c.list", True),
        ("c['n'] = 5", True),
        ('c.deep["a b"]["value"] = 1', True),
        ("c.list[1] = 'two'", True),
        ("c.n IN (1, 5)", True),
        ("c.n NOT IN (1, 2)", True),
        ("c.n in (@a, @b)", False),
        ("IS_DEFINED(c.n) AND NOT IS_DEFINED(c.none)", True),
        ("is_null(c.nothing)", True),
        ("IS_NULL(c.none)", False),
        ("STARTSWITH(c.text, 'ab')", True),
        ("STARTSWITH(c.text, 'AB')", False),
        ("ARRAY_CONTAINS(c.list, 'two')", True),
        ("ARRAY_CONTAINS(c.list, 2)", False),
        ("true", True),
        ("(c.n = 1 OR c.n = 5) AND c.text = 'abc'", True),
        ("c.n = 1 OR c.n = 5 AND c.text = 'x'", False),
        ("NOT c.n = 1 AND c.n = 5", True),
        ("c.n = 5 -- a comment", True),
    ],
)
def test_values(expression: str, result: bool):
    assert value(expression, a=1, b=2) is result


@pytest.mark.parametrize(
    "expression",
    [
        "c.none = 1",
        "c.none != 1",
        "NOT c.none = 1",
        "c.n = @missing",
        "c.n = '5'",
        "c.n < 'a'",
        "c.nothing < 5",
        "NOT c.n = '5'",
        "c.list < c.list",
        "c.n = 5 AND c.none",
        "c.n = 1 OR c.none",
        "NOT c.text",
        "STARTSWITH(c.n, 'a')",
        "ARRAY_CONTAINS(c.text, 'a')",
        "c.none IN (1)",
    ],
)
def test_undefined(expression: str):
    """Neither true nor false, so the item is not in the result:
    https://learn.microsoft.com/azure/cosmos-db/nosql/query/equality-comparison-operators
    """
    assert value(expression) is UNDEFINED


def test_undefined_gives_way_where_the_answer_is_known():
    assert value("c.n = 5 OR c.none") is True
    assert value("c.n = 1 AND c.none") is False


@pytest.mark.parametrize("expression", ["c.text != null", "c.n != 'a'"])
def test_what_accounts_and_the_page_disagree_on_is_refused(expression: str):
    with pytest.raises(CosmosError, match="refuses '!='"):
        value(expression)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT",
        "SELECT *",
        "SELECT * FROM",
        "SELECT FROM c",
        "SELECT c FROM",
        "SELECT * FROM c WHERE",
        "SELECT * FROM c WHERE c.n =",
        "SELECT * FROM c WHERE c.n == 5",
        "SELECT * FROM c WHERE d.n = 5",
        "SELECT * FROM c WHERE n = 5",
        "SELECT * FROM c WHERE c.n = 5;",
        "SELECT * FROM c WHERE (c.n = 5",
        "SELECT * FROM c WHERE c.n = 5)",
        "SELECT * FROM c WHERE c.text = 'open",
        "SELECT * FROM c WHERE c.n BETWEEN 1 AND 2",
        "SELECT * FROM c WHERE c.text LIKE 'a%'",
        "SELECT * FROM c WHERE c.n + 1 = 2",
        "SELECT * FROM c WHERE CONTAINS(c.text, 'a')",
        "SELECT * FROM c WHERE STARTSWITH(c.text, 'a', true)",
        "SELECT * FROM c WHERE IS_DEFINED('a')",
        "SELECT * FROM c WHERE c.value = 1",
        "SELECT * FROM c WHERE c.order = 1",
        "SELECT c.group FROM c",
        "SELECT c.a, d.b FROM c",
        "SELECT c.a, c.x.a FROM c",
        "SELECT c.a + 1 FROM c",
        "SELECT DISTINCT c.a FROM c",
        "SELECT COUNT(1) FROM c",
        "SELECT VALUE COUNT(c.n) FROM c",
        "SELECT VALUE SUM(c.n) FROM c",
        "SELECT VALUE COUNT(1) FROM c ORDER BY c.n",
        "SELECT * FROM c JOIN d IN c.list",
        "SELECT * FROM c GROUP BY c.a",
        "SELECT * FROM c ORDER BY",
        "SELECT * FROM c ORDER BY 1",
        "SELECT * FROM c ORDER BY c.list[0]",
        "SELECT * FROM c ORDER BY c.n SIDEWAYS",
        "SELECT TOP FROM c",
        "SELECT TOP -1 * FROM c",
        "SELECT TOP 1.5 * FROM c",
        "SELECT * FROM c OFFSET 1",
        "SELECT * FROM c LIMIT 1",
        "SELECT TOP 1 * FROM c OFFSET 1 LIMIT 1",
        "INSERT INTO c VALUES (1)",
        "SELECT * FROM c WHERE c.n = 5 /* no */",
        "SELECT * FROM c WHERE c.n = $1",
    ],
)
def test_everything_else_is_a_400_that_shows_the_query(text: str):
    """A semicolon, a block comment and `c.value` are errors in the service too."""
    with pytest.raises(CosmosError) as caught:
        parse(text)
    assert caught.value.status == 400
    assert f"Query: {text}" in caught.value.message
    assert caught.value.detail is not None
    assert caught.value.detail[0]["code"].startswith("SC")


def test_no_text_breaks_the_parser():
    """Anything is a query or a 400: pieces of queries in any order, and nesting without end."""
    source = random.Random(7)
    words = "SELECT * VALUE COUNT ( 1 ) FROM c . n [ 'x' ] WHERE AND OR NOT IN = < 'a @p -1 TOP ORDER BY OFFSET"
    pieces = re.findall(r"\S+", words)
    for _ in range(2000):
        text = " ".join(source.choices(pieces, k=source.randint(1, 14)))
        with contextlib.suppress(CosmosError):
            parse(f"SELECT * FROM c WHERE {text}")
        with contextlib.suppress(CosmosError):
            parse(text)
    with pytest.raises(CosmosError, match="nested"):
        parse("SELECT * FROM c WHERE " + "(" * 100_000)


def test_the_tree_of_a_query():
    query = parse("select top @n x.a, x['b c'] as b from root as x order by x.a desc, x.b asc")
    assert (query.alias, query.top, query.select) == ("x", Parameter("@n"), "list")
    assert query.columns == (("a", Path(("a",))), ("b", Path(("b c",))))
    assert query.order == (OrderKey(Path(("a",)), True), OrderKey(Path(("b",)), False))


def test_names_that_only_look_like_keywords_are_names():
    assert parse("SELECT * FROM c WHERE c.status = 1 AND c.orderId = 2 AND c.top_ = 3").where is not None
