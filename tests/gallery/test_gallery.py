"""Each program of the gallery, from its start to its end, with stand-ins for what it calls. Months pass at once."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import workflows.gallery
from engine import Workflow
from engine.guard import check
from engine.testing import Environment
from workflows.gallery.approval_chain import Answer, Purchase, answer, approve_purchase
from workflows.gallery.backup import back_up
from workflows.gallery.booking import SoldOut, Trip, book_trip
from workflows.gallery.counter import Change, Counter, add, changes, count
from workflows.gallery.downloads import Unavailable, fetch_file
from workflows.gallery.interpreter import Block, interpret
from workflows.gallery.monitor import Job, watch_job
from workflows.gallery.mutex import Lock, Page, Request, keep_lock, print_page, requests
from workflows.gallery.nightly import bill_customer, bill_everybody
from workflows.gallery.sliding_window import Batch, convert_all, convert_record
from workflows.gallery.sms_code import Check, attempts, verify_phone
from workflows.gallery.subscription import Declined, Subscription, cancelled, subscribe

PROGRAMS = sorted(module.name for module in pkgutil.iter_modules(workflows.gallery.__path__))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_short_and_deterministic(program: str) -> None:
    module = importlib.import_module(f"workflows.gallery.{program}")
    found = [value for value in vars(module).values() if isinstance(value, Workflow)]
    assert found
    assert check(found) == []
    lines = Path(str(module.__file__)).read_text("utf-8").splitlines()
    assert sum(1 for line in lines if line) < 60


class Said:
    """Keeps what the stand-ins were asked to say."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, *words: object) -> None:
        self.lines.append(" ".join(map(str, words)))


async def test_booking_cancels_what_was_booked_when_a_part_is_sold_out() -> None:
    undone = Said()

    def book(what: str, trip: Trip) -> str:
        if what == "car":
            raise SoldOut(what=what)
        return f"{what} to {trip.city}"

    async with Environment([book_trip], activities={"book": book, "cancel": undone}) as env:
        status = await env.run(book_trip, Trip(id="t1", traveller="Ada", city="Rome"))
        assert status.outcome == "failed"
        assert status.error is not None
        assert status.error.type == "SoldOut"
        assert undone.lines == ["hotel to Rome", "flight to Rome"]


async def test_monitor_asks_more_and_more_seldom_and_raises_the_alarm() -> None:
    alerts = Said()
    async with Environment([watch_job], activities={"look": lambda url: "running", "alert": alerts}) as env:
        status = await env.run(watch_job, Job(url="jobs/1", owner="Ada"))
        assert status.value() == "late"
        assert alerts.lines == ["Ada jobs/1: late"]
        assert 15 < len(env.ran()) < 25


@pytest.mark.parametrize(("typed", "verified"), [(["wrong", "right"], True), (["a", "b", "c"], False), ([], False)])
async def test_sms_code_gives_three_tries_in_ninety_seconds(typed: list[str], verified: bool) -> None:
    codes: list[str] = []

    async with Environment([verify_phone], activities={"send_code": lambda phone, code: codes.append(code)}) as env:
        handle = await env.client.start(verify_phone, Check(phone="1"))
        await env.settle()
        for text in typed:
            await handle.send(attempts, codes[0] if text == "right" else text)
        await env.finish(handle.execution_id)
        assert await handle.result() is verified


async def test_subscription_reminds_and_goes_on_once_the_card_is_mended() -> None:
    reminders = Said()
    tries: list[int] = []

    def charge(customer: str, cents: int, month: int) -> None:
        tries.append(month)
        if month == 1 and tries.count(1) < 3:
            raise Declined(reason="expired")

    async with Environment([subscribe], activities={"charge": charge, "remind": reminders}) as env:
        status = await env.run(subscribe, Subscription(customer="ada", cents=900, months=3))
        assert status.value() == "expired"
        assert tries == [0, 1, 1, 1, 2]
        assert reminders.lines == ["ada expired"] * 2


async def test_subscription_ends_when_the_customer_cancels() -> None:
    async with Environment([subscribe], activities={"charge": _nothing, "remind": _nothing}) as env:
        handle = await env.client.start(subscribe, Subscription(customer="ada", cents=900))
        await env.settle()
        await handle.resolve(cancelled, "too dear")
        await env.finish(handle.execution_id)
        assert await handle.result() == "cancelled"


async def test_backup_adds_up_all_files() -> None:
    fakes: dict[str, Callable[..., Any]] = {"list_files": lambda folder: ["a", "bb", "ccc"], "copy": len}
    async with Environment([back_up], activities=fakes) as env:
        assert (await env.run(back_up, "photos")).value() == 6


