"""Serve the double until interrupted: `python -m tests.cosmos_double --port 8081 [--ranges 4]`.

For a process that is to run against Cosmos DB where there is none. It keeps everything in memory and forgets
it at the end. It is not: a performance model (no latency, no throughput, no 429 of its own), RBAC, stored
procedures, triggers or functions, more than one region, hierarchical keys, unique keys, offers, the full SQL,
TLS. What it does not model it refuses; the package's docstring has the list.
"""

import argparse
import asyncio
import contextlib

from . import CosmosDouble


async def main() -> None:
    parser = argparse.ArgumentParser(description="A strict double of Cosmos DB for NoSQL, in memory.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8081)
    parser.add_argument("--ranges", type=int, default=1, help="physical partitions of a new container")
    parser.add_argument("--consistency", default="Session", help="default consistency level of the account")
    parser.add_argument("--accept-aad", action="store_true", help="let Entra tokens in, unchecked")
    parser.add_argument(
        "--container",
        action="append",
        default=[],
        metavar="DATABASE/CONTAINER/PK",
        help="make a container at the start, such as app/work/executionId; with time to live on",
    )
    options = parser.parse_args()
    async with CosmosDouble(
        host=options.host,
        port=options.port,
        ranges=options.ranges,
        consistency=options.consistency,
        accept_aad=options.accept_aad,
        log_limit=10_000,
    ) as double:
        for spec in options.container:
            database, container, key = spec.split("/", 2)
            double.add_container(database, container, f"/{key}", default_ttl=-1)
        print(f"endpoint {double.endpoint}\nkey      {double.key}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
