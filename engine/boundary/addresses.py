"""The public address of the API, for `Location`, links and token URLs.

Rules:
1. `ENGINE_PUBLIC_URL`, where it is set, is the address, whatever a request says.
2. Otherwise it is the address of the request. Headers in which a proxy tells what its caller asked for count only if
   `ENGINE_TRUST_FORWARDED` says so: anybody may send them.
3. Of a forwarded header with several values the first counts. One that makes no sense is passed over.
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
    """The address that all routes begin with, as callers reach it. No slash at its end."""
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
