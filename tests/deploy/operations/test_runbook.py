"""The runbook's commands, run as they stand: those of HTTP on the local host, those of az on a stand-in."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos.aio import CosmosClient

from engine.ground.names import execution_id
from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.schema import CONTAINER, DATABASE
from engine.store.cosmos.store import CosmosStore
from engine.testing import Environment
from tests.cosmos_double import CosmosDouble
from tests.deploy.infra import azure_tools
from tests.deploy.infra.code import ROOT
from tests.deploy.infra.local_host import Address, local_host
from tests.replay.stored.program import part, whole
from tests.stores.cosmos.support import set_up

RUNBOOK = (ROOT / "docs/operations.md").read_text("utf-8").partition("\n## Runbook\n")[2].partition("\n## Limits")[0]
KEY = "k" * 32
ORDER = {"id": "order-1", "customer": "Ada", "amount": "1.00", "items": [{"sku": "lamp", "quantity": 1}]}
ID = execution_id("fulfil", "order-1")

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="the runbook's commands need curl")


def block(heading: str) -> str:
    """The commands of a section, with the names of what is there."""
    section = RUNBOOK.partition(f"\n### {heading}\n")[2].partition("\n### ")[0] if heading else RUNBOOK
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found is not None, heading
    names = {"RG": azure_tools.GROUP, "APP": azure_tools.APP, "REGION": "westeurope"}
    return re.sub(r"(?<=name |roup |tion )(RG|APP|REGION)\b", lambda word: names[word[0]], found[1])


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with local_host(tmp_path_factory.mktemp("host"), ENGINE_SIGNING_KEY=KEY) as address:
        yield address


def run(commands: str, folder: Path, app: Address, **variables: str) -> str:
    """Run them with all that they need; a request that is refused fails them. Returns what they print."""
    tools, state = folder / "tools", folder / "state"
    for path in (tools, state):
        path.mkdir(exist_ok=True)
    for done in ("az signed in", "infrastructure deployed", "app deployed"):
        (state / done).touch()
    for name, command in (("az", "-m tests.deploy.infra.azure_tools az"), ("python", "")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n')
        tool.chmod(0o755)
    environment = os.environ | variables | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    environment |= {"STATE": str(state), "STANDIN_URL": app.url, "STANDIN_KEY": app.key}
    script = f'curl() {{ command curl --silent --show-error --fail-with-body "$@"; echo; }}\n{commands}'
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    return ran.stdout


def ask(app: Address, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{app.url}{path}", data, {"x-functions-key": app.key}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


@needs_curl
def test_the_address_and_the_key(tmp_path: Path, app: Address) -> None:
    commands = block("")
    assert f"API=https://{azure_tools.APP}.azurewebsites.net/api" in commands.replace("//APP.", f"//{azure_tools.APP}.")
    shown = run(re.sub(r"^API=.*$", f"API={app.url}", commands, flags=re.MULTILINE), tmp_path, app)
    assert [json.loads(line) for line in shown.splitlines()] == [
        {"status": "ok", "overdueSeconds": 0, "stuck": {}, "leftAlone": {}, "unreadable": {}},
        {"executions": []},
    ]


@needs_curl
def test_an_execution_is_asked_resumed_answered_and_interrupted(tmp_path: Path, app: Address) -> None:
    order = ORDER | {"id": "order-2"}
    id = ask(app, "POST", "/workflows/fulfil?wait=0.1", order)["executionId"]
    commands = block("An execution doesn't go on")
    assert commands.count("curl ") == 4
    shown = [json.loads(line) for line in run(commands, tmp_path, app, API=app.url, KEY=app.key, ID=id).splitlines()]
    assert [status["executionId"] for status in shown] == [id] * 4
    assert ask(app, "GET", f"/executions/{id}?wait=30")["outcome"] in ("interrupted", "completed")


@needs_curl
def test_a_persons_data_is_gone(tmp_path: Path, app: Address) -> None:
    ask(app, "POST", "/workflows/fulfil?wait=0.1", ORDER)
    run(block("Purging a person's data"), tmp_path, app, API=app.url, KEY=app.key)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        ask(app, "GET", f"/executions/{ID}")


def test_a_backup_is_restored_beside_the_old_account(tmp_path: Path, app: Address) -> None:
    """Each parameter that the commands name is one of the template's, and the app stands still meanwhile."""
    run(block("Restoring a backup"), tmp_path, app)
    assert (tmp_path / "state/log").read_text("utf-8").splitlines() == [
        "account restored as NEW",
        "app stopped",
        "infrastructure deployed",
        "app started",
    ]
    given = json.loads((tmp_path / "state/parameters").read_text("utf-8"))
    assert (given["cosmosAccountName"], given["leasePrefix"]) == ("NEW", "prod-2-")


async def test_the_queries_find_what_they_are_for() -> None:
    """The history of an execution, and the children of one, as Data Explorer would ask for them."""
    history, children = re.findall(r"(SELECT [^`\n]+'ID'[^`\n]*)", RUNBOOK)
    async with CosmosDouble() as double:
        set_up(double)
        store = CosmosStore(CosmosAccount(double.endpoint, double.key))
        async with Environment([whole, part], store) as env, CosmosClient(double.endpoint, double.key) as client:
            id = (await env.start(whole, "a")).execution_id
            await env.finish(id)
            container = client.get_database_client(DATABASE).get_container_client(CONTAINER)
            chunks = [chunk async for chunk in container.query_items(history.replace("'ID'", f"'{id}'"))]
            found = [child async for child in container.query_items(children.replace("'ID'", f"'{id}'"))]
    assert {"exec", "history::00000000", "history::00000001"} <= {chunk["id"] for chunk in chunks}
    events = [event for chunk in chunks for event in (*chunk.get("events", ()), *chunk.get("lastEvents", ()))]
    assert {"begun", "child"} <= {event["kind"] for event in events}
    assert [child["executionId"] for child in found] == [execution_id("compat_part", "part 7")]


def test_a_key_is_rotated_without_a_token_lost(tmp_path: Path) -> None:
    """Signed by the old key, taken by an app that signs with the new one; and no more once the old one is gone."""
    old, new = KEY, "n" * 32
    tokens = []
    with local_host(tmp_path, ENGINE_SIGNING_KEY=old) as app:
        for number in (1, 2):
            id = ask(app, "POST", "/workflows/fulfil?wait=0.1", ORDER | {"id": f"rotated {number}"})["executionId"]
            tokens.append(ask(app, "GET", f"/executions/{id}/deferreds/approval/token")["token"])
    answer = {"approved": True, "by": "Grace"}
    with local_host(tmp_path, ENGINE_SIGNING_KEY=f"{new},{old}") as app:
        ask(app, "POST", f"/deferreds/{tokens[0]}", answer)
        fresh = ask(app, "GET", f"/executions/{id}/deferreds/approval/token")["token"]
    with local_host(tmp_path, ENGINE_SIGNING_KEY=new) as app:
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(app, "POST", f"/deferreds/{tokens[1]}", answer)
        ask(app, "POST", f"/deferreds/{fresh}", answer)
