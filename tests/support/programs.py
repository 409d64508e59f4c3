"""Random workflows, as data: a small program that one workflow interprets."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import strategies as st

from engine import ActivityError, Deferred, workflow
from tests.support.crashes import echo, fail

given_value = Deferred("programs.value", str)

Program = list[Any]


@workflow
async def interpret(program: Any) -> list[str]:
    """Run a program. Returns what it saw, in order."""
    trace: list[str] = []
    await _run(program, trace)
    return trace


async def _run(program: Program, trace: list[str]) -> str:
    match program:
        case ["act", name]:
            trace.append(await echo(name))
        case ["fail", name]:
            try:
                await fail(name)
            except ActivityError as error:
                trace.append(f"failed {error.message}")
        case ["sleep", seconds]:
            await asyncio.sleep(seconds)
            trace.append(f"slept {seconds}")
        case ["deferred", name]:
            trace.append(await given_value[name])
        case ["seq", parts]:
            for part in parts:
                await _run(part, trace)
        case ["gather", parts]:
            traces: list[list[str]] = [[] for _ in parts]
            await asyncio.gather(*(_run(part, own) for part, own in zip(parts, traces, strict=True)))
            trace += [line for own in traces for line in own]
        case ["group", parts]:
            async with asyncio.TaskGroup() as group:
                for part in parts:
                    group.create_task(_run(part, trace))
        case ["race", parts]:
            tasks = [asyncio.create_task(_run(part, [])) for part in parts]
            done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            trace += [f"won {tasks.index(task)}" for task in tasks if task in done]
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
        case ["timeout", seconds, part]:
            try:
                async with asyncio.timeout(seconds):
                    await _run(part, trace)
            except TimeoutError:
                trace.append("timed out")
    return "done"


_names = st.sampled_from("abc")
_leaves = st.one_of(
    st.tuples(st.just("act"), _names),
    st.tuples(st.just("fail"), _names),
    st.tuples(st.just("sleep"), st.sampled_from([0, 0.5, 1, 60, 86_400])),
    st.tuples(st.just("deferred"), _names),
).map(list)


def _compound(parts: st.SearchStrategy[Program], ordered: bool) -> st.SearchStrategy[Program]:
    several = st.lists(parts, min_size=1, max_size=3)
    kinds = [st.tuples(st.sampled_from(["seq", "gather"]), several)]
    if not ordered:
        kinds.append(st.tuples(st.sampled_from(["group", "race"]), several))
        kinds.append(st.tuples(st.just("timeout"), st.sampled_from([1, 3_600]), parts))  # type: ignore[arg-type]
    return st.one_of(*kinds).map(list)


race_free: st.SearchStrategy[Program] = st.recursive(_leaves, lambda parts: _compound(parts, True), max_leaves=8)
"""Programs whose trace doesn't depend on what comes first."""
any_program: st.SearchStrategy[Program] = st.recursive(_leaves, lambda parts: _compound(parts, False), max_leaves=8)
