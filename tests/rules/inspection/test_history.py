"""What an execution did and waits for, over HTTP: from its history, replayed in the process that answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from engine import Channel, Deferred, Retry, Workflow, activity, workflow
from engine.boundary import history, http
from engine.boundary.answers import Request, Response
from engine.boundary.runtime import Runtime
from engine.core.registry import Registry
from engine.ground.clock import isoformat
from engine.testing import Environment

HERE = "tests/rules/inspection/test_history.py"
ran: list[str] = []


class Vote(BaseModel):
    yes: bool


class Unreachable(Exception):
    pass


vote = Deferred("seen.vote", Vote)
late = Deferred("seen.late", Vote)
news = Channel("seen.news", int)


@activity(retry=Retry(max_attempts=3, first_delay=timedelta(minutes=1)))
async def call(name: str) -> str:
    ran.append(name)
    if name == "down":
        raise Unreachable("no route")
    return name * 2


@workflow
async def part(number: int) -> bool:
    return (await vote).yes


async def votes() -> Vote:
    return await vote  # LINE vote


@workflow
async def everything(name: str) -> str:
    first = await call(name)  # LINE first
    asking = asyncio.create_task(votes())  # LINE asking
    async with asyncio.timeout(3_600):  # LINE limit
        await asyncio.gather(  # LINE gather
            call("down"),  # LINE down
            news.receive(),  # LINE news
            part(1),  # LINE part
            late,  # LINE late
        )
    await asking
    return first


@workflow
async def gives_up() -> str:
    try:
        async with asyncio.timeout(60):
            await vote
    except TimeoutError:
        pass
    return await call("late")


WORKFLOWS: list[Workflow[Any, Any]] = [everything, part, gives_up]


def line(mark: str) -> int:
    """The line of this file with that mark."""
    return next(
        n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith(f"# LINE {mark}")
    )


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    ran.clear()
    async with Environment(WORKFLOWS) as env:
        yield env


def runtime_of(env: Environment, workflows: list[Any] = WORKFLOWS) -> Runtime:
    runtime = Runtime(workflows, lambda: env.store.inner, clock=env.clock)
    return runtime


def body(answer: Response) -> Any:
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def asks(**query: str) -> Request:
    return Request("https://host/api/executions/x", query=query)


async def test_everything_that_an_execution_waits_for(env: Environment) -> None:
    """An activity with its attempt, error and next try; a timer; a deferred and a channel with their schemas; a child
    with its state. Each since when, and from which line. Asking runs nothing."""
    id = (await env.start(everything, "a")).execution_id
    await env.settle()
    before, calls = list(ran), env.store.calls
    found = body(await http.poll(runtime_of(env), asks(pending="true"), id))
    assert "pendingProblem" not in found
    (awaited,) = [step for step in found["pending"] if step["step"] == "seen.late"]
    assert [frame["line"] for frame in awaited["stack"]] == [line("gather")]
    pending = {step["kind"]: step for step in found["pending"] if step is not awaited}
    assert {kind: (step["name"], step["stack"][0]["line"]) for kind, step in pending.items()} == {
        "activity": ("call", line("down")),
        "timer": ("timer", line("limit")),
        "deferred": ("seen.vote", line("vote")),
        "channel": ("seen.news", line("news")),
        "child": ("part", line("part")),
    }
    assert all(step["stack"][0]["file"] == HERE for step in found["pending"])
    assert [frame["function"] for frame in pending["deferred"]["stack"]] == ["votes", "everything"]
    assert pending["deferred"]["stack"][1]["line"] == line("asking")
    assert (pending["activity"]["attempt"], pending["activity"]["lastError"]["message"]) == (2, "no route")
    assert pending["activity"]["nextTryAt"] > pending["activity"]["since"] == isoformat(env.clock.now())
    assert pending["timer"]["dueAt"].startswith("2026-01-01T01:00:00")
    assert pending["deferred"]["schema"]["properties"]["yes"] == {"title": "Yes", "type": "boolean"}
    assert pending["channel"]["schema"] == {"type": "integer"}
    assert pending["child"]["child"]["suspended"] is True
    assert (ran, env.store.calls) == (before, calls)


async def test_the_history_in_order_and_by_pages(env: Environment) -> None:
    """Each event once, with its number, its duration and its line, whatever the size of a page."""
    id = (await env.start(everything, "a")).execution_id
    await env.settle()
    env.clock.advance(timedelta(minutes=2))
    await env.settle()
    runtime = runtime_of(env)
    whole = body(await history.history(runtime, asks(), id))
    assert whole["payload"] == {"value": "a", "size": 3}
    assert [e["number"] for e in whole["events"]] == list(range(1, whole["length"] + 1))
    first = whole["events"][0]
    assert (first["kind"], first["step"], first["result"]["value"]) == ("activity", "call", "aa")
    assert (first["durationSeconds"], first["stack"][0]["line"]) == (0.0, line("first"))
    assert [e["attempt"] for e in whole["events"] if e["kind"] == "attempt"] == [1, 2]
    paged, continuation = list[Any](), "0"
    while continuation is not None:
        page = body(await history.history(runtime, asks(limit="1", continuation=continuation), id))
        paged += page["events"]
        continuation = page.get("continuation")
    assert paged == whole["events"]  # type: ignore[unreachable]


async def test_a_step_that_the_code_gave_up_is_dropped(env: Environment) -> None:
    """The history doesn't hold it; the steps do."""
    id = (await env.start(gives_up)).execution_id
    await env.finish(id)
    found = body(await history.steps(runtime_of(env), asks(), id))["steps"]
    assert [(s["kind"], s["state"]) for s in found] == [
        ("timer", "resolved"),
        ("deferred", "dropped"),
        ("activity", "resolved"),
    ]
    assert found[1]["endedAt"] == found[0]["endedAt"] > found[0]["since"]
    assert body(await history.steps(runtime_of(env), asks(state="open"), id))["steps"] == []
    assert ran == ["late"]


