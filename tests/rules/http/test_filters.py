"""The filter language of lists: what it means, and where a filter goes wrong."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from engine import Deferred, Failure, Runtime, activity, workflow
from engine.boundary import http
from engine.boundary.answers import Request
from engine.boundary.filters import FIELDS, FilterError, parse
from engine.store.conditions import Condition
from engine.testing import Environment

NOW = datetime(2026, 11, 2, 12, 30, tzinfo=UTC)
ID = "0123456789abcdef" * 2


class Declined(Failure):
    card: str

    def __str__(self) -> str:
        return f'card declined: "{self.card}"'


gate = Deferred("filters.gate", bool)


@workflow(tags={"customer": "ada", "tier": "1"})
async def sells(fails: bool) -> None:
    if fails:
        raise Declined(card="visa, gold")


@workflow(tags={"customer": "bob"})
async def waits() -> bool:
    return await gate


@activity
async def nothing() -> None: ...


def conditions(text: str) -> list[Condition]:
    return list(parse(text, NOW).filter.conditions)


def is_(name: str, *values: str | bool) -> Condition:
    return Condition((tuple(name.split("/")),), "is", values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("   ", []),
        ("workflow:fulfil", [is_("workflow", "fulfil")]),
        ("Workflow=fulfil", [is_("workflow", "fulfil")]),
        ('workflow:a,b,"c d"', [is_("workflow", "a", "b", "c d")]),
        ("status:running", [is_("status", "running")]),
        ("outcome:failed,interrupted", [is_("outcome", "failed", "interrupted")]),
        ("tag.customer=ada", [is_("tags/customer", "ada")]),
        ("tag.A.b-C:x", [is_("tags/A.b-C", "x")]),
        (ID, [is_("executionId", ID)]),
        (f"id:{ID}", [is_("executionId", ID)]),
        (f"parent:{ID}", [is_("creator", ID)]),
        ("is:interrupted", [is_("interrupted", True)]),
        ("version:2", [is_("version", "2")]),
        ("created>2026-11-01", [Condition((("createdAt",),), ">", ("2026-11-01T00:00:00.000Z",))]),
        ("created>=2026-11-01T09:30Z", [Condition((("createdAt",),), ">=", ("2026-11-01T09:30:00.000Z",))]),
        ("due<2026-11-01T09:30+01:00", [Condition((("dueAt",),), "<", ("2026-11-01T08:30:00.000Z",))]),
        ("completed<=-24h", [Condition((("completedAt",),), "<=", ("2026-11-01T12:30:00.000Z",))]),
        ("updated>-90m", [Condition((("updatedAt",),), ">", ("2026-11-02T11:00:00.000Z",))]),
        ("created>-7d", [Condition((("createdAt",),), ">", ("2026-10-26T12:30:00.000Z",))]),
    ],
)
def test_a_term_is_a_condition(text: str, expected: list[Condition]) -> None:
    assert conditions(text) == expected


def test_terms_combine_and_quotes_hold_anything() -> None:
    found = conditions('workflow:fulfil  -tag.customer=ada\terror:"card \\"declined\\", \\\\ -x:y"')
    assert [one.negated for one in found] == [False, True, False]
    assert (found[2].operator, found[2].values) == ("contains", ('card "declined", \\ -x:y',))


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("colour:red", 0, "there is no field 'colour'; there are workflow"),
        ("status:running color:red", 15, "no field 'color'"),
        ("status:failed", 7, "outcome:failed is there"),
        ("status:stuck", 7, "is:stuck is there"),
        ("outcome:completed,ended", 18, "not 'ended'"),
        ("is:late", 3, "is: takes suspended, stuck, interrupted"),
        ("-is:stuck", 0, "can't be negated"),
        ("workflow:", 9, "a value is missing"),
        ("workflow:a,", 11, "a value is missing"),
        ("workflow:a, b", 11, "a value is missing"),
        ('error:"card', 6, "quotation mark isn't closed"),
        ('error:"a"b', 9, "a space is missing"),
        ("error:a,b", 8, "error takes one value"),
        ("workflow>a", 8, "workflow takes `:`, not `>`"),
        ("created:2026-11-01", 7, "it takes >, >=, < or <="),
        ("created>yesterday", 8, "'yesterday' isn't a time"),
        ("created>-999999d", 8, "isn't a time"),
        ("created>2026-13-01", 8, "isn't a time"),
        ("id:123", 3, "32 hexadecimal digits"),
        ("declined", 0, "'declined' isn't a term"),
        (":x", 0, "isn't a term"),
        ("tag.:x", 0, "there is no field"),
        ("x" * 1_001, 1_000, "up to 1,000 characters"),
        ("is:stuck " * 20 + "is:stuck", 180, "up to 20 terms"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, position: int, says: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text, NOW)
    assert (says in str(caught.value), caught.value.position) == (True, position), str(caught.value)
    assert f"at character {position + 1}" in str(caught.value)


def test_what_no_index_serves_is_marked() -> None:
    """A slow field needs one beside it that narrows."""
    for text, slow, bounded in (
        ("workflow:a created>-1d", (), True),
        ("error:x", ("error",), False),
        ("error:x -workflow:a", ("error", "workflow"), False),
        ("error:x tag.b:1 status:running", ("error", "tag.b"), True),
        ("is:stuck is:suspended", (), True),
        ("is:interrupted", ("is",), False),
    ):
        asked = parse(text, NOW)
        assert (asked.slow, asked.is_bounded) == (slow, bounded), text


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Environment([sells, waits]) as env:
        for _ in range(2):
            await env.run(sells, False)
        await env.run(sells, True)
        env.clock.advance(timedelta(hours=2))
        await env.start(waits)
        await env.settle()
        yield Runtime([sells, waits], lambda: env.store.inner, clock=env.clock)


async def asked(runtime: Runtime, q: str, **more: str) -> list[str]:
    answer = await http.list_executions(runtime, Request("https://host/api/executions", query={"q": q, **more}))
    assert answer.status == 200, answer.body
    return sorted(e["workflow"] + ":" + e.get("outcome", "") for e in json.loads(answer.body)["executions"])


async def test_lists_over_http(runtime: Runtime) -> None:
    assert await asked(runtime, "") == ["sells:completed", "sells:completed", "sells:failed", "waits:"]
    assert await asked(runtime, 'workflow:sells error:"CARD declined: \\"visa, gold"') == ["sells:failed"]
    assert await asked(runtime, "created>-1h") == ["waits:"]
    assert await asked(runtime, "-outcome:completed status:complete") == ["sells:failed"]
    assert await asked(runtime, "tag.customer=ada status:complete -tag.tier:2", outcome="failed") == ["sells:failed"]
    assert await asked(runtime, "error:visa", workflow="sells") == ["sells:failed"]
    assert await asked(runtime, "is:suspended") == ["waits:"]


async def test_a_slow_list_says_so_or_is_refused(runtime: Runtime) -> None:
    def request(q: str) -> Request:
        return Request("https://host/api/executions", query={"q": q})

    answer = await http.list_executions(runtime, request("error:visa"))
    assert (answer.status, "no index serves error" in answer.body) == (400, True)
    answer = await http.list_executions(runtime, request("error:visa workflow:sells"))
    assert json.loads(answer.body)["slow"] == ["error"]
    answer = await http.list_executions(runtime, request("status:done"))
    assert (answer.status, json.loads(answer.body)["position"]) == (400, 7)


async def test_counts_by_state(runtime: Runtime) -> None:
    def request(q: str) -> Request:
        return Request("https://host/api/counts", query={"q": q})

    counts = json.loads((await http.count_executions(runtime, request(""))).body)
    assert counts == {"running": 1, "stuck": 0, "completed": 2, "failed": 1, "interrupted": 0, "terminated": 0}
    assert json.loads((await http.count_executions(runtime, request("workflow:waits"))).body)["completed"] == 0
    assert (await http.count_executions(runtime, request("error:x workflow:sells"))).status == 400


def test_every_field_is_in_the_guide() -> None:
    from pathlib import Path

    guide = (Path(__file__).parents[3] / "docs/guide.md").read_text("utf-8")
    assert [field for field in FIELDS if f"| `{field}" not in guide] == []
