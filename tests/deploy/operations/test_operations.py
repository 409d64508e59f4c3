"""What docs/operations.md says in numbers is what is counted, computed, or written in the code."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import Runtime, Settings
from engine.boundary import http
from engine.ground.names import execution_id
from engine.store.sqlite.store import SqliteStore
from engine.values.error_records import MAX_MESSAGE, MAX_TRACEBACK
from tests.deploy.infra.bicep import INFRA, read, read_parameters
from tests.deploy.infra.code import ROOT, TRIGGERS, settings_read, trigger
from tests.deploy.operations import costs
from tests.deploy.operations.costs import Story, count

DOCUMENT = (ROOT / "docs/operations.md").read_text("utf-8")
STORIES: dict[str, tuple[Story, Story | None]] = {
    "start to end, one step": (costs.one_step, None),
    "start to end, ten steps one after the other": (costs.ten_steps, None),
    "the example's order: two steps, an approval, two parcels": (costs.order, None),
    "the same, expired: two steps, a timer after a day, a refund": (costs.expired_order, None),
    "deleting the order after 30 days, with its sweep": (costs.retention_ends, costs.order),
    "deleting five steps that ran at once": (costs.deletion, costs.five_steps_at_once),
    "deleting five steps that ran one after the other": (costs.deletion, costs.five_steps),
    "starting it again": (costs.refused_start, costs.order),
    "asking how it stands": (costs.poll, costs.order),
    "a heartbeat, every 10 s of a step": (costs.heartbeat, costs.refused_start),
    "a sweep with nothing due": (costs.sweep, None),
}
FED = {"an order on its own: four pages": 1, "each of fifty orders at once": 50}
SERVERLESS, STORAGE = 0.25, 0.25
"""Dollars: for a million RU, and for a GB and month."""
MONTH = 30 * 86_400
BATCH, LET_GO = Settings.batch_budget.seconds, Settings.let_go_within.seconds
DRIVE = Settings.invocation_budget.seconds // 60


def row(first: str) -> list[str]:
    """The other cells of the table row that begins with this."""
    (found,) = re.findall(rf"^\| {re.escape(first)} \|(.*)\|$", DOCUMENT, re.MULTILINE)
    return [cell.strip() for cell in found.split("|")]


def number(text: str) -> float:
    """The number that a cell begins with."""
    found = re.match(r"\$?([\d,.]+)", text)
    assert found is not None, text
    return float(found[1].rstrip(".,").replace(",", ""))


@pytest.fixture(autouse=True)
def _ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_FILE", str(tmp_path / "ledger.sqlite"))


@pytest.mark.parametrize("what", STORIES)
async def test_costs_are_what_is_counted(what: str) -> None:
    requests, units, kept = row(what)
    cost = await count(*STORIES[what])
    stays = int(number(kept)) if kept else cost.bytes
    assert (cost.requests, cost.units) == (int(number(requests)), int(number(units)))
    assert cost.bytes == pytest.approx(stays, rel=0.02), "a traceback's length differs between versions of Python"


@pytest.mark.parametrize("what", FED)
async def test_costs_with_the_feed_are_what_is_counted(what: str) -> None:
    story = costs.FedOrders(FED[what])
    cost = await count(story.run, story.begin)
    assert [round(cost.requests / FED[what]), round(cost.units / FED[what])] == [*map(number, row(what))]


def test_costs_under_load_are_those_of_orders() -> None:
    alone, together = (number(row(what)[1]) for what in FED)
    assert [number(row("1, each on its own")[0])] == [alone]
    for orders in (10, 50):
        assert number(row(str(orders))[0]) == orders * together
    assert f"about {5000 // together:.0f} orders a second" in DOCUMENT


@pytest.mark.parametrize(
    ("what", "counted"),
    [
        ("one step", "start to end, one step"),
        ("ten steps", "start to end, ten steps one after the other"),
        ("orders", "the example's order: two steps, an approval, two parcels"),
    ],
)
def test_a_million_is_a_million_times_as_much(what: str, counted: str) -> None:
    millions, serverless, storage = map(number, row(what))
    _, units, kept = row(counted)
    assert millions == number(units)
    assert serverless == pytest.approx(millions * SERVERLESS)
    assert storage == pytest.approx(number(kept) / 1000 * STORAGE, abs=0.005)


def test_a_month_in_production_is_what_the_templates_make() -> None:
    """Quantities come from the templates; each line is its quantity times its price, and the sum is the sum."""
    values = {name: param.value for name, param in read(INFRA / "main.bicep").of("param").items()}
    values |= read_parameters(INFRA / "main.prod.bicepparam")[1]
    waiting = sum(values[f"alwaysReady{group}"] for group in ("Feed", "Sweep", "Http"))
    memory = values["instanceMemoryMB"] // 1024
    sweeps = MONTH // int(re.findall(r"\*/(\d+) ", str(trigger("sweep")["schedule"]))[0])
    endpoints = [d for d in read(INFRA / "main.bicep").of("module").values() if "private-endpoint" in d.about]
    alerts = read(INFRA / "modules/alerts.bicep").of("var")["lookFor"].value
    quantities = {
        f"instances that wait: {waiting} of {memory} GB": waiting * memory * MONTH,
        "the sweep's executions, in an instance that waits: a second each": sweeps * memory,
        "the executions meter": sweeps / 1e6,
        "Cosmos DB, `executions`: a tenth of the ceiling": values["cosmosMaxThroughput"] / 10,
        "Cosmos DB, `leases`: the smallest ceiling": 100,
        f"private endpoints: {len(endpoints)}": len(endpoints) * MONTH // 3600,
        f"log alerts, every 5 minutes: {len(alerts)}": len(alerts),
    }
    total = 0.0
    for what, quantity in quantities.items():
        said, price, dollars, _ = row(what)
        assert number(said) == quantity
        hours = 720 if "for 720 hours" in said else 1
        assert number(dollars) == pytest.approx(quantity * hours * float(price), abs=0.005)
        total += number(dollars)
    assert number(row("together")[2]) == pytest.approx(total)


def test_every_price_says_where_it_is_from() -> None:
    """A source with its date, or that it isn't verified."""
    tables = re.findall(r"^\| [^\n]*\| price from \|\n\| --- [^\n]*\n((?:\|[^\n]*\n)+)", DOCUMENT, re.MULTILINE)
    lines = [line for table in tables for line in table.splitlines() if not line.startswith("| together ")]
    assert len(lines) == 11
    for line in lines:
        assert re.search(r"\| (not verified|second-hand, \[\d{4}-\d{2}-\d{2}\])[^|]*\|$", line), line
    for prefix, _, _ in OTHERS:
        assert re.search(r"\b20\d{2}(-\d{2}-\d{2})?\b", row(prefix)[3]), prefix


