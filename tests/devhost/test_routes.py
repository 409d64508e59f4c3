"""Route templates against paths, as ASP.NET Core has them."""

from __future__ import annotations

import pytest

from devhost.routes import RouteTable, Template, decode_path
from devhost.settings import LoadError

GUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.mark.parametrize(
    ("template", "path", "values"),
    [
        ("api/start", "api/start", {}),
        ("api/start", "API/Start", {}),
        ("api/start", "api/start/x", None),
        ("api/start", "api/starts", None),
        ("api/a.b", "api/axb", None),
        ("api/{name}", "api/Fulfil", {"name": "Fulfil"}),
        ("api/{name}", "api/a%2Fb", {"name": "a%2Fb"}),
        ("api/{name}", "api/two\nlines", {"name": "two\nlines"}),
        ("api/{name}", "api/", None),
        ("api/{name}", "api/a/b", None),
        ("api/{name}/{id}", "api/a/b", {"name": "a", "id": "b"}),
        ("api/{name}/poll", "api/x/poll", {"name": "x"}),
        ("api/v{major}.{minor}", "api/v1.2", {"major": "1", "minor": "2"}),
        ("api/{id:guid}", f"api/{GUID}", {"id": GUID}),
        ("api/{id:guid}", f"api/{GUID.replace('-', '')}", {"id": GUID.replace("-", "")}),
        ("api/{id:guid}", "api/not-a-guid", None),
        ("api/{n:int}", "api/12", {"n": "12"}),
        ("api/{n:int}", "api/x", None),
        ("api/{n:int}", "api/٣", None),
        ("api/{n:int:min(5)}", "api/4", None),
        ("api/{n:int:min(5)}", "api/5", {"n": "5"}),
        ("api/{n:range(1,9)}", "api/10", None),
        ("api/{n:max(9)}", "api/x", None),
        ("api/{w:alpha:length(2,3)}", "api/abc", {"w": "abc"}),
        ("api/{w:alpha:length(2,3)}", "api/abcd", None),
        ("api/{w:minlength(2)}", "api/a", None),
        ("api/{b:bool}", "api/True", {"b": "True"}),
        ("api/{d:decimal}", "api/1.5", {"d": "1.5"}),
        ("api/{id?}", "api", {}),
        ("api/{id?}", "api/x", {"id": "x"}),
        ("api/{id:int?}", "api/x", None),
        ("api/{*rest}", "api", {}),
        ("api/{*rest}", "api/a/b/c", {"rest": "a/b/c"}),
        ("api/{**rest}", "api/a", {"rest": "a"}),
        ("{*rest}", "a/b", {"rest": "a/b"}),
        ("", "", {}),
    ],
)
def test_matching(template: str, path: str, values: dict[str, str] | None) -> None:
    assert Template(template).match(path) == values


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("api/{", "can't be read"),
        ("api/{}", "can't be read"),
        ("api//x", "empty segment"),
        ("api/{a}/{A}", "two parameters"),
        ("api/{a?}/x", "only the last"),
        ("api/{*a}/x", "only the last"),
        ("api/x{a?}", "only the last"),
        ("api/{a:colour}", "colour"),
        ("api/{a:min(x)}", "min"),
        ("api/{a:guid(1)}", "guid"),
    ],
)
def test_what_is_no_template(template: str, complaint: str) -> None:
    with pytest.raises(LoadError, match=complaint):
        Template(template)


def test_the_most_specific_route_wins_whatever_the_order() -> None:
    table: RouteTable[str] = RouteTable()
    for template in ("{*rest}", "a/{x}", "a/{x:int}", "a/b", "a/{x?}"):
        table.add(Template(template), None, template)
    found = {path: table.find("GET", path) for path in ("/a/b", "/a/5", "/a/c", "/a/b/", "/z/z")}
    assert {path: target and target[0] for path, target in found.items()} == {
        "/a/b": "a/b",
        "/a/b/": "a/b",
        "/a/5": "a/{x:int}",
        "/a/c": "a/{x}",
        "/z/z": "{*rest}",
    }


def test_a_route_that_does_not_take_the_method_leaves_the_path_to_others() -> None:
    table: RouteTable[str] = RouteTable()
    table.add(Template("a/b"), frozenset({"POST"}), "post")
    table.add(Template("a/{x}"), frozenset({"GET"}), "get")
    assert table.find("GET", "/a/b") == ("get", {"x": "b"})
    assert table.find("POST", "/a/b") == ("post", {})
    assert table.find("DELETE", "/a/b") is None
    assert table.find("GET", "//a/b") is None


@pytest.mark.parametrize(
    ("raw", "decoded"),
    [
        ("/api/a%20b+c", "/api/a b+c"),
        ("/api/%C3%A9", "/api/é"),
        ("/api/a%2Fb%2fc", "/api/a%2Fb%2fc"),
        ("/api/%FF", "/api/%FF"),
        ("/api/%252F", "/api/%2F"),
        ("/api/100%", "/api/100%"),
    ],
)
def test_decoding_a_path(raw: str, decoded: str) -> None:
    assert decode_path(raw) == decoded
