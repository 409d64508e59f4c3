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
        ([{"op": "add", "path": "/new", "value": {"z": None}}], {"new": {"z": None}}),
        ([{"op": "add", "path": "/n", "value": 5}], {"n": 5}),
        ([{"op": "add", "path": "/list/1", "value": 9}], {"list": [1, 9, 2, 3]}),
        ([{"op": "add", "path": "/list/3", "value": 9}], {"list": [1, 2, 3, 9]}),
        ([{"op": "add", "path": "/list/-", "value": 9}], {"list": [1, 2, 3, 9]}),
        ([{"op": "set", "path": "/list/1", "value": 9}], {"list": [1, 9, 3]}),
        ([{"op": "set", "path": "/deep/x/new", "value": 2}], {"deep": {"x": {"y": 1, "new": 2}}}),
        ([{"op": "replace", "path": "/text", "value": None}], {"text": None}),
        ([{"op": "remove", "path": "/list/0"}], {"list": [2, 3]}),
        ([{"op": "remove", "path": "/deep/x"}], {"deep": {}}),
        ([{"op": "incr", "path": "/n", "value": -3}], {"n": -2}),
        ([{"op": "incr", "path": "/n", "value": 0.5}], {"n": 1.5}),
        ([{"op": "incr", "path": "/fresh", "value": 7}], {"fresh": 7}),
        ([{"op": "move", "from": "/text", "path": "/deep/t"}], {"text": ..., "deep": {"x": {"y": 1}, "t": "t"}}),
        ([{"op": "move", "from": "/n", "path": "/text"}], {"n": ..., "text": 1}),
        ([{"op": "set", "path": "/ttl", "value": 60}], {"ttl": 60}),
        ([{"op": "add", "path": "/a~1b~0c", "value": 1}], {"a/b~c": 1}),
        ([{"op": "set", "path": "/n", "value": 5}, {"op": "incr", "path": "/n", "value": 1}], {"n": 6}),
    ],
)
async def test_operations(work: ContainerProxy, item: dict, operations: list, changes: dict):
    patched = await work.patch_item("a", "p", operations)
    expected = {name: value for name, value in {**BASE, **changes}.items() if value is not ...}
    assert bare(patched) == expected
    assert patched["_etag"] != item["_etag"]
    assert await work.read_item("a", "p") == patched


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/list/4", "value": 1},
        {"op": "add", "path": "/none/x", "value": 1},
        {"op": "add", "path": "/n/x", "value": 1},
        {"op": "set", "path": "/list/01", "value": 1},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "replace", "path": "/list/3", "value": 1},
        {"op": "remove", "path": "/none"},
        {"op": "remove", "path": "/list/-"},
        {"op": "incr", "path": "/text", "value": 1},
        {"op": "incr", "path": "/n", "value": "1"},
        {"op": "incr", "path": "/n", "value": True},
        {"op": "move", "from": "/none", "path": "/x"},
        {"op": "move", "from": "/deep", "path": "/deep/x/z"},
        {"op": "set", "path": "/id", "value": "b"},
        {"op": "set", "path": "/pk", "value": "q"},
        {"op": "set", "path": "/_ts", "value": 1},
        {"op": "remove", "path": "/_etag"},
        {"op": "set", "path": "/ttl", "value": 0},
        {"op": "set", "path": "/n"},
        {"op": "set", "path": "n", "value": 1},
        {"op": "set", "path": "/", "value": 1},
        {"op": "test", "path": "/n", "value": 1},
        {"op": "copy", "from": "/n", "path": "/m"},
    ],
)
async def test_refused_operations_change_nothing(work: ContainerProxy, raw: Raw, item: dict, operation: dict):
    """The first operation is fine: all of them apply, or none."""
    fine = {"op": "set", "path": "/touched", "value": True}
    reply = await raw.send("PATCH", f"{DOCS}/a", {"operations": [fine, operation]}, pk="p")
    assert reply.status == 400
    assert "Operation(2)" in reply.message or "ttl" in reply.message
    assert await work.read_item("a", "p") == item


async def test_ten_operations_at_most(raw: Raw, item: dict):
    operations = [{"op": "incr", "path": "/n", "value": 1}] * 11
    assert (await raw.send("PATCH", f"{DOCS}/a", {"operations": operations[:10]}, pk="p")).json["n"] == 11
    assert (await raw.send("PATCH", f"{DOCS}/a", {"operations": operations}, pk="p")).status == 400
    assert (await raw.send("PATCH", f"{DOCS}/a", {"operations": []}, pk="p")).status == 400


async def test_a_patch_of_nothing_is_404(work: ContainerProxy):
    with pytest.raises(CosmosResourceNotFoundError):
        await work.patch_item("none", "p", [{"op": "set", "path": "/n", "value": 1}])


async def test_if_match_guards_a_patch(work: ContainerProxy, item: dict):
    guard = {"match_condition": MatchConditions.IfNotModified, "etag": item["_etag"]}
    await work.patch_item("a", "p", [{"op": "incr", "path": "/n", "value": 1}], **guard)
    with pytest.raises(CosmosAccessConditionFailedError):
        await work.patch_item("a", "p", [{"op": "incr", "path": "/n", "value": 1}], **guard)


@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        ("FROM c WHERE c.n = 1", True),
        ("from c where c.n = 1 and not is_defined(c.done)", True),
        ("FROM items i WHERE i.deep.x.y IN (1, 2)", True),
        ("FROM c WHERE c.n = 2", False),
        ("FROM c WHERE c.none = 1", False),
        ("FROM c WHERE NOT (c.none = 1)", False),
        ('FROM c WHERE c.n = "1"', False),
    ],
)
async def test_filter_predicates(work: ContainerProxy, item: dict, predicate: str, holds: bool):
    operations = [{"op": "incr", "path": "/n", "value": 1}]
    if holds:
        assert (await work.patch_item("a", "p", operations, filter_predicate=predicate))["n"] == 2
        return
    with pytest.raises(CosmosAccessConditionFailedError):
        await work.patch_item("a", "p", operations, filter_predicate=predicate)
    assert await work.read_item("a", "p") == item


@pytest.mark.parametrize("predicate", ["c.n = 1", "WHERE c.n = 1", "SELECT * FROM c", "FROM c WHERE c.n + 1 = 2"])
async def test_a_predicate_outside_the_dialect_is_refused(work: ContainerProxy, item: dict, predicate: str):
    with pytest.raises(CosmosHttpResponseError) as caught:
        await work.patch_item("a", "p", [{"op": "incr", "path": "/n", "value": 1}], filter_predicate=predicate)
    assert caught.value.status_code == 400
    assert predicate in str(caught.value)
