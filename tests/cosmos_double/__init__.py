"""A strict double of the Cosmos DB for NoSQL gateway, in memory, on loopback.

    async with CosmosDouble(ranges=2) as double:
        async with CosmosClient(double.endpoint, double.key) as client:
            ...

It serves the unmodified SDK over plain HTTP. Where the service would refuse, the double refuses; where the
service promises nothing, the double takes the less convenient of the permitted behaviours, so that code which
passes here does not lean on luck. Nothing in it is random and nothing sleeps unless a fault says so.

It has what the engine and the Functions host ask for, and no more: what it does not model it refuses, with a message.
It is no model of latency, throughput or of the exact size of a charge.

Files, from the bottom up:

    wire      JSON as the service stores it          errors    statuses, sub-statuses, error bodies
    epk       effective partition keys, hash ranges
    charges   request units                          auth      the signature of a request
    indexing  which paths an index serves            rules     what a container and an item may be
    state     documents, ranges, LSNs, snapshots     items     one transaction over a logical partition
    patch     `set` and `incr`                       batch     transactional batches
    query_*   parser, evaluation, pages and plans  feed      change feed and the ranges feed
    request   what a request is about                faults    rules that break requests on purpose
    log       every request, for tests that count    handlers  one function for each kind of request
    server    HTTP in and out, and the order of all of it
"""

from .errors import CosmosError
from .faults import (
    Answer,
    Call,
    Cut,
    Drop,
    Faults,
    Rule,
    ShortPage,
    Split,
    StaleRead,
)
from .log import Entry, RequestLog
from .request import Request
from .server import WELL_KNOWN_KEY, CosmosDouble

__all__ = [
    "WELL_KNOWN_KEY",
    "Answer",
    "Call",
    "CosmosDouble",
    "CosmosError",
    "Cut",
    "Drop",
    "Entry",
    "Faults",
    "Request",
    "RequestLog",
    "Rule",
    "ShortPage",
    "Split",
    "StaleRead",
]
