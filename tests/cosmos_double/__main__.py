"""Serve the double until interrupted: `python -m tests.cosmos_double --port 8081 [--ranges 4]`.

For a process that is to run against Cosmos DB where there is none. It keeps everything in memory and forgets it at the
end. It is no emulator: the package's docstring says what it leaves out.
"""

import argparse
import asyncio
import contextlib

from . import CosmosDouble


async def main() -> None:
    """Serves until it is cancelled."""
    parser = argparse.ArgumentParser("python -m tests.cosmos_double", description=__doc__)
    parser.add_argument("--port", type=int, default=8081, help="0 takes a free one (%(default)s)")
    parser.add_argument("--ranges", type=int, default=1, help="physical partitions of a new container (%(default)s)")
    options = parser.parse_args()
    async with CosmosDouble(port=options.port, ranges=options.ranges, log_limit=10_000) as double:
        print(f"endpoint {double.endpoint}\nkey      {double.key}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
