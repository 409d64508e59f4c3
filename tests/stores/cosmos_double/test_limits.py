"""What an item may be: ids, sizes, depth, numbers, text.

Limits: https://learn.microsoft.com/azure/cosmos-db/concepts-limits. What is said of a hosted account was recorded
by the public repository xo/dbimp (docs/COSMOS.md).
"""

import pytest
from azure.cosmos.aio import ContainerProxy

from .support import BATCH, DOCS, Raw


@pytest.mark.parametrize("item_id", ["a" * 1023, "é" * 511, "a b", "::%20..~", "😀", "a&b=c+d"])
async def test_ids_that_are_allowed_round_trip(work: ContainerProxy, item_id: str) -> None:
    await work.create_item({"id": item_id, "pk": "p"})
    assert (await work.read_item(item_id, "p"))["id"] == item_id


@pytest.mark.parametrize("item_id", ["", "a" * 1024, "é" * 512, "a/b", "a\\b", "a?b", "a#b", None, 7])
async def test_ids_that_are_not_allowed(raw: Raw, item_id: object) -> None:
    assert (await raw.send("POST", DOCS, {"id": item_id, "pk": "p"}, pk="p")).status == 400


async def test_two_megabytes(raw: Raw) -> None:
    room = 2 * 1024 * 1024 - len('{"id":"a","pk":"p","x":""}')
    reply = await raw.send("POST", DOCS, {"id": "a", "pk": "p", "x": "x" * (room + 1)}, pk="p")
    assert (reply.status, reply.json["code"]) == (413, "RequestEntityTooLarge")
    body = b'{"id":"a","pk":"p","x":"' + b"x" * room + b'"}'
    assert (await raw.send("POST", DOCS, pk="p", data=body)).status == 201
    halves = [
        {"operationType": "Create", "resourceBody": {"id": name, "pk": "p", "x": "x" * 1_100_000}} for name in "bc"
    ]
    assert (await raw.send("POST", DOCS, halves, pk="p", **BATCH)).status == 413
    grown = await raw.send("PATCH", f"{DOCS}/a", {"operations": [{"op": "set", "path": "/y", "value": 1}]}, pk="p")
    assert grown.status == 413


async def test_nesting_of_128_levels(raw: Raw):  # type: ignore[no-untyped-def]
    def nested(levels: int) -> bytes:
        inner = b"[" * (levels - 1) + b"]" * (levels - 1)
        return b'{"id":"a","pk":"p","x":' + inner + b"}"

    assert (await raw.send("POST", DOCS, pk="p", data=nested(129))).status == 400
    assert (await raw.send("POST", DOCS, pk="p", data=nested(100_000))).status == 400
    assert (await raw.send("POST", DOCS, pk="p", data=nested(128))).status == 201


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b'{"id":"a","pk":"p","x":NaN}',
        b'{"id":"a","pk":"p","x":-Infinity}',
        b'{"id":"a","pk":"p","x":1e400}',
        b'{"id":"a","pk":"p","x":"\xff"}',
        b'["a"]',
        b'"a"',
    ],
)
async def test_what_is_not_a_json_object_is_refused(raw: Raw, data: bytes) -> None:
    """A hosted account answers 400 to a NaN and to 1e400 ("The request payload is invalid")."""
    assert (await raw.send("POST", DOCS, pk="p", data=data)).status == 400


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("9007199254740991", 9007199254740991),
        ("9007199254740993", 9007199254740992),
        ("-9007199254740993", -9007199254740992),
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ("1.0", 1),
        ("-0.0", 0),
        ("1e3", 1000),
        ("0.1000000000000000055511151231257827", 0.1),
        ("5e-324", 5e-324),
        ("1e-400", 0),
    ],
)
async def test_numbers_are_doubles(raw: Raw, text: str, stored: float) -> None:
    """IEEE 754 doubles: whole numbers beyond 2**53 lose precision, and fractions of zero go."""
    body = f'{{"id":"a","pk":"p","x":{text}}}'.encode()
    reply = await raw.send("POST", DOCS, pk="p", data=body)
    assert reply.json["x"] == stored
    assert type(reply.json["x"]) is type(stored)
    assert (await raw.send("GET", f"{DOCS}/a", pk="p")).json["x"] == stored


async def test_half_a_surrogate_pair_is_lost_silently(raw: Raw) -> None:
    """A hosted account stores U+FFFD, so a client that must keep such text has to encode it."""
    body = b'{"id":"a","pk":"p","x":"a\\ud800b","y":"\\ud83d\\ude00"}'
    reply = await raw.send("POST", DOCS, pk="p", data=body)
    assert (reply.json["x"], reply.json["y"]) == ("a\ufffdb", "😀")
