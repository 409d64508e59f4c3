"""Each command against a running host: what a person sees, and what a program gets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from engine.ground.names import execution_id
from tests.cli.conftest import Site


def is_waiting(status: dict[str, object]) -> bool:
    return bool(status["suspended"])


@pytest.fixture(scope="module")
def waiting(site: Site) -> str:
    """An execution that waits for a timer, a deferred and a channel, after an activity and a child."""
    id = site.start("waits", "lamp [red]x[/red] \x1b[31m")
    site.reach(id, is_waiting)
    return id


def test_start_and_get(site: Site) -> None:
    """By a key, from a file, from standard input, with a wait for the end."""
    ran = site.ok("start", "returns", "-", "--key", "k-1", "--wait", "20", "--json", given='"lamp"')
    assert ran.json["executionId"] == execution_id("returns", "k-1")
    assert ran.json["result"] == {"text": "lamp", "large": 12345678901234567890}
    shown = site.ok("get", "returns", "--key", "k-1").out
    assert re.search(r"^state +completed$", shown, re.MULTILINE)
    assert '{"text": "lamp", "large": 12345678901234567890}' in shown
    assert site.ok("get", ran.json["executionId"], "--json").json["outcome"] == "completed"


def test_a_payload_comes_from_a_file_as_well(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "payload.json"
    file.write_text('"from a file"', "utf-8")
    assert "from a file" in site.ok("start", "returns", f"@{file}", "--wait", "20").out


def test_the_exit_code_says_how_it_ended(site: Site) -> None:
    ran = site.run("start", "fails", '"card"', "--wait", "20")
    assert ran.code == 1
    assert "error        Declined: declined: card, caused by ValueError: first card" in ran.out
    id = re.findall(r"[0-9a-f]{32}", ran.out)[0]
    assert site.run("watch", id).code == 1


def test_list_filters_pages_and_counts(site: Site) -> None:
    """The filters are those of the API, and an answer has its shape."""
    ids = [site.start("asks", str(number)) for number in range(3)]
    found = site.ok("list", "workflow:asks", "--json").json
    assert [one["executionId"] for one in found["executions"]] == ids[::-1]
    assert "continuation" not in found
    first = site.ok("list", "workflow:asks", "--limit", "2", "--json").json
    assert [one["executionId"] for one in first["executions"]] == ids[:0:-1]
    assert first["continuation"]
    shown = site.run("list", "workflow:asks", "--limit", "2")
    assert [line.split()[:2] for line in shown.out.splitlines()[1:]] == [[id, "asks"] for id in ids[:0:-1]]
    assert shown.err == "there are more than 2 executions: see --limit\n"
    assert site.ok("list", "workflow:nobody").out == "no execution\n"
    slow = site.run("list", "-workflow:asks status:running workflow:asks")
    assert (slow.code, slow.out, slow.err) == (0, "no execution\n", "no index serves workflow\n")
    assert site.ok("list", "workflow:asks", "--counts", "--json").json["running"] == 3
    assert "3 running" in site.ok("list", "workflow:asks", "--counts").out


def test_a_custom_status_is_shown(site: Site, waiting: str) -> None:
    """With what the command line shows of any value: its text, and no markup."""
    shown = '{"waits with": "lamp [red]x[/red] \\u001b[31m", "large": 12345678901234567890}'
    assert site.ok("get", waiting, "--json").json["customStatus"]["large"] == 12345678901234567890
    for command in (("get", waiting), ("list", "workflow:waits"), ("list", 'workflow:waits tag.place:"<i>here</i>"')):
        assert shown in site.run(*command).out


def test_tree(site: Site, waiting: str) -> None:
    family = site.ok("tree", waiting, "--json").json
    (child,) = family["root"]["children"]
    lines = site.ok("tree", waiting).out.splitlines()
    assert lines == [f"waits suspended {waiting}", f"└── part: part completed {child['executionId']}"]


def test_history_is_text_and_nothing_else(site: Site, waiting: str) -> None:
    """Values with markup and control characters stand there as they are, and steer no terminal."""
    history = site.ok("history", waiting, "--json")
    assert [event["kind"] for event in history.json["events"]] == ["activity", "begun", "child"]
    assert history.json["events"][2]["result"]["value"] == "8 lamp [red]x[/red] \x1b[31m"
    shown = site.ok("history", waiting).out
    assert r"8 lamp [red]x[/red] \u001b[31m" in shown
    assert "\x1b" not in history.out + shown
    cut = site.run("history", waiting, "--limit", "2")
    assert len(cut.out.splitlines()) == 3
    assert cut.err == "3 events in all: see --limit\n"


def test_timeline_draws_a_bar_for_each_step(site: Site, waiting: str) -> None:
    head, *rows = site.ok("timeline", waiting).out.splitlines()
    assert re.match(r"waits suspended in [\d.]+ s$", head)
    assert re.match(r"double +━+ +[\d.e-]+ s$", rows[0])
    assert any(re.match(r"deferred page.decision +─+ +[\d.e-]+ s so far$", row) for row in rows)


def test_stack_names_the_lines(site: Site, waiting: str) -> None:
    shown = site.ok("stack", waiting).out
    assert re.search(
        r"^deferred page.decision, since \S+Z\n    tests/page/served.py:\d+ in waits$", shown, re.MULTILINE
    )
    kinds = {step["kind"] for step in site.ok("stack", waiting, "--json").json["pending"]}
    assert kinds == {"timer", "deferred", "channel"}


def test_values_come_in_and_watch_sees_the_end(site: Site) -> None:
    """Send, resolve and purge; the same again is no problem where the API says so."""
    id = site.start("waits", "lamp")
    site.reach(id, is_waiting)
    assert site.ok("send", id, "page.words", '"one"', "--once", "a", "--json").json["executionId"] == id
    decision = '{"approved": true, "by": "Ada"}'
    assert "waits, version 1" in site.ok("resolve", id, "page.decision", decision).out
    assert site.ok("resolve", id, "page.decision", decision, "--json").json["executionId"] == id
    lines = [json.loads(line) for line in site.ok("watch", id, "--json").out.splitlines()]
    assert lines[-1]["result"] == "Ada 1 low None"
    shown = site.ok("watch", id).out.splitlines()
    assert shown[0] == 'completed, 5 of 5 steps, shows {"waits with": "lamp", "large": 12345678901234567890}'
    other = site.run("resolve", id, "page.decision", '{"approved": false, "by": "Bob"}')
    assert other.code == 1
    assert "was already resolved with another value. It was {" in other.err
    assert site.ok("purge", id).out == f"{id} is purged\n"
    assert site.run("get", id).code == 1


def test_an_execution_is_stopped(site: Site) -> None:
    """Interrupt with a reason, retry, terminate, resume."""
    id = site.start("asks", "a")
    site.reach(id, is_waiting)
    shown = site.ok("interrupt", id, "--reason", "[b]no[/b]").out
    assert re.search(r"^interruptReason +\[b\]no\[/b\]$", shown, re.MULTILINE)
    assert site.run("watch", id).code == 1
    assert site.ok("retry", id, "--json").json["status"] == "running"
    site.reach(id, is_waiting)
    assert site.ok("resume", id, "--json").json["executionId"] == id
    assert site.ok("terminate", id, "--json").json["outcome"] == "terminated"
    assert "terminated" in site.ok("terminate", id).out
    late = site.run("resume", id)
    assert (late.code, late.err) == (1, f"durable resume: Already ended: execution {id} has ended: terminated\n")
    assert site.ok("purge", id, "--json").json == {"executionId": id, "purged": True}


def test_an_execution_is_forked(site: Site) -> None:
    """From a step, with another payload and another result. The same key gives the same fork."""
    id = site.start("forkable", "sugar")
    site.reach(id, lambda status: status["status"] == "complete")
    edits = ["--payload", '"milk"', "--result", "double=7", "--once", "k", "--reason", "try milk"]
    fork = site.ok("fork", id, "double#2", *edits, "--json").json
    changed = {"edited": True, "results": ["double"], "reason": "try milk"}
    assert fork["forkedFrom"] == {"executionId": id, "step": "double#2", **changed}
    site.reach(fork["executionId"], lambda status: status["status"] == "complete")
    assert site.ok("get", fork["executionId"], "--json").json["result"] == "14 milk"
    assert site.ok("fork", id, "double#2", *edits, "--json").json["executionId"] == fork["executionId"]
    assert "it has no step 'nowhere'" in site.run("fork", id, "nowhere").err
    assert "the result isn't JSON" in site.run("fork", id, "double#2", "--result", "double").err


def test_bulk_counts_first(site: Site) -> None:
    """Nothing happens without --yes; who is refused is named."""
    ids = {site.start("stuck", "s"), site.start("stuck", "s")}
    for id in ids:
        site.reach(id, lambda status: "cause" in status)
    asked = site.ok("bulk", "terminate", "workflow:stuck", "--json").json
    assert (asked["count"], asked["isAll"]) == (2, True)
    assert {one["executionId"] for one in asked["sample"]} == ids
    assert site.ok("bulk", "terminate", "workflow:stuck").out.endswith(
        "terminate: 2 executions\nnothing was changed: add --yes to act\n"
    )
    assert site.ok("list", "workflow:stuck is:stuck", "--json").json["executions"]
    assert site.ok("bulk", "terminate", "workflow:stuck", "--yes").out == "terminate: 2 done, 0 refused\n"
    again = site.run("bulk", "resume", "workflow:stuck", "--yes", "--json")
    assert (again.code, again.json["done"], set(again.json["refused"])) == (1, 0, ids)


def test_export_and_replay(site: Site, waiting: str, tmp_path: Path) -> None:
    """A recording comes from the store, and is replayed against the code here."""
    file = tmp_path / "waits.json"
    assert site.ok("export", waiting, "--store", str(site.store), "-o", str(file)).out == ""
    assert site.ok("export", waiting, "--store", str(site.store)).out == file.read_text("utf-8")
    (tmp_path / "none.json").write_text("{}", "utf-8")
    replayed = site.ok("replay", str(file), "--module", "tests.cli.same").out
    assert replayed.startswith(f"{file}: replays, waits for timer timer, deferred page.decision, channel page.words")
    both = site.run("replay", str(file), str(tmp_path / "none.json"), "--module", "tests.cli.changed", "--json")
    assert both.code == 1
    assert [one["problem"] for one in both.json["recordings"]] == ["NonDeterminism", "NoRecording"]
