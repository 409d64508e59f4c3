"""`python -m devhost`: the command line, logging, signals and the exit code."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from types import FrameType

from devhost.host import Host, Options
from devhost.keys import local_key
from devhost.loader import load
from devhost.settings import DATA_SETTING, LoadError, load_host_settings, load_local_settings, use_cosmos
from devhost.user import SIGN_IN_SETTING, StandIn

DEFAULT_SETTINGS = "local.settings.json"
DEFAULT_DATA = ".data/workflows.sqlite"
KEY_FILE = "functions.key"
QUEUE_FILE = "queues.sqlite"
SHORT_ID = 8
"""How many characters of an execution's id a log line shows."""
LINGER_SECONDS = 2.0
"""How long threads of the app may keep the process alive after the host has closed everything else."""


class LineFormatter(logging.Formatter):
    """Formats a record as one line for people. If the record names an execution, its short id begins the message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(of_execution)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        id = getattr(record, "execution_id", None)
        record.of_execution = f"[{str(id)[:SHORT_ID]}] " if id else ""
        return super().format(record)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves the app in the working directory until a signal comes. Returns the exit code."""
    options = _parse(arguments)
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.DEBUG if options.verbose else logging.INFO, handlers=[lines])
    for chatty in ("azure", "asyncio", "aiohttp"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> int:
    stopping = asyncio.Event()
    _stop_on_signals(stopping)
    try:
        host = _load(options, os.environ)
    except LoadError as error:
        return _refuse(f"{options.app} can't be served: {error}", error)
    except OSError as error:
        return _refuse(f"the host's key can't be stored beside the data: {error}")
    try:
        url = await host.start()
    except OSError as error:
        await host.stop()
        return _refuse(f"devhost can't listen on {options.host}:{options.port}: {error.strerror or error}")
    sys.stdout.write("\n" + host.banner(url) + "\n")
    sys.stdout.flush()
    await stopping.wait()
    logging.getLogger("devhost").info("stopping; a second signal ends the process at once")
    await host.stop()
    _end_soon(0)
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("devhost", description="Runs an Azure Functions app on this machine.")
    parser.add_argument("--app", default="function_app", help="the module with the FunctionApp (%(default)s)")
    parser.add_argument("--port", type=int, default=7071, help="0 takes a free one (%(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (%(default)s)")
    parser.add_argument("--no-auth", action="store_true", help="ask for no key")
    parser.add_argument(
        "--user",
        metavar="NAME:ROLES",
        help="stand in for the sign-in: callers with the key are this user, as in Ada:operator",
    )
    parser.add_argument(
        "--settings", help=f"a file of settings to add to the environment ({DEFAULT_SETTINGS}, if present)"
    )
    parser.add_argument("--data", help=f"the file of the embedded store (setting {DATA_SETTING}, or {DEFAULT_DATA})")
    parser.add_argument(
        "--cosmos", metavar="URL", help="use this Cosmos DB account or emulator in place of the embedded store"
    )
    parser.add_argument(
        "--cosmos-key", metavar="KEY", help="the account's key (setting COSMOS_KEY, or otherwise your own identity)"
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=10.0,
        help="seconds that running invocations get to end when the host stops (%(default)s)",
    )
    parser.add_argument("--verbose", action="store_true", help="log in detail")
    return parser.parse_args(arguments)


def _load(options: argparse.Namespace, environment: MutableMapping[str, str]) -> Host:
    """Reads the settings and imports the app. It runs inside the event loop, as on the platform."""
    # The working folder goes first: with PYTHONPATH, another folder's `workflows` would be served in its place.
    here = os.getcwd()
    sys.path[:] = [here, *(entry for entry in sys.path if entry not in ("", here))]

    load_local_settings(Path(options.settings or DEFAULT_SETTINGS), environment, required=bool(options.settings))
    data = options.data or environment.get(DATA_SETTING) or DEFAULT_DATA
    environment[DATA_SETTING] = data
    use_cosmos(options.cosmos, options.cosmos_key, environment)
    environment.setdefault("AZURE_FUNCTIONS_ENVIRONMENT", "Development")
    user = None if options.user is None else StandIn.parse(options.user)
    if user is not None:
        environment[SIGN_IN_SETTING] = "entra"
    settings = load_host_settings(Path("host.json"))
    threads = environment.get("PYTHON_THREADPOOL_THREAD_COUNT", "")
    app = load(options.app, environment)
    key_file = None if data == ":memory:" else Path(data).with_name(KEY_FILE)
    queue_file = None if data == ":memory:" else Path(data).with_name(QUEUE_FILE)
    key = None if options.no_auth else local_key(key_file)
    return Host(
        app,
        settings,
        Options(
            host=options.host,
            port=options.port,
            key=key,
            user=user,
            grace_seconds=options.grace,
            threads=int(threads) if threads.isdecimal() else None,
            queue_file=queue_file,
        ),
    )


def _refuse(sentence: str, error: BaseException | None = None) -> int:
    """Prints why the host doesn't serve the app. If the app raised an error, its traceback comes first. Returns 1."""
    while isinstance(error, LoadError):
        error = error.__cause__
    if error is not None:
        traceback.print_exception(error)
    sys.stderr.write(f"\n{sentence}\n")
    return 1


def _stop_on_signals(stopping: asyncio.Event) -> None:
    """The first signal sets `stopping`; the second one ends the process."""
    loop = asyncio.get_running_loop()
    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        # The loop's own signal handlers don't run while a function blocks the loop. This handler does.
        if signals:
            os._exit(128 + number)
        signals.append(number)
        loop.call_soon_threadsafe(stopping.set)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def _end_soon(code: int) -> None:
    """Ends the process a little later, even if a thread still runs. Without this, Python waits for a pool's threads for
    ever."""
    end = threading.Timer(LINGER_SECONDS, os._exit, [code])
    end.daemon = True
    end.start()


if __name__ == "__main__":
    sys.exit(main())
