"""P6: a log line says which execution, step and attempt it comes from."""

from __future__ import annotations

import ast
import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from devhost.__main__ import LineFormatter
from engine import Deferred, Retry, activity, workflow
from engine.testing import Environment

_library = logging.getLogger("some.library")
fields_wait = Deferred("fields.wait", str)


async def _helper(text: str) -> None:
    _library.info("task %s", text)


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(seconds=1)))
async def fields_async(text: str) -> None:
    _library.info("async %s", text)
    await asyncio.create_task(_helper(text))
    await asyncio.to_thread(_library.info, "thread %s", text)
    if activity.info().attempt == 1:
        raise ValueError("once")


@activity
def fields_sync(text: str) -> None:
    _library.info("sync %s", text)
    _library.info("own", extra={"step": "mine", "execution_id": "mine", "color": "red"})


@workflow(idempotency_key=lambda text: f"key of {text}")
async def fields_keyed(text: str) -> None:
    workflow.logger.info("workflow %s", text)
    await asyncio.gather(fields_async(text), fields_sync(text))
    await fields_wait
    workflow.logger.info("last %s", text, extra={"color": "red"})


@workflow
async def fields_broken() -> None:
    await fields_breaks()


@activity
async def fields_breaks() -> None:
    raise ConnectionError("away")


@workflow
async def fields_stuck() -> None:
    await asyncio.get_running_loop().create_future()


def of(records: list[logging.LogRecord], message: str) -> list[dict[str, Any]]:
    """What the records with that message have of the engine's fields."""
    names = ("execution_id", "workflow", "key", "step", "attempt")
    found = [record for record in records if record.getMessage() == message]
    return [{name: value for name in names if (value := getattr(record, name, None)) is not None} for record in found]


async def test_each_line_carries_its_execution(caplog: pytest.LogCaptureFixture) -> None:
    """P6: of many at once, in tasks, threads and libraries, in each attempt; and no line comes twice by a replay."""
    caplog.set_level(logging.INFO)
    async with Environment([fields_keyed]) as env:
        texts = [str(number) for number in range(20)]
        ids = {text: (await env.start(fields_keyed, text)).execution_id for text in texts}
        await env.settle()
        for id in ids.values():
            await env.finish(id)
        env.worker = env.new_worker()
        for id in ids.values():
            await env.resolve(id, fields_wait, "go")
            await env.finish(id)
    for text, id in ids.items():
        names: dict[str, Any] = {"execution_id": id, "workflow": "fields_keyed", "key": f"key of {text}"}
        assert of(caplog.records, f"workflow {text}") == [names]
        assert of(caplog.records, f"last {text}") == [names]
        attempts = [names | {"step": "fields_async", "attempt": number} for number in (1, 2)]
        for kind in ("async", "task", "thread"):
            assert of(caplog.records, f"{kind} {text}") == attempts
        assert of(caplog.records, f"sync {text}") == [names | {"step": "fields_sync", "attempt": 1}]
    own = next(record for record in caplog.records if record.getMessage() == "own")
    assert (own.__dict__["step"], own.__dict__["execution_id"], own.__dict__["color"]) == ("mine", "mine", "red")
    _library.info("outside")
    assert of(caplog.records, "outside") == [{}]


async def test_a_key_of_the_caller_s_own_is_not_known(caplog: pytest.LogCaptureFixture) -> None:
    """P6: it isn't stored. No line carries another key in its place."""
    caplog.set_level(logging.INFO)
    async with Environment([fields_keyed]) as env:
        await env.drive(await env.start(fields_keyed, "x", key="my own"))
    assert all("key" not in fields for fields in of(caplog.records, "workflow x") + of(caplog.records, "sync x"))


@pytest.mark.parametrize(
    ("broken", "said"), [(fields_broken, "failed: ConnectionError"), (fields_stuck, "suspended: ")]
)
async def test_what_the_engine_says_of_an_execution_carries_it(
    broken: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """P6: its own lines have the same fields as those of the workflow's code."""
    async with Environment([fields_broken, fields_stuck]) as env:
        id = (await env.start(broken)).execution_id
        await env.drive(id)
    (line,) = (record for record in caplog.records if said in record.getMessage())
    assert of([line], line.getMessage()) == [{"execution_id": id, "workflow": broken.name}]


def test_no_line_names_an_execution_without_its_fields() -> None:
    """P6: read from the source, wherever the engine logs."""
    root, lines = Path(__file__).parents[3], 0
    for path in sorted((root / "engine").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(call, ast.Call) or not ast.unparse(call.func).startswith("_log."):
                continue
            if "execution %s" in "".join(ast.unparse(argument) for argument in call.args):
                lines += 1
                assert "extra" in {keyword.arg for keyword in call.keywords}, f"{path}:{call.lineno}"
    assert lines > 10


def test_the_local_host_shows_the_short_id() -> None:
    """P6: at the start of the message, where there is an execution."""
    record = logging.makeLogRecord(
        {"name": "app", "levelname": "INFO", "msg": "paid", "execution_id": "0123456789abcdef"}
    )
    assert LineFormatter().format(record).endswith("INFO    app: [01234567] paid")
    assert LineFormatter().format(logging.makeLogRecord({"name": "app", "msg": "paid"})).endswith("app: paid")
