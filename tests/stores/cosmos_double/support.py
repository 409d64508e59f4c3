"""What the tests of the double share: a raw client that signs for itself, and small helpers."""

import base64
import hashlib
import hmac
import io
import json
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any
from urllib.parse import quote, unquote

import aiohttp
from yarl import URL

from tests.cosmos_double import WELL_KNOWN_KEY, CosmosDouble

DOCS = "/dbs/app/colls/work/docs"
BATCH = {"x_ms_cosmos_is_batch_request": "True", "x_ms_cosmos_batch_atomic": "True"}


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    json: Any

    @property
    def substatus(self) -> int:
        return int(self.headers.get("x-ms-substatus", "0"))

    @property
    def message(self) -> str:
        return str(self.json["message"])

    @property
    def charge(self) -> float:
        return float(self.headers["x-ms-request-charge"])


class Raw:
    """Signed requests without an SDK in between: no retries, no caches."""

    def __init__(self, double: CosmosDouble, session: aiohttp.ClientSession) -> None:
        self.endpoint = double.endpoint
        self._session = session

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        pk: Any = ...,
        key: str = WELL_KNOWN_KEY,
        data: Any = None,
        **headers: str,
    ) -> Reply:
        """Header names are given with underscores for dashes; `pk` is the partition key value."""
        sent = {"x-ms-version": "2020-07-15", "x-ms-date": formatdate(usegmt=True)}
        if pk is not ...:
            sent["x-ms-documentdb-partitionkey"] = json.dumps([pk])
        sent["Authorization"] = signature(method, path, sent["x-ms-date"], key)
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if data is None and body is not None:
            data = json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        url = URL(self.endpoint.rstrip("/") + path, encoded=True)
        stream = io.BytesIO(data) if data is not None else None
        async with self._session.request(method, url, data=stream, headers=sent) as answer:
            text = await answer.read()
            return Reply(answer.status, answer.headers, json.loads(text) if text else None)

    async def query(self, text: str, *, parameters: Any = None, path: str = DOCS, **options: Any) -> Reply:
        body = {"query": text, "parameters": parameters or []}
        options.setdefault("Content_Type", "application/query+json")
        return await self.send("POST", path, body, x_ms_documentdb_isquery="True", **options)


def signature(method: str, path: str, date: str, key: str) -> str:
    """https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources"""
    parts = [unquote(part) for part in path.split("/") if part]
    kind = parts[(len(parts) - 1) // 2 * 2] if parts else ""
    link = "/".join(parts if len(parts) % 2 == 0 else parts[:-1])
    text = f"{method.lower()}\n{kind}\n{link}\n{date.lower()}\n\n"
    digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    return quote(f"type=master&ver=1.0&sig={base64.b64encode(digest).decode()}", safe="")


async def collect(items: AsyncIterable[Any]) -> list[Any]:
    return [item async for item in items]


def ids(items: list[dict[str, Any]]) -> list[str]:
    return sorted(item["id"] for item in items)


def bare(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item without its system properties."""
    return {name: value for name, value in item.items() if not name.startswith("_")}