def test_the_engine_stands_beside_others_with_its_own_numbers() -> None:
    kinds = ("one step", "ten steps", "orders")
    millions = [number(re.findall(rf"^\| {kind} \| \d+ \| \$([\d.]+) \|", DOCUMENT, re.MULTILINE)[0]) for kind in kinds]
    assert [number(cell) for cell in row("this engine, serverless Cosmos DB")[:3]] == [round(one) for one in millions]
    for prefix, price, counts in OTHERS:
        assert [number(cell) for cell in row(prefix)[:3]] == [pytest.approx(price * count) for count in counts]


OTHERS = [
    ("AWS Step Functions, Standard", 25, (1, 10, 5)),
    ("AWS Lambda durable functions", 8, (2, 11, 6)),
    ("Temporal Cloud", 50, (2, 11, 7)),
    ("Cloudflare Workflows", 0.4, (1, 1, 1)),
]
"""Dollars for a million units, and the units of one step, ten steps and an order."""


def test_costs_at_rest_are_those_of_the_triggers() -> None:
    delay = trigger("drive_changes")["feed_poll_delay"]
    assert isinstance(delay, int)
    often, feed = row("the feed is asked for changes")
    assert (number(often.removeprefix("every ")), float(feed)) == (delay, 1000 / delay)
    seconds = int(re.findall(r"\*/(\d+) ", str(trigger("sweep")["schedule"]))[0])
    often, sweep = row("the sweep asks what is due")
    assert (number(often.removeprefix("every ")), float(sweep)) == (
        seconds,
        number(row("a sweep with nothing due")[1]) / seconds,
    )
    leases = 1.0
    total = float(row("together, for one physical partition")[1])
    assert total == pytest.approx(float(feed) + float(sweep) + leases)
    assert f"{total} RU/s are {total * MONTH / 1e6:.1f} million RU in 30 days" in DOCUMENT


