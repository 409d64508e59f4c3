"""The real thing: `python -m devhost` as a process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 20
"""Seconds after which a process that should have answered, or ended, counts as stuck."""

APP = """
import os
import azure.functions as func

app = func.FunctionApp()

@app.route(route="hello/{name}")
async def hello(req: func.HttpRequest) -> str:
    return f"hello {req.route_params['name']} {os.environ['GREETING']} {os.environ['ENGINE_SQLITE_FILE']}"
"""

Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    processes: list[subprocess.Popen[str]] = []

    def run(source: str, *arguments: str) -> subprocess.Popen[str]:
        (tmp_path / "served_app.py").write_text(source)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGINE_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "devhost", "--app", "served_app", "--port", "0", *arguments],
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def read_banner(process: subprocess.Popen[str]) -> tuple[str, str]:
    """The URL and the key that a starting host prints."""
    assert process.stdout is not None
    text = ""
    while "key    " not in text:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        text += line
    url = re.search(r"http://[\d.:]+", text)
    key = re.search(r"key    (\S+)", text)
    assert url
    assert key
    return url[0], key[1]


def get(url: str, key: str = "") -> str:
    request = urllib.request.Request(url, headers={"x-functions-key": key})
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return str(response.read().decode())


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_comes(run: Run, tmp_path: Path, stop: signal.Signals) -> None:
    (tmp_path / "local.settings.json").write_text('{"Values": {"GREETING": "from the file"}}')
    (tmp_path / "host.json").write_text('{"extensions": {"http": {"routePrefix": "v1"}}}')
    process = run(APP)
    url, key = read_banner(process)
    assert json.loads(get(f"{url}/admin/host/status")) == {"state": "Running"}
    assert get(f"{url}/v1/hello/you", key) == "hello you from the file .data/workflows.sqlite"
    with pytest.raises(urllib.request.HTTPError) as refused:
        get(f"{url}/v1/hello/you")
    refused.value.close()
    assert refused.value.code == 401
    assert (tmp_path / ".data" / "functions.key").read_text().strip() == key

    process.send_signal(stop)
    _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, log
    assert "Traceback" not in log


def test_the_app_in_the_working_folder_is_served(run: Run, tmp_path: Path) -> None:
    """P9: PYTHONPATH names this repository, which has a `workflows` and a `function_app` of its own."""
    (tmp_path / "workflows.py").write_text('import os\nos.environ["GREETING"] = "from my own workflows"\n')
    process = run(f"import workflows\n{APP}")
    url, key = read_banner(process)
    assert "from my own workflows" in get(f"{url}/api/hello/ada", key)


@pytest.mark.parametrize(
    ("source", "message", "traceback"),
    [
        ("def oops():\n    return {}['missing']\n\noops()", "importing served_app failed with KeyError", "in oops"),
        ("import azure.functions", "served_app can't be served: served_app has no FunctionApp", ""),
        (APP + "\nimport asyncio\nasyncio.run(asyncio.sleep(0))", "failed with RuntimeError", "in <module>"),
        (
            APP.replace("req:", "request:"),
            "served_app can't be served: function hello: no trigger or binding provides the parameter request",
            "",
        ),
    ],
)
def test_an_app_that_cannot_be_loaded_is_never_served(run: Run, source: str, message: str, traceback: str) -> None:
    process = run(source)
    output, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    # The sentence comes last, but for what Python itself says of coroutines that nobody awaited.
    assert any(message in line for line in log.splitlines()[-5:])
    assert traceback in log
    assert ("Traceback" in log) == bool(traceback)
    assert output == ""


def test_a_stuck_thread_does_not_keep_the_process(run: Run) -> None:
    source = """
import threading
import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)

@app.route(route="hang")
def hang(req: func.HttpRequest) -> str:
    print("hanging", flush=True)
    threading.Event().wait()
    return ""
"""
    process = run(source, "--grace", "0.1")
    url, _ = read_banner(process)
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(f"{url}/api/hang", timeout=0.5)
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, log


def test_a_second_signal_ends_it_at_once(run: Run) -> None:
    source = """
import asyncio
import azure.functions as func

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)

@app.timer_trigger(arg_name="timer", schedule="0 0 0 1 1 *", run_on_startup=True)
async def hang(timer: func.TimerRequest) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.Event().wait()
"""
    process = run(source, "--grace", "3600")
    read_banner(process)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    while "a second signal" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
