"""Calls the HTTP API of a running host, for the commands.

1. The key comes from the environment. No argument, message or log line contains the key.
2. Every problem becomes a Refused, whose sentence says what was wrong and what to do.
3. Redirects aren't followed, so the key goes only to the address that the user gave.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp

from engine.cli.problems import USAGE, Refused

PATIENCE = 30.0
"""How many seconds an answer may take, on top of the wait that the request asks for."""
MAX_WAIT = 200.0
"""The longest wait that a request may ask for, in seconds."""


@dataclass(frozen=True)
class Answer:
    """An answer without an error. `body` is None if the answer has no body."""

    status: int
    body: Any
    etag: str | None = None


@dataclass(frozen=True)
class Address:
    """The address of a host, and the headers with the caller's key or token."""

    url: str
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, url: str | None, environment: Mapping[str, str] = os.environ) -> Self:
        """The address `url`, with the key in ENGINE_KEY or the token in ENGINE_TOKEN. Raises Refused."""
        if not url:
            raise Refused("no host is named: set ENGINE_URL, or pass --url, as in http://127.0.0.1:7071", USAGE)
        try:
            parts = urlsplit(url)
            is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_usable = False
        if not is_usable or parts.username or parts.password or parts.query or parts.fragment:
            raise Refused(
                "the host's address has to look like http://127.0.0.1:7071, without a user, a key or a query", USAGE
            )
        path = parts.path.rstrip("/") or "/api"
        return cls(f"{parts.scheme}://{parts.netloc}{path}", _credentials(environment))


def _credentials(environment: Mapping[str, str]) -> dict[str, str]:
    credentials = dict[str, str]()
    for setting, header, before in (
        ("ENGINE_KEY", "x-functions-key", ""),
        ("ENGINE_TOKEN", "Authorization", "Bearer "),
    ):
        value = environment.get(setting, "").strip()
        if not value.isascii() or not value.isprintable():
            raise Refused(f"{setting} has to consist of printable ASCII characters", USAGE)
        if value:
            credentials[header] = before + value
    return credentials


class Api:
    """The API of one host. Use it in a `with` block, which closes the connection."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._runner = asyncio.Runner()
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def at(cls, url: str | None) -> Self:
        """The API at the address `url`. Raises Refused if it is None or can't be used."""
        return cls(Address.of(url))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._session is not None:
            self._runner.run(self._session.close())
        self._runner.close()

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Send a GET, and return the body of the answer. Raises Refused."""
        return self.call("GET", path, query).body

    def post(self, path: str, body: str | None = None, query: Mapping[str, str] | None = None) -> Any:
        """Send a POST, and return the body of the answer. Raises Refused."""
        return self.call("POST", path, query, body).body

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
        wait: float = 0,
    ) -> Answer:
        """Send a request, and read the answer. `wait`: how many seconds the request asks the host to wait. Raises
        Refused."""
        try:
            return self._runner.run(self._send(method, path, query or {}, body, headers or {}, wait))
        except TimeoutError:
            raise Refused(f"{self.address.url} gave no answer within {PATIENCE + wait:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            number = getattr(error, "errno", None)
            why = os.strerror(number) if number else str(error) or type(error).__name__
            raise Refused(
                f"no answer from {self.address.url}: {why}. Check that the host runs, and that this is its address"
            ) from None

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: str | None,
        headers: Mapping[str, str],
        wait: float,
    ) -> Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self.address.credentials, trust_env=True)
        async with self._session.request(
            method,
            f"{self.address.url}/{path}",
            params=query,
            data=None if body is None else body.encode("utf-8", "surrogatepass"),
            headers={"Content-Type": "application/json", **headers},
            timeout=aiohttp.ClientTimeout(total=PATIENCE + wait),
            allow_redirects=False,
        ) as response:
            text = (await response.read()).decode("utf-8", "replace")
            found = _json(text)
            is_json = found is not None or not text.strip()
            if (response.status >= 300 and response.status != 304) or not is_json:
                raise self._refusal(response.status, found)
            return Answer(response.status, found, response.headers.get("ETag"))

    def _refusal(self, status: int, body: Any) -> Refused:
        url = self.address.url
        details: dict[str, Any] = body if isinstance(body, dict) else {"status": status}
        if status == 401:
            known = "isn't this host's key" if self.address.credentials else "isn't set"
            return Refused(f"{url} refuses callers without its key: ENGINE_KEY {known}", details={"status": 401})
        if isinstance(details.get("detail"), str):
            first = f". It was {json.dumps(details['first'], ensure_ascii=False)}" if "first" in details else ""
            return Refused(f"{details.get('title', 'Refused')}: {details['detail']}{first}", details=details)
        return Refused(
            f"{url} answered {status}, but not as the engine's API answers. Check that this is the host's address",
            details=details,
        )


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
