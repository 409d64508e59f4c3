"""Partial updates.

Operations: https://learn.microsoft.com/azure/cosmos-db/partial-document-update
Limits: https://learn.microsoft.com/azure/cosmos-db/partial-document-update-faq
"""

from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos.aio import ContainerProxy
from azure.cosmos.exceptions import (
    CosmosAccessConditionFailedError,
    CosmosHttpResponseError,
    CosmosResourceNotFoundError,
)

from .support import DOCS, Raw, bare

BASE = {"id": "a", "pk": "p", "n": 1, "list": [1, 2, 3], "deep": {"x": {"y": 1}}, "text": "t"}


@pytest.fixture
async def item(work: ContainerProxy) -> dict[str, Any]:
    return dict(await work.create_item(BASE))


@pytest.mark.parametrize(
    ("operations", "changes"),
    [
        ([{"op": "set", "path": "/n", "value": {"z": None}}], {"n": {"z": None}}),
        ([{"op": "set", "path": "/fresh", "value": 2}], {"fresh": 2}),
        ([{"op": "incr", "path": "/n", "value": -3}], {"n": -2}),
        ([{"op": "incr", "path": "/fresh", "value": 7}], {"fresh": 7}),
        ([{"op": "set", "path": "/n", "value": 5}, {"op": "incr", "path": "/n", "value": 1}], {"n": 6}),
    ],
)
async def test_operations(work: ContainerProxy, item: dict, operations: list, changes: dict) -> None:
    patched = await work.patch_item("a", "p", operations)
    assert bare(patched) == {**BASE, **changes}
    assert patched["_etag"] != item["_etag"]
    assert await work.read_item("a", "p") == patched


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "incr", "path": "/text", "value": 1},
        {"op": "incr", "path": "/n", "value": "1"},
        {"op": "incr", "path": "/n", "value": True},
        {"op": "set", "path": "/id", "value": "b"},
        {"op": "set", "path": "/pk", "value": "q"},
        {"op": "set", "path": "/_ts", "value": 1},
        {"op": "set", "path": "/ttl", "value": 60},
        {"op": "set", "path": "/n"},
        {"op": "set", "path": "n", "value": 1},
        {"op": "set", "path": "/deep/x", "value": 1},
        {"op": "add", "path": "/n", "value": 1},
    ],
)
async def test_refused_operations_change_nothing(work: ContainerProxy, raw: Raw, item: dict, operation: dict) -> None:
    """The first operation is fine: all of them apply, or none."""
    fine = {"op": "set", "path": "/touched", "value": True}
    reply = await raw.send("PATCH", f"{DOCS}/a", {"operations": [fine, operation]}, pk="p")
    assert reply.status == 400
    assert await work.read_item("a", "p") == item


async def test_ten_operations_at_most(raw: Raw, item: dict) -> None:
    operations = [{"op": "incr", "path": "/n", "value": 1}] * 11
    assert (await raw.send("PATCH", f"{DOCS}/a", {"operations": operations[:10]}, pk="p")).json["n"] == 11
    assert (await raw.send("PATCH", f"{DOCS}/a", {"operations": operations}, pk="p")).status == 400
    assert (await raw.send("PATCH", f"{DOCS}/a", {"operations": []}, pk="p")).status == 400


async def test_a_patch_of_nothing_is_404(work: ContainerProxy) -> None:
    with pytest.raises(CosmosResourceNotFoundError):
        await work.patch_item("none", "p", [{"op": "set", "path": "/n", "value": 1}])


async def test_if_match_guards_a_patch(work: ContainerProxy, item: dict) -> None:
    guard = {"match_condition": MatchConditions.IfNotModified, "etag": item["_etag"]}
    await work.patch_item("a", "p", [{"op": "incr", "path": "/n", "value": 1}], **guard)
    with pytest.raises(CosmosAccessConditionFailedError):
        await work.patch_item("a", "p", [{"op": "incr", "path": "/n", "value": 1}], **guard)


@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        ("FROM c WHERE c.n = 1", True),
        ("from c where c.n = 1 and c.text = 't'", True),
        ("FROM c WHERE c.n = 2", False),
        ("FROM c WHERE c.none = 1", False),
        ('FROM c WHERE c.n = "1"', False),
    ],
)
async def test_filter_predicates(work: ContainerProxy, item: dict, predicate: str, holds: bool) -> None:
    operations = [{"op": "incr", "path": "/n", "value": 1}]
    if holds:
        assert (await work.patch_item("a", "p", operations, filter_predicate=predicate))["n"] == 2
        return
    with pytest.raises(CosmosAccessConditionFailedError):
        await work.patch_item("a", "p", operations, filter_predicate=predicate)
    assert await work.read_item("a", "p") == item


@pytest.mark.parametrize("predicate", ["c.n = 1", "WHERE c.n = 1", "SELECT * FROM c", "FROM c WHERE c.n + 1 = 2"])
async def test_a_predicate_outside_the_dialect_is_refused(work: ContainerProxy, item: dict, predicate: str) -> None:
    with pytest.raises(CosmosHttpResponseError) as caught:
        await work.patch_item("a", "p", [{"op": "incr", "path": "/n", "value": 1}], filter_predicate=predicate)
    assert caught.value.status_code == 400
    assert predicate in str(caught.value)
