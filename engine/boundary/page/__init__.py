"""The page on which people look at executions and control them: static files, the same for everybody.

1. The files hold no data. The page asks the API for data, with the key that its user types in.
2. The Content-Security-Policy allows nothing from other servers, no inline script and no inline style.
3. There is no build step: the browser gets these files. `LICENSES.txt` names third-party parts.
"""

from __future__ import annotations

import functools
from importlib.resources import files

from engine.boundary.answers import Request, Response, answered, etag_of, unchanged

INDEX = "index.html"
_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_HEADERS = {
    "Cache-Control": "no-cache",  # the browser keeps it, and asks again with its ETag
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


async def page(request: Request, name: str | None = None) -> Response:
    """GET ui, ui/{name}: a file of the page. Without a name, the page itself. 404 for an unknown name."""

    async def work() -> Response:
        if name is None and request.url.partition("?")[0].endswith("/"):
            return Response(
                302, "", {"Content-Type": "text/plain", "Location": "../ui"}
            )  # its files are relative to it
        found = _read(name or INDEX)
        if found is None:
            return Response(404, "", {"Content-Type": "text/plain"})
        text, etag = found
        kind = _TYPES[f".{(name or INDEX).rpartition('.')[2]}"]
        return unchanged(request, Response(200, text, {**_HEADERS, "Content-Type": kind, "ETag": etag}))

    return await answered(work)


@functools.cache
def _names() -> frozenset[str]:
    names = (entry.name for entry in files(__name__).iterdir() if entry.is_file())
    return frozenset(name for name in names if f".{name.rpartition('.')[2]}" in _TYPES)


@functools.cache
def _read(name: str) -> tuple[str, str] | None:
    """The text of a file, and its ETag."""
    if name not in _names():
        return None
    text = files(__name__).joinpath(name).read_text("utf-8")
    return text, etag_of(text)
