"""What a replay can't repeat is refused where it is used: the execution is suspended, not failed and not lost, with a
cause that names the call and the cure; a deployment without it carries on."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import aiohttp
import pytest

from engine import Workflow, workflow
from engine.testing import Environment
from tests.support.steps import journal, say

outside: dict[str, Any] = {}
"""What belongs to the host's loop."""


class Odd:
    def __await__(self) -> Generator[int, None, None]:
        yield 3


async def foreign_future() -> None:
    await outside["future"]


async def host_task() -> None:
    await outside["task"]


async def waits_for_foreign() -> None:
    await asyncio.wait([outside["future"]])


async def waits_for_gathers() -> None:
    await asyncio.wait([asyncio.gather(say(name), say(name)) for name in "ab"])


async def odd_awaitable() -> None:
    await Odd()


async def nested() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(odd_awaitable())
        group.create_task(asyncio.sleep(60))


async def thread() -> None:
    await asyncio.to_thread(print)


async def executor() -> None:
    await asyncio.get_running_loop().run_in_executor(None, print)


async def other_thread() -> None:
    asyncio.get_running_loop().call_soon_threadsafe(print)


async def connection() -> None:
    await asyncio.open_connection("localhost", 1)


async def server() -> None:
    await asyncio.start_server(lambda *_: None, "localhost", 0)


async def raw_socket() -> None:
    with socket.socket() as sock:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", 1))


async def name_lookup() -> None:
    await asyncio.get_running_loop().getaddrinfo("localhost", 1)


async def http_request() -> None:
    async with aiohttp.ClientSession() as session:
        await session.get("http://127.0.0.1:1/")


async def process() -> None:
    await asyncio.create_subprocess_exec("true")


async def shell() -> None:
    await asyncio.create_subprocess_shell("true")


async def signal_handler() -> None:
    asyncio.get_running_loop().add_signal_handler(15, print)


async def runs_the_loop() -> None:
    asyncio.get_running_loop().run_until_complete(outside["future"])


async def all_tasks() -> None:
    asyncio.all_tasks()


FOREIGN: dict[Callable[[], Coroutine[Any, Any, None]], tuple[str, str]] = {
    foreign_future: ("a future of another event loop", "activity"),
    waits_for_foreign: ("a future of another event loop", "activity"),
    host_task: ("the task 'of the host' of another event loop", "activity"),
    odd_awaitable: ("a foreign awaitable that yields int", "activity"),
    nested: ("a foreign awaitable that yields int", "activity"),
    thread: ("asyncio.to_thread or run_in_executor", "call a sync activity"),
    executor: ("asyncio.to_thread or run_in_executor", "call a sync activity"),
    other_thread: ("a call from another thread", "activity"),
    connection: ("opening a connection", "activity"),
    server: ("opening a server", "wait for a Deferred"),
    raw_socket: ("loop.sock_connect", "use an activity"),
    name_lookup: ("a look-up of a host name", "activity"),
    process: ("starting a process", "activity"),
    shell: ("starting a process", "activity"),
    signal_handler: ("loop.add_signal_handler", "activity"),
    all_tasks: ("asyncio.all_tasks()", "keep the tasks that you start in a list"),
    runs_the_loop: ("running the loop from inside", "await the coroutine"),
}
BY_NAME = {use.__name__: use for use in [*FOREIGN, waits_for_gathers, http_request]}


@workflow(name="foreign_awaits")
async def plain(use: str) -> str:
    said = await say("before")
    await BY_NAME[use]()
    return said


@workflow(name="foreign_awaits")
async def catches_exceptions(use: str) -> str:
    said = await say("before")
    try:
        await BY_NAME[use]()
    except Exception:
        return "swallowed"
    return said


@workflow(name="foreign_awaits")
async def catches_everything_for_ever(use: str) -> str:
    said = await say("before")
    while True:
        try:
            await BY_NAME[use]()
        except BaseException:
            await asyncio.sleep(1)
        else:
            return said


@workflow(name="foreign_awaits")
async def fixed(use: str) -> str:
    return f"{await say('before')}, {use} no more"


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


async def _is_suspended_then_cured(body: Workflow[[str], str], use: str, call: str, cure: str) -> None:
    journal.reset()
    loop = asyncio.get_running_loop()
    outside["future"], outside["task"] = loop.create_future(), loop.create_task(_for_ever(), name="of the host")
    async with Environment([body]) as env:
        status = await env.run(body, use)
        execution = await env.store.inner.read(status.execution_id)
        assert not execution.is_complete
        assert execution.suspended
        assert execution.worker is None
        assert execution.due_at is None, "nobody looks at it again before it is resumed"
        assert execution.cause is not None
        assert execution.cause.type == "NotDurable"
        assert call in execution.cause.message
        assert cure in execution.cause.message
        assert [event["step"] for c in (await env.store.load(execution.execution_id)).chunks for event in c.events] == [
            "say"
        ]
        env.deploy([fixed])
        await env.client.resume(execution.execution_id)
        assert (await env.finish(execution.execution_id)).value() == f"before, {use} no more"
    outside.pop("task").cancel()
    assert journal.ran == ["say"]


@pytest.mark.parametrize("body", [plain, catches_exceptions, catches_everything_for_ever], ids=lambda w: w.__name__)
@pytest.mark.parametrize("use", FOREIGN, ids=lambda use: use.__name__)
async def test_what_is_not_durable_suspends(body: Workflow[[str], str], use: Callable[[], Any]) -> None:
    """Also if the body catches it: with a handler for exceptions, and with one for everything in an endless loop."""
    await _is_suspended_then_cured(body, use.__name__, *FOREIGN[use])


async def test_a_wait_for_several_gathers_suspends() -> None:
    """C5: asyncio's own futures hash by address, so wait would give them in another order in every process."""
    async with Environment([plain]) as env:
        status = await env.run(plain, "waits_for_gathers")
    assert status.cause is not None
    assert status.cause.type == "NotDurable"
    assert "wait for a task of each" in status.cause.message


async def test_an_http_client_suspends() -> None:
    """aiohttp needs timers and sockets of its loop: the first of them that a replay can't repeat is named."""
    async with Environment([plain]) as env:
        status = await env.run(plain, "http_request")
    assert status.suspended
    assert status.cause is not None
    assert status.cause.type == "NotDurable"
