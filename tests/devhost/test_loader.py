"""Reading an app: what is served, and what is refused because the platform would refuse it."""

from __future__ import annotations

from pathlib import Path

import pytest

from devhost.functions import FeedTrigger, HttpTrigger, QueueOutput, QueueTrigger, TimerTrigger
from devhost.loader import load
from devhost.retry import RetryPolicy
from devhost.settings import LoadError
from tests.devhost.support import load_app

QUEUE = "@app.queue_trigger('message', 'q', 'C')\n@app.queue_output('out', 'q', 'C')\n"
FEED = '@app.cosmos_db_trigger(arg_name="docs", connection="C", database_name="%DB%", container_name="c"{})\n'


def test_functions_of_every_kind(app_path: Path) -> None:
    app = load_app(
        app_path,
        """
        @app.route(route="/things/{id}", methods=["GET", "post"], auth_level=func.AuthLevel.ANONYMOUS)
        async def thing(req: func.HttpRequest, context: func.Context) -> func.HttpResponse: ...

        @app.function_name("Plain")
        @app.route()
        def plain(req: func.HttpRequest) -> str: ...

        @app.timer_trigger(arg_name="timer", schedule="*/%SECONDS% * * * * *", run_on_startup=True)
        async def sweep(timer: func.TimerRequest) -> None: ...

        @app.cosmos_db_trigger(arg_name="docs", connection="C", database_name="%DB%", container_name="c",
                               feed_poll_delay=250, max_items_per_invocation=7)
        @app.retry(strategy="exponential_backoff", max_retry_count="-1",
                   minimum_interval="00:00:01", maximum_interval="00:05:00")
        async def drive(docs: func.DocumentList) -> None: ...
        """,
        {"SECONDS": "10"},
    )
    thing, plain, sweep, drive = app.functions
    assert thing.trigger == HttpTrigger("things/{id}", frozenset({"GET", "POST"}), anonymous=True)
    assert (thing.is_async, thing.wants_context, thing.has_return, thing.retry) == (True, True, True, None)
    assert plain.trigger == HttpTrigger("Plain", None, anonymous=False)
    assert (plain.is_async, plain.wants_context) == (False, False)
    assert sweep.trigger == TimerTrigger("*/10 * * * * *", run_on_startup=True)
    assert not sweep.has_return
    assert drive.trigger == FeedTrigger(0.25, 7)
    assert drive.retry == RetryPolicy(None, 1, 300)
    assert [function.parameter for function in app.functions] == ["req", "req", "timer", "docs"]


def test_defaults_of_the_feed_and_a_parameter_that_takes_text(app_path: Path) -> None:
    (drive,) = load_app(app_path, FEED.format("") + "def drive(docs: str): ...").functions
    assert drive.trigger == FeedTrigger(5, 100)
    assert drive.as_text


def test_the_app_sets_the_level_of_routes_that_set_none(app_path: Path) -> None:
    source = """
    app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
    @app.route(route="a")
    def a(req: func.HttpRequest) -> str: ...
    @app.route(route="b", auth_level="admin")
    def b(req: func.HttpRequest) -> str: ...
    """
    a, b = (function.trigger for function in load_app(app_path, source).functions)
    assert isinstance(a, HttpTrigger)
    assert isinstance(b, HttpTrigger)
    assert (a.anonymous, b.anonymous) == (True, False)


def test_generic_triggers_are_read_alike(app_path: Path) -> None:
    source = """
    @app.generic_trigger(arg_name="timer", type="timerTrigger", schedule="0 * * * * *")
    def tick(timer) -> None: ...
    """
    (tick,) = load_app(app_path, source).functions
    assert tick.trigger == TimerTrigger("0 * * * * *", run_on_startup=False)


def test_queues_are_read_with_their_references(app_path: Path) -> None:
    source = """
    from typing import List
    @app.queue_trigger(arg_name="message", queue_name="%QUEUE%", connection="C")
    @app.queue_output(arg_name="more", queue_name="%QUEUE%", connection="C")
    @app.queue_output(arg_name="one", queue_name="other", connection="C")
    def listen(message: func.QueueMessage, more: func.Out[List[str]], one: func.Out[str]) -> None: ...
    """
    (listen,) = load_app(app_path, source, {"QUEUE": "q"}).functions
    assert listen.trigger == QueueTrigger("q")
    assert set(listen.outputs) == {QueueOutput("more", "q"), QueueOutput("one", "other")}


