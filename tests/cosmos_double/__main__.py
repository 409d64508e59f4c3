"""Serve the double until interrupted: `python -m tests.cosmos_double --port 8081 [--ranges 4]`.

For a process that is to run against Cosmos DB where there is none. It keeps everything in memory and forgets
it at the end. It is not: a performance model (no latency, no throughput, no 429 of its own), RBAC, stored
procedures, triggers or functions, more than one region, hierarchical keys, unique keys, offers, the full SQL.
What it does not model it refuses; the package's docstring has the list.
"""

import argparse
import asyncio
import contextlib
import ssl
import sys

from . import CosmosDouble
from .handlers import LEVELS


async def main() -> str | None:
    """Serves until it is cancelled. Returns why it can't, if it can't."""
    options = _parse()
    double = CosmosDouble(
        host=options.host,
        port=options.port,
        ranges=options.ranges,
        consistency=options.consistency,
        accept_aad=options.accept_aad,
        log_limit=10_000,
        tls=options.tls,
    )
    try:
        await double.start()
    except OSError as error:
        return f"the double can't listen on {options.host}:{options.port}: {error.strerror or error}"
    for database, container, key in options.container:
        double.add_container(database, container, f"/{key}", default_ttl=-1)
    print(f"endpoint {double.endpoint}\nkey      {double.key}", flush=True)
    await asyncio.Event().wait()
    return None


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.cosmos_double",
        description="Serves a strict double of Cosmos DB for NoSQL, in memory, until it is interrupted.",
        epilog="It is for tests and local work, and no emulator: no latency, no throughput, no 429 of its own; no "
        "roles, stored procedures, triggers or functions; one region; a part of the SQL. What it doesn't "
        "model it refuses. At its end it forgets everything.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8081, help="0 takes a free one (%(default)s)")
    parser.add_argument("--ranges", type=_positive, default=1, help="physical partitions of a new container")
    parser.add_argument(
        "--consistency", default="Session", choices=LEVELS, help="consistency level of the account (%(default)s)"
    )
    parser.add_argument("--accept-aad", action="store_true", help="let Entra tokens in, unchecked")
    parser.add_argument("--tls", type=_tls, metavar="PEM", help="serve https, with this certificate and its key")
    parser.add_argument(
        "--container",
        action="append",
        default=[],
        type=_container,
        metavar="DATABASE/CONTAINER/PK",
        help="make a container at the start, such as app/work/executionId; with time to live on",
    )
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _tls(path: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(path)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path} can't be used: {error}") from None
    return context


def _container(text: str) -> list[str]:
    parts = text.split("/", 2)
    if len(parts) != 3 or not all(parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not DATABASE/CONTAINER/PK")
    return parts


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(asyncio.run(main()))
