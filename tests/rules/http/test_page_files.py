"""The files of the page, as they are served: types, caching, policy, and nothing else of the package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.boundary import page as package
from engine.boundary.answers import Request, Response
from engine.boundary.page import page

FOLDER = Path(package.__file__).parent
FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".html", ".js", ".css", ".svg"))


async def get(name: str | None = None, at: str = "ui", headers: Mapping[str, str] | None = None) -> Response:
    return await page(Request(f"https://host/api/{at}", headers=headers or {}), name)


@pytest.mark.parametrize("name", [None, *FILES])
async def test_each_file_has_its_type_and_is_asked_for_once(name: str | None) -> None:
    """Kept by the browser, and asked for again with its ETag: 304 while it hasn't changed."""
    answer = await get(name)
    kinds = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    assert (answer.status, answer.headers["Content-Type"]) == (200, kinds[(name or "index.html").split(".")[-1]])
    assert answer.headers["Cache-Control"] == "no-cache"
    again = await get(name, headers={"if-none-match": f'"other", W/{answer.headers["ETag"]}'})
    assert (again.status, again.body, again.headers["ETag"]) == (304, "", answer.headers["ETag"])
    assert (await get(name, headers={"if-none-match": '"other"'})).status == 200


@pytest.mark.parametrize(
    "name", ["__init__.py", "../answers.py", "..%2fanswers.py", "/etc/passwd", "", "app", ".", "..", "x\0.js", "APP.JS"]
)
async def test_nothing_else_is_served(name: str) -> None:
    answer = await get(name)
    if name:
        assert (answer.status, answer.body) == (404, "")
    else:
        assert answer.status == 200  # no name: the page itself


async def test_the_address_with_a_slash_leads_to_the_one_without() -> None:
    answer = await get(at="ui/")
    assert (answer.status, answer.headers["Location"]) == (302, "../ui")


async def test_the_policy_allows_nothing_from_elsewhere() -> None:
    """No other host, no inline script or style, no frame around it; and the files live by that."""
    headers = (await get()).headers
    policy = dict(rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    index = (FOLDER / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bon\w+=|\bstyle=|https?:", index) == []
    assert {f"ui/{name}" for name in FILES} >= set(re.findall(r'(?:href|src)="([^"]+)"', index))
    for name in FILES:
        text = (FOLDER / name).read_text("utf-8")
        if name != "preact-htm.js":
            assert re.findall(r"\beval\(|innerHTML|dangerouslySetInnerHTML|new Function|insertAdjacent", text) == [], (
                name
            )
            assert set(re.findall(r"https?://[^\s\"'`)]+", text)) <= {"http://www.w3.org/2000/svg"}, name
        for imported in re.findall(r'from "\./([\w.-]+)"', text):
            assert imported in FILES, f"{name} imports {imported}"


def test_what_is_not_ours_comes_with_its_licence() -> None:
    text = (FOLDER / "LICENSES.txt").read_text("utf-8")
    assert "Apache License" in text
    assert "The MIT License" in text
