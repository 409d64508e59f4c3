"""The demo: an order over HTTP, a host that is killed in the middle of a step, and nothing that is lost or doubled.

Run `make demo`, or `python demo.py`. The demo works in a temporary folder and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 40.0
LEASE_SECONDS = 3
ORDER = {
    "id": "order-1001",
    "customer": "Ada",
    "amount": "120.50",
    "items": [{"sku": "lamp", "quantity": 1}, {"sku": "chair", "quantity": 4}, {"sku": "desk", "quantity": 1}],
    "work_seconds": 1.0,
}


class Demo:
    """The story of one order, with a host on one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ledger = folder / "ledger.sqlite"
        self._url = f"http://127.0.0.1:{_free_port()}"
        self._began = time.monotonic()

    def tell(self) -> int:
        """Run the whole story. Returns the exit code: 0 if every side effect happened exactly once."""
        self._say("", "An order, a crash, and what is left of it.\n")
        with self._host() as host:
            started = self._call("POST", "/api/workflows/fulfil", ORDER)
            location = started["links"]["self"].removeprefix(self._url)
            self._say("you", f"POST /api/workflows/fulfil             → 202, execution {started['executionId'][:8]}…")
            _until(lambda: self._step_is_recorded("charge"), "the card to be charged")
            _until(self._is_held, "the queue to hand the order over")
            time.sleep(0.3)  # the replay takes less, and reserve takes a second
            self._say("engine", "charge is done and recorded; reserve is running")
            os.kill(host.pid, signal.SIGKILL)
            host.wait()
            self._say("you", "kill -9                                → the host is gone, in the middle of reserve")
        with self._host():
            self._say("you", "start the host again                   → it finds the order where the history ends")
            _until(lambda: self._call("GET", location).get("suspended"), "the order to wait for its approval")
            self._say("engine", "reserve ran again (it had not been recorded), charge did not; waiting for a person")
            answer = {"approved": True, "by": "Grace"}
            self._call("POST", f"{location}/deferreds/approval", answer)
            self._say("you", "POST …/deferreds/approval               → 200, approved by Grace")
            ended = _until(lambda: self._ended(location), "the order to be shipped") or {}
            self._say("engine", f"{ended['outcome']}: {len(ended['result']['parcels'])} parcels shipped in parallel")
            repeated = self._call("POST", "/api/workflows/fulfil", ORDER)
            same = repeated["result"] == ended["result"]
            picture = self._timeline(started["executionId"])
            self._say("you", f"POST the same order once more          → 200, {'the same receipt' if same else 'NO!'}")
        self._say("", f"\n{picture}")
        return self._account()

    def _timeline(self, execution_id: str) -> str:
        """What `durable timeline` draws."""
        command = [sys.executable, "-m", "engine.cli", "timeline", execution_id, "--url", f"{self._url}/api"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def _account(self) -> int:
        effects = self._effects()
        steps = [step for step, _, _ in effects]
        self._say("", "\nWhat the outside world saw, from the activities' own ledger:\n")
        for step, what, at in effects:
            times = steps.count(step)
            mark = "once" if times == 1 else f"{times} TIMES"
            self._say("", f"    {at:%H:%M:%S}  {step:<10} {what:<24} {mark}")
        expected = ["charge", "reserve", "ship", "ship#2", "ship#3"]
        if sorted(steps) == expected:
            self._say(
                "",
                f"\n{len(steps)} side effects, each exactly once, across a kill -9. "
                f"({time.monotonic() - self._began:.0f} s)",
            )
            return 0
        self._say("", f"\nThis is wrong: {steps} instead of {expected}.")
        return 1

    @contextlib.contextmanager
    def _host(self) -> Iterator[subprocess.Popen[bytes]]:
        environment = os.environ | {
            "LEDGER_FILE": str(self._ledger),
            "ENGINE_LEASE_SECONDS": str(LEASE_SECONDS),
            "ENGINE_SKEW_SECONDS": "0.5",
        }
        port = self._url.rpartition(":")[2]
        data = str(self._folder / "workflows.sqlite")
        with (self._folder / "host.log").open("ab") as log:
            host = subprocess.Popen(
                [sys.executable, "-m", "devhost", "--no-auth", "--port", port, "--data", data],
                env=environment,
                stdout=log,
                stderr=log,
            )
        try:
            _until(lambda: self._is_up(host), "the host to start")
            yield host
        finally:
            host.terminate()
            host.wait()

    def _is_up(self, host: subprocess.Popen[bytes]) -> bool:
        if host.poll() is not None:
            raise RuntimeError(f"the host ended at once:\n{(self._folder / 'host.log').read_text()}")
        with contextlib.suppress(OSError):
            return bool(self._call("GET", "/admin/host/status"))
        return False

    def _ended(self, location: str) -> dict[str, Any] | None:
        status = self._call("GET", f"{location}?wait=5")
        return status if status["status"] == "complete" else None

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            parsed: dict[str, Any] = json.load(answer)
            return parsed

    def _step_is_recorded(self, step: str) -> bool:
        with closing(sqlite3.connect(self._folder / "workflows.sqlite", timeout=10)) as db:
            rows = db.execute("SELECT body FROM documents WHERE id LIKE 'history::%'").fetchall()
        return any(event.get("step") == step for (body,) in rows for event in json.loads(body)["events"])

    def _is_held(self) -> bool:
        """Whether a driver holds the execution. Between two invocations nobody does."""
        with closing(sqlite3.connect(self._folder / "workflows.sqlite", timeout=10)) as db:
            rows = db.execute("SELECT body FROM documents WHERE id = 'exec'").fetchall()
        return any("worker" in json.loads(body) for (body,) in rows)

    def _effects(self) -> list[tuple[str, str, datetime]]:
        with closing(sqlite3.connect(self._ledger, timeout=10)) as db:
            rows = db.execute("SELECT step, what, at FROM effects ORDER BY at").fetchall()
        return [(step, what, datetime.fromisoformat(at)) for step, what, at in rows]

    def _say(self, who: str, what: str) -> None:
        elapsed = f"{time.monotonic() - self._began:5.1f} s  {who:<7}" if who else ""
        sys.stdout.write(f"{elapsed}{what}\n")
        sys.stdout.flush()


def _until(condition: Callable[[], T], what: str) -> T:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_SECONDS:g} s for {what}")
        time.sleep(0.05)
    return result


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(Demo(Path(folder)).tell())