async def test_a_large_value_shows_its_size(env: Environment) -> None:
    id = (await env.start(everything, "x" * 3_000)).execution_id
    await env.settle()
    runtime = runtime_of(env)
    (short,) = body(await history.history(runtime, asks(limit="1"), id))["events"]
    (full,) = body(await history.history(runtime, asks(limit="1", values="full"), id))["events"]
    assert short["result"] == {"size": 6_002}
    assert full["result"] == {"value": "x" * 6_000, "size": 6_002}


async def test_code_that_no_longer_fits_leaves_the_history_readable(env: Environment) -> None:
    """Without the workflow, or with another order of steps: every event, and what is wrong."""
    id = (await env.start(everything, "a")).execution_id
    await env.settle()

    @workflow(name="everything")
    async def changed(name: str) -> str:
        return await call("other")

    for workflows, why in (([], "no workflow everything"), ([changed], "another input")):
        found = body(await history.history(runtime_of(env, workflows), asks(), id))
        assert why in found["problem"]
        assert sorted(e["kind"] for e in found["events"]) == ["activity", "attempt", "begun"]
        polled = body(await http.poll(runtime_of(env, workflows), asks(pending="true"), id))
        assert why in polled["pendingProblem"]


async def test_the_family_as_a_tree(env: Environment) -> None:
    """From the first creator down, whichever member is asked for; a purged one shows as missing."""

    @workflow
    async def top() -> None:
        await asyncio.gather(middle(1), middle(2))

    @workflow
    async def middle(n: int) -> bool:
        return await part(n)

    env.registry = Registry([top, middle, part])
    env.deploy([top, middle, part])
    id = (await env.start(top)).execution_id
    await env.settle()
    runtime = runtime_of(env, [top, middle, part])
    tree = body(await history.family(runtime, asks(), id))
    assert tree["root"]["executionId"] == id
    assert tree["parents"] == []
    assert [child["step"] for child in tree["root"]["children"]] == ["middle", "middle#2"]
    leaf = tree["root"]["children"][1]["children"][0]
    assert (leaf["workflow"], leaf["children"], leaf["suspended"]) == ("part", [], True)
    of_leaf = body(await history.family(runtime, asks(), leaf["executionId"]))
    assert of_leaf["root"] == tree["root"]
    assert of_leaf["parents"] == [tree["root"]["children"][1]["executionId"]]
    await env.client.terminate(leaf["executionId"])
    await env.settle()
    await env.client.purge(leaf["executionId"])
    gone = body(await history.family(runtime, asks(), id))["root"]["children"][1]["children"][0]
    assert (gone["status"], gone["executionId"]) == ("missing", leaf["executionId"])


async def test_an_execution_at_rest_is_read_and_replayed_once(env: Environment) -> None:
    """However many ask, at once or one after the other; a change of it is seen at once."""
    id = (await env.start(everything, "a")).execution_id
    await env.settle()
    runtime = Runtime(WORKFLOWS, lambda: env.store, clock=env.clock)
    loads = env.store.count("load")
    await asyncio.gather(*(history.history(runtime, asks(), id) for _ in range(3)), history.steps(runtime, asks(), id))
    assert env.store.count("load") == loads + 1
    await env.client.send(id, news, 7)
    await env.settle()
    kinds = [e["kind"] for e in body(await history.history(runtime, asks(), id))["events"]]
    assert kinds.count("channel") == 1


@pytest.mark.parametrize("route", [history.history, history.steps, history.family])
async def test_odd_questions_are_refused(env: Environment, route: Any) -> None:
    """An unknown execution, a malformed id, an unknown parameter, a limit or continuation that makes no sense."""
    runtime = runtime_of(env)
    id = (await env.start(gives_up)).execution_id
    assert (await route(runtime, asks(), "0" * 32)).status == 404
    assert (await route(runtime, asks(), "nonsense")).status == 400
    for odd in ({"color": "red"}, {"limit": "0"}, {"continuation": "-1"}, {"values": "some"}, {"state": "shut"}):
        assert (await route(runtime, asks(**odd), id)).status == 400
