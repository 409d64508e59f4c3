"""A strict double of the Cosmos DB for NoSQL gateway, in memory, on loopback.

    async with CosmosDouble(ranges=2) as double:
        async with CosmosClient(double.endpoint, double.key) as client:
            ...

It serves the unmodified SDK over plain HTTP. Where the service would refuse, the double refuses; where the
service promises nothing, the double takes the less convenient of the permitted behaviours, so that code which
passes here does not lean on luck. Nothing in it is random and nothing sleeps unless a fault says so.

What it is not: a model of latency, throughput or of the exact size of a charge; RBAC (a token is only
accepted or refused); stored procedures, triggers, user-defined functions, unique keys, hierarchical partition
keys, version 1 hashing, offers, users and permissions; more than one region; the all-versions-and-deletes
feed; the SQL beyond the dialect in `query_parser`. What it does not model it refuses, with a message.

Files, from the bottom up:

    wire      JSON as the service stores it          clock     a clock that tests move
    errors    statuses, sub-statuses, error bodies   epk       effective partition keys, hash ranges
    charges   request units                          auth      the signature of a request
    indexing  which paths an index serves            rules     what a container and an item may be
    state     documents, ranges, LSNs, snapshots     items     one transaction over a logical partition
    patch     the six patch operations               batch     transactional batches
    query_*   lexer, parser, evaluation, pages, plan feed      change feed and the ranges feed
    request   what a request is about                faults    rules that break requests on purpose
    log       every request, for tests that count    handlers  one function for each kind of request
    server    HTTP in and out, and the order of all of it
"""

from .clock import Clock
from .errors import CosmosError
from .faults import (
    Answer,
    Call,
    Cut,
    Delay,
    Drop,
    Faults,
    Hold,
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
    "Clock",
    "CosmosDouble",
    "CosmosError",
    "Cut",
    "Delay",
    "Drop",
    "Entry",
    "Faults",
    "Hold",
    "Request",
    "RequestLog",
    "Rule",
    "ShortPage",
    "Split",
    "StaleRead",
]
