"""Calling a function: on the loop or in a thread, with a time limit, and whatever it does to its task."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import azure.functions as func
import pytest

from devhost.functions import Function
from devhost.invoke import InvocationError, Invoker, decode
from devhost.retry import Attempt
from tests.devhost.support import FakeClock, feed_function, settle


@pytest.fixture
def invoker(clock: FakeClock) -> Iterator[Invoker]:
    invoker = Invoker(clock, timeout_seconds=60)
    yield invoker
    invoker.close()


def function(call: Callable[..., Any], **changes: Any) -> Function:
    return Function(**{**vars(feed_function(call)), "has_return": True, **changes})


async def test_async_functions_run_on_the_loop_and_sync_ones_in_threads(invoker: Invoker) -> None:
    async def on_the_loop(documents: str) -> object:
        return documents, threading.current_thread()

    def in_a_thread(documents: str) -> object:
        return documents, threading.current_thread()

    assert await invoker.call(function(on_the_loop), "x") == ("x", threading.current_thread())
    value, thread = await invoker.call(function(in_a_thread), "x")
    assert value == "x"
    assert thread is not threading.current_thread()


async def test_the_context_tells_of_the_invocation_and_of_the_attempt_before(invoker: Invoker) -> None:
    async def tell(documents: object, context: func.Context) -> func.Context:
        return context

    told = function(tell, wants_context=True)
    first = await invoker.call(told, None)
    assert first.function_name == "tell"
    assert isinstance(first, func.Context)
    assert (first.retry_context.retry_count, first.retry_context.exception) == (0, None)  # type: ignore[comparison-overlap]

    second = await invoker.call(told, None, Attempt(1, 3, ValueError("bad")))
    assert second.invocation_id != first.invocation_id
    assert (second.retry_context.retry_count, second.retry_context.max_retry_count) == (1, 3)
    assert second.retry_context.exception.message == "bad"
    assert "ValueError: bad" in second.retry_context.exception.stack_trace


async def test_what_a_function_raises_reaches_the_caller(invoker: Invoker) -> None:
    async def fail(documents: object) -> None:
        raise KeyError("k")

    def fail_in_a_thread(documents: object) -> None:
        raise KeyError("k")

    for failing in (fail, fail_in_a_thread):
        with pytest.raises(KeyError, match="k"):
            await invoker.call(function(failing), None)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration()])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_function_cannot_end_the_host(invoker: Invoker, error: BaseException, is_async: bool) -> None:
    async def leave(documents: object) -> None:
        if isinstance(error, StopIteration):
            raise InvocationError("StopIteration")  # Python itself makes another error of it in a coroutine
        raise error

    def leave_in_a_thread(documents: object) -> None:
        raise error

    with pytest.raises(InvocationError, match=type(error).__name__):
        await invoker.call(function(leave if is_async else leave_in_a_thread, is_async=is_async), None)


async def test_a_function_that_is_cancelled_from_inside_fails(invoker: Invoker) -> None:
    async def give_up(documents: object) -> None:
        raise asyncio.CancelledError

    with pytest.raises(InvocationError, match="cancelled itself"):
        await invoker.call(function(give_up), None)


async def test_a_function_that_takes_too_long_is_cancelled(
    invoker: Invoker, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    ended = []

    async def dawdle(documents: object) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(clock.now)
            raise RuntimeError("and fails on its way out") from None

    call = asyncio.ensure_future(invoker.call(function(dawdle), None))
    await clock.advance(59)
    assert not call.done()
    await clock.advance(1)
    with pytest.raises(InvocationError, match="functionTimeout, 60 s"):
        await call
    assert ended == [clock.now]
    # Nobody waits for it any more, and its failure is no news.
    del call
    await settle()
    gc.collect()
    assert caplog.text == ""


async def test_a_cancelled_call_cancels_the_function(invoker: Invoker) -> None:
    reached = []

    async def wait(documents: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            reached.append("end")

    call = asyncio.ensure_future(invoker.call(function(wait), None))
    await settle()
    call.cancel()
    await settle()
    assert call.cancelled()
    assert reached == ["end"]


async def test_a_function_without_a_return_binding_returns_nothing(invoker: Invoker) -> None:
    async def answer(documents: object) -> str:
        return "x"

    with pytest.raises(InvocationError, match="no \\$return binding, but returned str"):
        await invoker.call(function(answer, has_return=False), None)


def test_documents_are_decoded_as_the_worker_decodes_them() -> None:
    def drive(documents: object) -> None: ...

    documents = [{"id": "a", "_lsn": 4, "text": "é"}, {"id": "b"}]
    decoded = decode(function(drive), documents)
    assert isinstance(decoded, func.DocumentList)
    assert [document["id"] for document in decoded] == ["a", "b"]
    assert decoded[0].to_dict() == documents[0]
    assert decode(function(drive, as_text=True), [{"id": "a"}]) == '[{"id": "a"}]'
