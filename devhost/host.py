"""The host as a whole: starts the parts that an app needs, and stops them in good order.

The host stops in this order:
1. The host starts no new request, timer run or batch.
2. The app's engine claims nothing more.
3. The host waits for running invocations, up to the grace period, and cancels the rest.
4. The host releases the feed's leases.
5. The host closes the app's engine.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aiohttp import web

from devhost.clock import Clock, SystemClock
from devhost.feed import FeedListener
from devhost.functions import App, FeedTrigger, HttpTrigger, QueueTrigger, TimerTrigger
from devhost.http import HttpFront, full_route
from devhost.invoke import Invoker
from devhost.left_out import left_out
from devhost.listener import QueueListener
from devhost.queues import Queues
from devhost.runtime import check_runtime, close_runtime, drain_runtime, open_change_feed
from devhost.settings import HostSettings
from devhost.timers import TimerRunner
from devhost.user import StandIn

LAST_SECONDS = 3.0
"""How long cancelled invocations may take to end."""
CLOSE_SECONDS = 15.0
"""How long the app's engine may take to close."""

_log = logging.getLogger("devhost")


@dataclass(frozen=True)
class Options:
    """Where and how a host serves."""

    host: str = "127.0.0.1"
    port: int = 7071
    """0 for any free one."""
    key: str | None = None
    """The key for functions that aren't anonymous. None: no function needs a key."""
    user: StandIn | None = None
    """The user that each caller with the key has signed in as. None: callers don't sign in."""
    grace_seconds: float = 10.0
    threads: int | None = None
    queue_file: Path | None = None
    """The file of the queues. None: queues are in memory."""


class Host:
    """Runs an app from `start` to `stop`. Raises LoadError if the app can't be served."""

    def __init__(self, app: App, settings: HostSettings, options: Options, clock: Clock | None = None) -> None:
        self._app, self._settings, self._options = app, settings, options
        clock = clock or SystemClock()
        self._queues = Queues(options.queue_file)
        self._invoker = Invoker(clock, settings.timeout_seconds, options.threads, self._queues)
        self._front = HttpFront(app.functions, settings.route_prefix, options.key, self._invoker, options.user)
        self._runner: web.AppRunner | None = None
        self._parts: list[TimerRunner | FeedListener | QueueListener] = []
        self._tasks: list[asyncio.Task[None]] = []
        for function in app.functions:
            if isinstance(function.trigger, TimerTrigger):
                self._parts.append(TimerRunner(function, self._invoker, clock))
            elif isinstance(function.trigger, QueueTrigger):
                self._parts.append(QueueListener(self._queues, function, settings.queues, self._invoker, clock))
            elif isinstance(function.trigger, FeedTrigger):
                check_runtime(app.module)
                open_feed = partial(open_change_feed, app.module)
                self._parts.append(FeedListener(open_feed, function, self._invoker, clock))

    async def start(self) -> str:
        """Starts every part, and returns the host's URL. Raises OSError if the host can't listen there."""
        # As on the platform, the app gets each body as it was sent, compressed or not.
        self._runner = web.AppRunner(
            self._front.application(),
            access_log=None,
            shutdown_timeout=self._options.grace_seconds,
            auto_decompress=False,
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, self._options.host, self._options.port).start()
        self._tasks = [asyncio.create_task(part.run()) for part in self._parts]
        for task in self._tasks:
            task.add_done_callback(_complain)
        address, port = self._runner.addresses[0][:2]
        return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"

    async def stop(self) -> None:
        """Stops every part in the order that the module states. Never raises."""
        self._front.stop()
        for part in self._parts:
            part.stop()
        try:
            drain_runtime(self._app.module)
        except Exception as error:  # noqa: BLE001 - the app's own code, and the host ends anyway
            _log.error("draining the app's runtime failed", exc_info=error)
        waiting = [*self._tasks]
        if self._runner is not None:
            waiting.append(asyncio.create_task(self._runner.cleanup()))
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self._options.grace_seconds)
            if late:
                _log.warning("invocations that take longer than the grace period are cancelled")
                for task in late.intersection(self._tasks):
                    task.cancel()
                await asyncio.wait(late, timeout=LAST_SECONDS)
        self._invoker.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await close_runtime(self._app.module)
        except Exception as error:  # noqa: BLE001 - the app's own code, and the host ends anyway
            _log.error("closing the app's runtime failed", exc_info=error)
        self._queues.close()

    def banner(self, url: str) -> str:
        """The text for the person who started the host."""
        lines = [f"{self._app.name} is served on {url} (Ctrl-C stops it)", ""]
        for function in self._app.functions:
            match function.trigger:
                case HttpTrigger() as trigger:
                    methods = ",".join(sorted(trigger.methods or ["any"]))
                    lock = "" if trigger.anonymous or self._options.key is None else "  (key)"
                    route = f"{methods} {url}/{full_route(self._settings.route_prefix, trigger)}{lock}"
                    lines.append(f"  http   {function.name}: {route}")
                case TimerTrigger(schedule):
                    lines.append(f"  timer  {function.name}: {schedule}")
                case QueueTrigger(queue):
                    lines.append(f"  queue  {function.name}: the messages of {queue}")
                case FeedTrigger(poll, most):
                    lines.append(f"  feed   {function.name}: up to {most} documents, read every {poll:g} s")
        signs_in = self._options.user is not None and self._options.key is not None
        code = f"?code={self._options.key}" if signs_in else ""
        lines += [f"  open   {url}/{route}{code} in a browser" for route in self._open_pages()]
        if self._options.key is not None:
            lines += ["", f"  key    {self._options.key} (header x-functions-key, or ?code=)"]
        if self._options.user is not None:
            user = self._options.user
            lines.append(f"  user   {user.name} ({', '.join(user.roles)}): every caller with the key is this user")
        lines += ["", "  left out, and different in Azure:"]
        lines += [f"    {line}" for line in left_out(self._app, self._settings)]
        return "\n".join(lines) + "\n"

    def _open_pages(self) -> list[str]:
        """Routes to open in a browser: they need no function key, and have no parameters."""
        triggers = (f.trigger for f in self._app.functions if isinstance(f.trigger, HttpTrigger))
        open = [t for t in triggers if t.anonymous and "GET" in (t.methods or ()) and "{" not in t.route]
        return [full_route(self._settings.route_prefix, trigger) for trigger in open]


def _complain(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a trigger failed and won't fire again", exc_info=error)
