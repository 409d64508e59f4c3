"""Signatures: https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources"""

import base64

import aiohttp
import pytest

from tests.cosmos_double import CosmosDouble

from .support import DOCS, Raw

OTHER_KEY = base64.b64encode(b"another key").decode()


async def test_a_wrong_key_is_401(raw: Raw):
    reply = await raw.send("GET", f"{DOCS}/a", pk="p", key=OTHER_KEY)
    assert (reply.status, reply.json["code"]) == (401, "Unauthorized")
    assert "docs\\\\ndbs/app/colls/work/docs/a" in reply.message


@pytest.mark.parametrize("authorization", ["", "nonsense", "type%3Dresource%26ver%3D1.0%26sig%3Dx"])
async def test_no_signature_is_401(raw: Raw, authorization: str):
    assert (await raw.send("GET", "/dbs/app", Authorization=authorization)).status == 401


async def test_a_signature_is_for_one_request(raw: Raw):
    """Another verb, another date: another signature."""
    assert (await raw.send("GET", "/dbs/app", x_ms_date="Sat, 01 Jan 2000 00:00:00 GMT")).status == 401
    assert (await raw.send("GET", "/dbs/app", x_ms_date="")).status == 401


async def test_the_version_header_is_required(raw: Raw):
    assert (await raw.send("GET", "/dbs/app", x_ms_version="2018-12-31")).status == 200
    async with aiohttp.ClientSession() as session, session.get(raw.endpoint) as answer:
        assert answer.status == 400


async def test_a_refused_request_does_nothing(raw: Raw, double: CosmosDouble):
    reply = await raw.send("POST", DOCS, {"id": "a", "pk": "p"}, pk="p", key=OTHER_KEY)
    assert reply.status == 401
    assert double.container("app", "work").documents() == []