def test_an_empty_app_is_served(app_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert load_app(app_path, "").functions == ()
    assert "has no functions" in caplog.text


def test_what_this_host_cannot_serve_is_left_out_with_a_warning(
    app_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = """
    @app.blob_trigger(arg_name="blob", path="p", connection="C")
    def listen(blob: func.InputStream) -> None: ...

    @app.route(route="a")
    @app.blob_output(arg_name="out", path="p", connection="C")
    def a(req: func.HttpRequest, out: func.Out[str]) -> str: ...

    @app.route(route="b")
    def b(req: func.HttpRequest) -> str: ...
    """
    app = load_app(app_path, source)
    assert [function.name for function in app.functions] == ["b"]
    assert app.left_out == (
        "function listen: this host can't serve a blobTrigger",
        "function a: this host can't serve the binding blob out",
    )
    assert all(f"left out: {line}" in caplog.text for line in app.left_out)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("1 / 0", "importing .* failed with ZeroDivisionError"),
        ("raise SystemExit(3)", "importing .* failed with SystemExit"),
        ("def broken(:", "importing .* failed with SyntaxError"),
        ("del app", "no FunctionApp"),
        ("other = func.FunctionApp()", "more than one FunctionApp"),
        ("again = app", "more than one FunctionApp"),
        (
            "@app.route(route='a')\ndef f(req): ...\n@app.route(route='b')\ndef f(req): ...",
            "does not have a unique function name",
        ),
        ("@app.function_name('f')\ndef f(): ...", "does not have a trigger"),
        ("@app.route(route='a')\ndef f(request): ...", "function f: .*parameter request"),
        ("@app.route(route='a')\ndef f(): ...", "function f: a decorator names the parameter req"),
        ("@app.route(route='a')\ndef f(req, extra=None): ...", "function f: .*parameter extra"),
        ("@app.route(route='a')\ndef f(req, **more): ...", "function f: .*parameter more"),
        ("@app.route(route='a')\ndef f(req, context: int): ...", "context parameter"),
        ("@app.route(route='a')\ndef f(req: 'Nowhere'): ...", "function f: .*Nowhere"),
        ("@app.route(route='a')\ndef f(req: func.TimerRequest): ...", "function f: req is annotated"),
        ("@app.route(route='a')\ndef f(req: str): ...", "function f: req is annotated"),
        ("@app.route(route='a')\ndef f(req) -> dict: ...", "function f: the return value is annotated"),
        ("@app.route(route='a')\ndef f(req) -> func.HttpResponse | str: ...", "the return value"),
        ("@app.route(route='a')\ndef f(req) -> None: ...", "the return value"),
        (FEED.format("") + "def f(docs: list): ...", "docs is annotated"),
        (FEED.format("") + "def f(docs: list[dict]): ...", "docs is annotated"),
        (FEED.format("") + "def f(docs: func.DocumentList | None): ...", "docs is annotated"),
        (FEED.format("") + "def f(docs): ...\n" + FEED.format("") + "def g(docs): ...", "several Cosmos DB"),
        (FEED.format(", feed_poll_delay=-1") + "def f(docs): ...", "feed_poll_delay"),
        (FEED.format(", max_items_per_invocation=0") + "def f(docs): ...", "max_items_per_invocation"),
        (QUEUE + "def f(message: str, out: list): ...", "output parameter out must be azure.functions.Out"),
        (QUEUE + "def f(message: str, out): ...", "output parameter out must be azure.functions.Out"),
        (QUEUE + "def f(message: str, out: func.Out[list[str]]): ...", "out is annotated .* a message of a queue"),
        (QUEUE + "def f(message: dict, out: func.Out[str]): ...", "message is annotated"),
        ("@app.timer_trigger('t', '%MISSING%')\ndef f(t): ...", "function f: setting MISSING"),
        ("@app.timer_trigger('t', 'often')\ndef f(t): ...", "function f: schedule 'often'"),
        (
            "@app.timer_trigger('t', '0 * * * * *')\n@app.retry('fixed_delay', '3', delay_interval=2)\ndef f(t): ...",
            "function f: delay_interval: .*HH:MM:SS",
        ),
        (
            "@app.timer_trigger('t', '0 * * * * *')\n@app.retry('fixed_delay', 'x', '00:00:02')\ndef f(t): ...",
            "function f: max_retry_count",
        ),
    ],
)
def test_what_is_refused(app_path: Path, source: str, complaint: str) -> None:
    with pytest.raises(LoadError, match=complaint):
        load_app(app_path, source)


def test_a_missing_module_is_refused() -> None:
    with pytest.raises(LoadError, match="importing app_nowhere failed with ModuleNotFoundError"):
        load("app_nowhere", {})


async def test_an_app_that_runs_a_loop_while_it_is_imported_is_refused(app_path: Path) -> None:
    """The platform's worker imports apps inside its own loop."""
    source = """
    import asyncio
    pause = asyncio.sleep(0)
    try:
        asyncio.run(pause)
    finally:
        pause.close()
    """
    with pytest.raises(LoadError, match="running event loop"):
        load_app(app_path, source)