def test_what_is_computed_in_the_text_is_right() -> None:
    orders, alone = number(row("orders")[0]), number(row("orders, each on its own, with the feed")[0])
    assert alone == number(row("an order on its own: four pages")[1])
    assert [*map(number, row("orders, each on its own, with the feed"))][1:] == [
        alone * SERVERLESS,
        number(row("orders")[2]),
    ]
    assert f"are {alone * 1e6 / MONTH:.0f} RU/s: serverless, ${alone * SERVERLESS:.2f}" in DOCUMENT
    at_rest = float(row("together, for one physical partition")[1]) * MONTH / 1e6
    assert f"takes {at_rest:.1f} million RU, ${at_rest * SERVERLESS:.2f}" in DOCUMENT
    deleting, storage = number(row("deleting the order after 30 days, with its sweep")[1]), number(row("orders")[2])
    assert f"up to {deleting:.0f} million RU more for that, ${deleting * SERVERLESS:.2f}" in DOCUMENT
    assert f"for {deleting * SERVERLESS / storage:.0f} months" in DOCUMENT
    smallest = 100 / 100 * 0.012 * 24 * 30
    assert f"never less than ${smallest:.2f} in 30 days and holds {1000 // orders:.0f} orders a second" in DOCUMENT
    assert f"from about {smallest / SERVERLESS:.1f} million RU" in DOCUMENT
    sweeps = MONTH // 10
    assert f"{sweeps:,} invocations\n  in 30 days: {sweeps * 2:,} GB-s, ${sweeps * 2 * 0.000026:.2f}" in DOCUMENT
    assert f"at most 14 GB-s, ${14 * 0.000026:.5f}" in DOCUMENT
    assert f"waits {MONTH:,} s in 30 days: {2 * MONTH:,} GB-s" in DOCUMENT


def test_limits_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (.+?) \| ([^|]+) \| `([A-Z_]+)` in `(engine/[\w/]+)\.py`", DOCUMENT, re.MULTILINE)
    assert len(rows) >= 9
    for what, said, name, module in rows:
        value = getattr(importlib.import_module(module.replace("/", ".")), name)
        assert number(said) == value, what


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("executions that compute at a time in one process", f"{Settings.max_drives}, `ENGINE_MAX_DRIVES`"),
        ("executions that one process holds", f"{Settings.max_held:,}, `ENGINE_MAX_HELD`"),
        ("sync activities of one process at a time", f"{Settings.activity_threads}; half of them of one activity"),
        ("a batch of the feed", f"{BATCH} s, then it hands over; {BATCH + LET_GO} s if the store is slow"),
        ("a drive of the queue", f"{DRIVE} minutes, then it hands over"),
        ("a lease, a heartbeat", f"{Settings.lease.seconds} s, {Settings.lease.seconds // 3} s"),
        ("claims without progress", f"{Settings.max_claims}"),
        ("a message, a traceback of a failure", f"{MAX_MESSAGE:,} and {MAX_TRACEBACK:,} characters, then cut"),
    ],
)
def test_limits_are_those_of_the_settings(what: str, said: str) -> None:
    assert row(what)[0] == said


async def test_the_limit_of_a_page_is_that_of_a_list() -> None:
    (most, usual) = map(int, re.findall(r"\d+", row("executions in a page of a list")[0]))
    runtime = Runtime([], lambda: SqliteStore(":memory:"))
    for limit, status in ((most, 200), (most + 1, 400)):
        asked = http.Request("https://app/api/executions", query={"limit": str(limit)})
        assert (await http.list_executions(runtime, asked)).status == status
    assert f'numbered(request, "limit", {usual}, ' in (ROOT / "engine/boundary/http.py").read_text("utf-8")
    await runtime.close()


