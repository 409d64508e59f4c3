"""What the service accepts as a container and as an item.

Limits: https://learn.microsoft.com/azure/cosmos-db/concepts-limits (id 1,023 bytes without `/ \\ ? #`,
partition key value 2,048 bytes, item and request 2 MB, 100 operations in a batch).
"""

from dataclasses import dataclass, field
from typing import Any

from . import epk, wire
from .errors import PARTITION_KEY_MISMATCH, CosmosError, bad_request, not_modelled, too_large
from .indexing import IndexingPolicy, Segments, split_path

MAX_BYTES = 2 * 1024 * 1024
MAX_ID_BYTES = 1023
MAX_KEY_BYTES = 2048
SYSTEM_PROPERTIES = ("_rid", "_self", "_etag", "_attachments", "_ts")


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """One value of the partition key: how the client wrote it, and where it hashes to."""

    value: Any
    text: str = field(init=False)
    epk: str = field(init=False)

    def __post_init__(self) -> None:
        text = "[{}]" if self.value is epk.UNDEFINED else wire.dumps([self.value])
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "epk", epk.effective_key(self.value))


@dataclass(frozen=True, slots=True)
class ContainerRules:
    """A validated container definition."""

    id: str
    key_path: Segments
    indexing: IndexingPolicy
    definition: dict[str, Any]


def container_rules(body: Any) -> ContainerRules:
    if not isinstance(body, dict):
        raise wire.invalid_payload()
    check_id(body.get("id"))
    for policy in ("uniqueKeyPolicy", "computedProperties", "vectorEmbeddingPolicy", "fullTextPolicy"):
        if body.get(policy):
            raise not_modelled(f"a container's {policy}")
    if body.get("analyticalStorageTtl") or body.get("changeFeedPolicy"):
        raise not_modelled("analytical storage and change feed policies")
    key = body.get("partitionKey")
    if not isinstance(key, dict) or not key.get("paths"):
        raise bad_request("The partition key definition is missing; every container needs one.")
    if key.get("kind", "Hash") != "Hash" or len(key["paths"]) != 1:
        raise not_modelled("hierarchical partition keys")
    if key.get("version") != 2:
        raise not_modelled('version 1 of the partition key hash: give the partition key "version": 2')
    ttl = body.get("defaultTtl")
    if ttl not in (None, -1):
        raise not_modelled(f"a defaultTtl of {ttl!r}")
    indexing = IndexingPolicy(body.get("indexingPolicy"))
    definition = {
        "id": body["id"],
        "indexingPolicy": indexing.definition,
        "partitionKey": {"paths": list(key["paths"]), "kind": "Hash", "version": 2},
        "conflictResolutionPolicy": {
            "mode": "LastWriterWins",
            "conflictResolutionPath": "/_ts",
            "conflictResolutionProcedure": "",
        },
        "geospatialConfig": {"type": "Geography"},
    }
    if ttl is not None:
        definition["defaultTtl"] = ttl
    return ContainerRules(body["id"], split_path(key["paths"][0]), indexing, definition)


def check_id(value: Any) -> str:
    """An id of a database, a container or an item."""
    if value is None:
        raise bad_request("The input content is invalid because the required properties - 'id; ' - are missing")
    if not isinstance(value, str):
        raise bad_request(f"The input content is invalid: the id must be a string, not {value!r}.")
    if not value or len(value.encode("utf-8")) > MAX_ID_BYTES:
        raise bad_request(
            f"The input name {value[:64]!r} is invalid. Ensure to provide a unique non-empty string "
            "less than '1024' characters."
        )
    if any(letter in value for letter in "/\\?#"):
        raise bad_request(f"The id {value[:64]!r} contains one of the characters '/', '\\', '?' and '#'.")
    return value


def check_item(body: Any, rules: ContainerRules, key: PartitionKey) -> None:
    """An item as it may be stored under this partition key."""
    if not isinstance(body, dict):
        raise wire.invalid_payload()
    check_id(body.get("id"))
    if "ttl" in body:
        raise not_modelled("items that expire")
    if wire.size(body) > MAX_BYTES:
        raise too_large()
    if item_key(body, rules).text != key.text:
        raise bad_request(
            "PartitionKey extracted from document doesn't match the one specified in the header.",
            PARTITION_KEY_MISMATCH,
        )


def item_key(body: dict[str, Any], rules: ContainerRules) -> PartitionKey:
    """The partition key that an item holds."""
    value: Any = body
    for segment in rules.key_path:
        value = value.get(segment, epk.UNDEFINED) if isinstance(value, dict) else epk.UNDEFINED
    return checked_key(value)


def header_key(text: str | None) -> PartitionKey:
    """The partition key of the request's header, a JSON array of one value."""
    if text is None:
        raise bad_request(
            "The partition key supplied in x-ms-partitionkey header has fewer components than defined in the "
            "the collection.",
            PARTITION_KEY_MISMATCH,
        )
    try:
        components = wire.loads(text.encode("utf-8", "surrogateescape"))
    except CosmosError:
        components = None
    if not isinstance(components, list):
        raise bad_request(f"The partition key header {text!r} is not a JSON array.")
    if len(components) != 1:
        raise bad_request(
            f"The partition key supplied in x-ms-partitionkey header has {len(components)} components; the "
            "collection defines 1.",
            PARTITION_KEY_MISMATCH,
        )
    return checked_key(epk.UNDEFINED if components[0] == {} else components[0])


def checked_key(value: Any) -> PartitionKey:
    if isinstance(value, dict | list):
        raise bad_request("The partition key value must be a string, a number, a boolean or null.")
    if isinstance(value, str) and len(value.encode("utf-8")) > MAX_KEY_BYTES:
        raise bad_request(f"The partition key value is longer than {MAX_KEY_BYTES} bytes.")
    return PartitionKey(value)
