"""Real processes: the demo as a person runs it, and hosts that are killed while they work."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0


def test_the_demo_tells_its_story() -> None:
    """`make demo`: an order, a kill -9 in the middle of a step, and each side effect exactly once."""
    ran = subprocess.run(
        [sys.executable, "demo.py"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "5 side effects, each exactly once" in ran.stdout


def test_killed_and_frozen_hosts_lose_nothing(tmp_path: Path) -> None:
    """Two hosts on one file under load; one is killed at an arbitrary moment, the other frozen past its lease: every
    execution ends, no step that was recorded runs again, and no lease is left."""
    data = tmp_path / "workflows.sqlite"
    with host(tmp_path) as first, host(tmp_path) as second:
        started = []
        for number in range(30):
            order = {
                "id": f"o{number}", "customer": "Ada", "amount": "5", "work_seconds": 0.05,
                "items": [{"sku": "a", "quantity": 1}, {"sku": "b", "quantity": 2}],
            }  # fmt: skip
            place = (first if number % 2 else second).url
            started.append(call("POST", f"{place}/api/workflows/fulfil", order)["executionId"])
        pipeline = {"night": "n", "documents": [f"d-{n}" for n in range(200)]}
        started.append(call("POST", f"{second.url}/api/workflows/digest_documents", pipeline)["executionId"])
        until(lambda: sum((effects(first) + effects(second)).values()) > 20)
        os.kill(first.process.pid, signal.SIGKILL)
        os.kill(second.process.pid, signal.SIGSTOP)
        recorded = recorded_steps(data)
        with host(tmp_path) as third:
            os.kill(second.process.pid, signal.SIGCONT)
            for id in started[:-1]:
                call("POST", f"{third.url}/api/executions/{id}/deferreds/approval", {"approved": True, "by": "Grace"})
            for id in started:
                status = until(lambda id=id: ended(third.url, id))  # type: ignore[misc]
                assert status["outcome"] == "completed", status
    later = effects(third)
    assert not [step for step in recorded if step in later], "a recorded step ran again"
    steps = effects(first) + effects(second) + later
    assert all(steps[id, step] >= 1 for id in started[:-1] for step in ("charge", "reserve", "ship", "ship#2"))
    with contextlib.closing(sqlite3.connect(data)) as db:
        rows = db.execute("SELECT body FROM documents WHERE id = 'exec'").fetchall()
    assert all(json.loads(body).get("worker") is None for (body,) in rows)


@dataclass(frozen=True)
class Host:
    """A local host. Its ledger is its own, so that it shows what this host did to the outside world."""

    process: subprocess.Popen[bytes]
    url: str
    ledger: Path


@contextlib.contextmanager
def host(folder: Path) -> Iterator[Host]:
    """A local host on the folder's file, with short leases."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ledger = folder / f"{port}.ledger.sqlite"
    environment = os.environ | {
        "LEDGER_FILE": str(ledger), "ENGINE_LEASE_SECONDS": "1", "ENGINE_SKEW_SECONDS": "0.2",
    }  # fmt: skip
    command = ["-m", "devhost", "--no-auth", "--port", str(port), "--data", str(folder / "workflows.sqlite")]
    with (folder / f"{port}.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: is_up(url))
        yield Host(process, url, ledger)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
        process.terminate()
        process.wait(60)


def is_up(url: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(call("GET", f"{url}/admin/host/status"))
    return False


def ended(url: str, id: str) -> dict[str, Any] | None:
    status = call("GET", f"{url}/api/executions/{id}?wait=5")
    return status if status["status"] == "complete" else None


def call(method: str, url: str, body: Any = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data=data, method=method), timeout=30) as answer:
        parsed: dict[str, Any] = json.load(answer)
        return parsed


def recorded_steps(data: Path) -> list[tuple[str, str]]:
    """Activities whose result stands in a history."""
    with contextlib.closing(sqlite3.connect(data)) as db:
        rows = db.execute("SELECT execution_id, body FROM documents WHERE id LIKE 'history::%'").fetchall()
    events = [(id, event) for id, body in rows for event in json.loads(body)["events"]]
    return [(id, event["step"]) for id, event in events if event["kind"] == "activity"]


def effects(host: Host) -> Counter[tuple[str, str]]:
    """How often each step had its effect on the outside world, through that host."""
    with contextlib.closing(sqlite3.connect(host.ledger, timeout=30)) as db:
        try:
            return Counter(db.execute("SELECT execution, step FROM effects").fetchall())
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            return Counter()  # nothing has happened yet


def until(condition: Callable[[], Any]) -> Any:
    """Ask again and again, for as long as PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not (result := condition()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)
    return result