async def test_approval_chain_passes_over_who_keeps_silent() -> None:
    asked: list[str] = []

    async with Environment([approve_purchase], activities={"ask": lambda level, *_: asked.append(level)}) as env:
        handle = await env.client.start(approve_purchase, Purchase(id="p1", what="a press", euros=5_000))
        await env.settle()
        env.clock.advance(timedelta(days=3))
        await env.settle()
        await handle.resolve(answer["head of department"], Answer(by="Bo", approved=True))
        await env.finish(handle.execution_id)
        assert asked == ["team lead", "head of department"]
        assert await handle.result() == [Answer(by="Bo", approved=True)]


async def test_downloads_take_the_first_mirror_that_answers() -> None:
    async def download(mirror: str, file: str) -> str:
        if mirror == "east":
            raise ConnectionError("east is down")
        if mirror == "north":
            await asyncio.Event().wait()
        return f"{mirror}/{file}"

    async with Environment([fetch_file], activities={"download": download}) as env:
        assert (await env.run(fetch_file, "a.iso")).value() == "west/a.iso"


async def test_downloads_fail_when_no_mirror_answers() -> None:
    async with Environment([fetch_file], activities={"download": _fail}) as env:
        handle = await env.client.start(fetch_file, "a.iso")
        await env.finish(handle.execution_id)
        with pytest.raises(Unavailable):
            await handle.result()


async def test_interpreter_runs_a_program_of_all_kinds_of_steps() -> None:
    program = Block.model_validate(
        {
            "do": "sequence",
            "steps": [
                {"do": "call", "url": "/1"},
                {"do": "sleep", "seconds": 60},
                {"do": "parallel", "steps": [{"do": "call", "url": "/22"}, {"do": "call", "url": "/333"}]},
                {"do": "repeat", "times": 2, "step": {"do": "call", "url": "/4444"}},
            ],
        }
    )
    async with Environment([interpret], activities={"call": len}) as env:
        assert (await env.run(interpret, program)).value() == [2, 3, 4, 5, 5]


async def test_sliding_window_converts_every_record_a_few_at_a_time() -> None:
    batch = Batch(records=["x" * n for n in range(1, 21)], window=4)
    async with Environment([convert_all, convert_record], activities={"convert": len}) as env:
        assert (await env.run(convert_all, batch)).value() == sum(range(1, 21))


async def test_nightly_bills_everybody_but_the_one_who_cannot_be_billed() -> None:
    def bill(customer: str, date: str) -> None:
        if customer == "bo":
            raise ValueError("no address")

    fakes: dict[str, Callable[..., Any]] = {"customers": lambda date: ["ada", "bo", "cy"], "bill": bill}
    async with Environment([bill_everybody, bill_customer], activities=fakes) as env:
        status = await env.run(bill_everybody, "2099-01-02")
        assert status.value() == {"date": "2099-01-02", "billed": 2, "failed": ["bo"]}


def _nothing(*_: object) -> None:
    return None


def _fail(mirror: str, file: str) -> str:
    raise ConnectionError(f"{mirror} is down")


class Printer:
    """How many pages were printed at a time, and in which order."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.pages: list[str] = []

    async def print(self, page: Page) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        self.pages.append(page.text)
        for _ in range(50):
            await asyncio.sleep(0)
        self.now -= 1


@pytest.mark.parametrize("room", [1, 2])
async def test_mutex_lets_so_many_in_at_a_time_also_over_its_restarts(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflows.gallery.mutex.REQUESTS_PER_RUN", 3)
    printer = Printer()
    async with Environment([keep_lock, print_page], activities={"print_it": printer.print}, workers=3) as env:
        await env.start(keep_lock, Lock(name="p", room=room))
        pages = [await env.start(print_page, Page(text=str(number), printer="p")) for number in range(7)]
        for page in pages:
            assert (await env.finish(page)).outcome == "completed"
        assert sorted(printer.pages) == [str(number) for number in range(7)]
        assert printer.most == room


async def test_mutex_is_free_again_when_its_holder_or_one_that_waits_is_interrupted() -> None:
    async with Environment([keep_lock, print_page], activities={"print_it": Said()}) as env:
        lock = await env.start(keep_lock, Lock(name="p", holders=["0" * 32]))
        waits = await env.start(print_page, Page(text="waits", printer="p"))
        follows = await env.start(print_page, Page(text="follows", printer="p"))
        await env.settle()
        await env.client.interrupt(waits)
        assert (await env.finish(waits)).outcome == "interrupted"
        await env.client.send(lock, requests, Request(by="0" * 32, wants=False))
        assert (await env.finish(follows)).outcome == "completed"
        assert env.ran() == ["print_it"]


@pytest.mark.parametrize("dies", [False, True])
async def test_counter_adds_up_each_change_once_over_many_runs(dies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflows.gallery.counter.CHANGES_PER_RUN", 2)
    async with Environment([count, add]) as env:
        counter = await env.start(count, Counter(name="visits"))
        for _ in range(5):
            await env.client.send(counter, changes, Change(add=1))
            if dies:
                await env.crash()
            await env.settle()
        assert (await env.run(add, {"visits": 10})).value() == {"visits": 15}
        assert (await env.run(add, {"others": 3})).value() == {"others": 3}
