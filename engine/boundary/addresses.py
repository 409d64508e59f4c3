"""The public address of the API, for `Location`, links and token URLs.

Rules:
1. If `ENGINE_PUBLIC_URL` is set, it is the address, whatever a request says.
2. Otherwise the address comes from the request. Forwarded headers, in which a proxy names the address that its caller
   used, count only with `ENGINE_TRUST_FORWARDED`, because anybody may send them.
3. If a forwarded header has several values, the first one counts. A malformed value is ignored.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from engine.boundary.answers import Request
from engine.ground.settings import Settings

_ROUTE = re.compile(r"/(workflows/[^/]+(/executions)?|executions(/[0-9a-f]{32}(/.*)?)?|openapi\.json)/?$")
_HOST = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?", re.ASCII)
_PREFIX = re.compile(r"(/[\w.~%-]+)+/?", re.ASCII)
_USUAL_PORTS = {"http": "80", "https": "443"}


def api_address(request: Request, settings: Settings) -> str:
    """The address at which callers reach the routes, without a slash at its end."""
    if settings.public_url:
        return settings.public_url
    asked = urlsplit(request.url)
    path = _ROUTE.sub("", asked.path, count=1).rstrip("/")
    if not settings.trust_forwarded:
        return f"{asked.scheme}://{asked.netloc}{path}"
    scheme = _forwarded(request, "proto", re.compile("https?")) or asked.scheme
    host = _forwarded(request, "host", _HOST) or asked.netloc
    port = _forwarded(request, "port", re.compile(r"\d{1,5}"))
    if port and port != _USUAL_PORTS.get(scheme) and not re.search(r":\d+$", host):
        host = f"{host}:{port}"
    prefix = _forwarded(request, "prefix", _PREFIX).rstrip("/")
    return f"{scheme}://{host}{prefix}{path}"


def _forwarded(request: Request, name: str, form: re.Pattern[str]) -> str:
    value = request.headers.get(f"x-forwarded-{name}", "").split(",")[0].strip()
    return value if form.fullmatch(value) else ""