def test_times_in_the_text_are_those_of_the_settings() -> None:
    lease, skew = (t.seconds for t in (Settings.lease, Settings.skew))
    sweep = int(re.findall(r"\*/(\d+) ", str(trigger("sweep")["schedule"]))[0])
    budgets = f"a batch lets go after {BATCH} s, a sweep asks for {Settings.sweep_budget.seconds} s at most, a drive of"
    assert f"{budgets} the queue hands over after {DRIVE} minutes, HTTP answers within" in DOCUMENT
    assert f"HTTP answers within {http.MAX_WAIT_SECONDS} s" in DOCUMENT
    beat = Settings().heartbeat.seconds
    assert f"its leases end, {lease - beat + skew} to {lease + skew + sweep} s later" in DOCUMENT
    prose = " ".join(DOCUMENT.split())
    assert f"within {lease + skew} s ({lease} s, and {skew} s for clocks that disagree)" in prose
    assert f"takes over within {sweep} s more" in prose
    assert f"in a batch of the feed that is after {BATCH} s, in the queue after {DRIVE} minutes" in prose


def test_every_setting_is_described_with_its_default_and_parameter() -> None:
    section = DOCUMENT.partition("\n## Settings\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(ENGINE_\w+)` \| (\S+) \| `(\w+)` \|", section, re.MULTILINE)
    read_by_the_engine = {name for name in settings_read() if name.startswith("ENGINE_")} - {"ENGINE_SQLITE_FILE"}
    assert {name for name, _, _ in rows} == read_by_the_engine
    template = read(INFRA / "main.bicep").of("param")
    for name, default, parameter in rows:
        value = template[parameter].value
        assert default == ("none" if value == "" else str(value)), name
        assert f"{name}: " in (INFRA / "modules/function-app.bicep").read_text("utf-8")


def test_every_alert_is_in_the_runbook() -> None:
    source = (ROOT / "infra/modules/alerts.bicep").read_text("utf-8")
    names = set(re.findall(r"^    name: '([\w-]+)'$", source, re.MULTILINE))
    names |= set(re.findall(r"name: '\$\{prefix\}-(\w+)'", source)) - {"people"}
    listed = set(re.findall(r"^\| `([\w-]+)` \| [a-z]", DOCUMENT.partition("### Alerts")[2], re.MULTILINE))
    assert listed == names


def test_every_cause_in_the_runbook_is_a_fault() -> None:
    tree = ast.parse((ROOT / "engine/ground/errors.py").read_text("utf-8"))
    faults = {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and "Fault" in map(ast.unparse, n.bases)}
    section = DOCUMENT.partition("### An execution doesn't go on")[2].partition("### ")[0]
    as_its_error = {"CodeFailed"}  # the cause shows the error that the workflow's own code raised
    assert faults - as_its_error <= set(re.findall(r"`(\w+)`", section))


def test_every_setting_of_host_json_is_explained() -> None:
    section = DOCUMENT.partition("\n## host.json, and the triggers\n")[2].partition("\n### ")[0]
    host = json.loads((ROOT / "host.json").read_text("utf-8"))
    unexplained = {name for name in _names(host) if name not in section}
    assert unexplained == {"version", "isEnabled"}


def test_routes_in_the_runbook_are_there() -> None:
    source = TRIGGERS.read_text("utf-8")
    for route in ("executions/{id}/resume", "executions/{id}/terminate", "executions/{id}/deferreds/{name}/token"):
        assert f'"{route}"' in source
    assert '"executions/{id}", methods=["DELETE"]' in source
    assert '"stuck"' in (ROOT / "engine/boundary/http.py").read_text("utf-8")


def test_the_id_of_an_execution_is_found_as_the_runbook_says() -> None:
    (command,) = re.findall(r'python -c "(.+?)"', DOCUMENT)
    said = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == execution_id("fulfil", "order-1")


def test_links_lead_somewhere() -> None:
    headings = {_anchor(text) for text in re.findall(r"^#+ (.+)$", DOCUMENT, re.MULTILINE)}
    for anchor in re.findall(r"\]\(#([\w-]+)\)", DOCUMENT):
        assert anchor in headings
    for path in re.findall(r"\]\((\w+\.md)", DOCUMENT):
        assert (ROOT / "docs" / path).exists(), path
    for path in re.findall(r"`((?:tests|infra|engine|docs)/[\w/.]+)`", DOCUMENT):
        assert (ROOT / path).exists(), path


def _names(settings: dict[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        yield name
        if isinstance(value, dict):
            yield from _names(value)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
