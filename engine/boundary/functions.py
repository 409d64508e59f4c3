"""The engine's triggers for an Azure Functions app, as one blueprint that the app registers.

    runtime = Runtime.from_environment(WORKFLOWS, os.environ)
    app = func.FunctionApp(http_auth_level=auth_level(runtime))
    app.register_functions(blueprint(runtime))

1. A function here only translates: the host's arguments into a call of the engine, and the result back.
2. A route has the app's own authorization level, with two exceptions that are open to everybody: the files of the page,
   which hold no data, and the route whose key is a signed token.
3. With sign-in, a route first checks that the caller may call it (`engine.boundary.callers`), and then translates.
4. Only this module of the engine imports `azure.functions`.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, List  # noqa: UP035 - the worker's library doesn't take list[str]

import azure.functions as func

from engine.boundary import callers, history, http
from engine.boundary.answers import Request, Response, answered, unchanged
from engine.boundary.hints import from_message, noticing_poison, to_message
from engine.boundary.json_lines import keep_on_stderr
from engine.boundary.openapi import openapi
from engine.boundary.page import page
from engine.boundary.runtime import Runtime
from engine.driving.hand_overs import Hint
from engine.ground import telemetry

Messages = func.Out[List[str]]  # noqa: UP006
"""Takes messages that the host then sends to a queue."""


def auth_level(runtime: Runtime) -> func.AuthLevel:
    """What the host demands of callers: a function key, or nothing if the platform signs callers in."""
    return func.AuthLevel.ANONYMOUS if runtime.settings.sign_in else func.AuthLevel.FUNCTION


def blueprint(runtime: Runtime) -> func.Blueprint:
    """All triggers of the engine, bound to `runtime`.

    The app's module must keep the runtime in a variable named `runtime`, because the local host reads the change feed
    from it. The runtime closes by itself when the platform ends the process.
    """
    runtime.stops_on_sigterm = True
    if os.environ.get("AZURE_FUNCTIONS_ENVIRONMENT") != "Development":
        keep_on_stderr(logging.getLogger("engine"))
    triggers = _Triggers(runtime) if runtime.settings.sign_in else func.Blueprint()  # type: ignore[no-untyped-call]
    _add_executions(triggers, runtime)
    _add_history(triggers, runtime)
    _add_page(triggers)
    _add_values(triggers, runtime)
    _add_driving(triggers, runtime)
    return triggers


Route = Callable[[func.HttpRequest], Awaitable[func.HttpResponse]]


class _Triggers(func.Blueprint):
    """A blueprint whose routes accept only signed-in callers who may call them."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._runtime = runtime

    def route(self, route: str, *, methods: Iterable[str], **more: Any) -> Callable[[Route], Any]:  # type: ignore[override]
        declare = super().route(route, methods=methods, **more)
        return lambda function: declare(self._guarded(function))

    def _guarded(self, function: Route) -> Route:
        name, runtime = function.__name__, self._runtime

        @functools.wraps(function)
        async def guarded(req: func.HttpRequest) -> func.HttpResponse:
            async def admit() -> Response:
                await callers.admit(name, _request(req), req.route_params, runtime.permits, runtime.client.read)
                return Response(200, "")

            admitted = await answered(admit)
            if admitted.status != 200:
                return _response(admitted)
            answer = await function(req)
            callers.note(name, req.route_params, answer.status_code)
            return answer

        return guarded


def _add_executions(triggers: func.Blueprint, runtime: Runtime) -> None:
    """The routes that start, read and stop executions, and the health check."""

    @triggers.route("workflows/{name}", methods=["POST"])
    async def start(req: func.HttpRequest) -> func.HttpResponse:
        """Start a workflow."""
        with telemetry.continued(req.headers.get("traceparent")):
            return _response(await http.start(runtime, _request(req), req.route_params["name"]))

    @triggers.route("executions/{id}", methods=["GET"])
    async def poll(req: func.HttpRequest) -> func.HttpResponse:
        """Give the status of an execution."""
        return await _read(req, http.poll(runtime, _request(req), req.route_params["id"]))

    @triggers.route("workflows/{name}/executions", methods=["GET"])
    async def poll_by_key(req: func.HttpRequest) -> func.HttpResponse:
        """Give the status of the execution with an idempotency key."""
        return await _read(req, http.poll_by_key(runtime, _request(req), req.route_params["name"]))

    @triggers.route("executions/{id}/interrupt", methods=["POST"])
    async def interrupt(req: func.HttpRequest) -> func.HttpResponse:
        """Ask an execution to stop and clean up."""
        return _response(await http.interrupt(runtime, _request(req), req.route_params["id"]))

    @triggers.route("executions/{id}/resume", methods=["POST"])
    async def resume(req: func.HttpRequest) -> func.HttpResponse:
        """Let a suspended execution run again."""
        return _response(await http.resume(runtime, _request(req), req.route_params["id"]))

    @triggers.route("executions/{id}/retry", methods=["POST"])
    async def retry(req: func.HttpRequest) -> func.HttpResponse:
        """Let an execution that failed or was interrupted run again."""
        return _response(await http.retry(runtime, _request(req), req.route_params["id"]))

    @triggers.route("executions/{id}/fork", methods=["POST"])
    async def fork(req: func.HttpRequest) -> func.HttpResponse:
        """Start a new execution that takes over the history of another one up to a step."""
        return _response(await http.fork(runtime, _request(req), req.route_params["id"]))

    @triggers.route("executions/{id}/terminate", methods=["POST"])
    async def terminate(req: func.HttpRequest) -> func.HttpResponse:
        """End an execution at once."""
        return _response(await http.terminate(runtime, _request(req), req.route_params["id"]))

    @triggers.route("executions/{id}", methods=["DELETE"])
    async def purge(req: func.HttpRequest) -> func.HttpResponse:
        """Delete an execution that has ended."""
        return _response(await http.purge(runtime, req.route_params["id"]))

    @triggers.route("executions", methods=["GET"])
    async def list_executions(req: func.HttpRequest) -> func.HttpResponse:
        """List executions."""
        return await _read(req, http.list_executions(runtime, _request(req)))

    @triggers.route("counts", methods=["GET"])
    async def count_executions(req: func.HttpRequest) -> func.HttpResponse:
        """Count executions by their state."""
        return await _read(req, http.count_executions(runtime, _request(req)))

    @triggers.route("openapi.json", methods=["GET"])
    async def describe_api(req: func.HttpRequest) -> func.HttpResponse:
        """Describe the API, for tools."""
        return await _read(req, openapi(runtime, _request(req)))

    @triggers.route("health", methods=["GET"])
    async def health(req: func.HttpRequest) -> func.HttpResponse:
        """Say whether the store answers, and whether executions are late or wait for a person."""
        return _response(await http.health(runtime))


def _add_history(triggers: func.Blueprint, runtime: Runtime) -> None:
    """The routes that show what executions did and wait for."""

    @triggers.route("executions/{id}/history", methods=["GET"])
    async def read_history(req: func.HttpRequest) -> func.HttpResponse:
        """List the events of an execution."""
        return await _read(req, history.history(runtime, _request(req), req.route_params["id"]))

    @triggers.route("executions/{id}/steps", methods=["GET"])
    async def read_steps(req: func.HttpRequest) -> func.HttpResponse:
        """List the steps that an execution's code asked for, and those that it waits for now."""
        return await _read(req, history.steps(runtime, _request(req), req.route_params["id"]))

    @triggers.route("executions/{id}/family", methods=["GET"])
    async def read_family(req: func.HttpRequest) -> func.HttpResponse:
        """Show the parents and children of an execution."""
        return await _read(req, history.family(runtime, _request(req), req.route_params["id"]))


def _add_page(triggers: func.Blueprint) -> None:
    """The page for people. Its files hold no data, so they need no key. The page itself asks its user for one."""

    @triggers.route("ui", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    async def show_page(req: func.HttpRequest) -> func.HttpResponse:
        """The page."""
        return _response(await page(_request(req)))

    @triggers.route("ui/{file}", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    async def show_file(req: func.HttpRequest) -> func.HttpResponse:
        """A file that the page needs."""
        return _response(await page(_request(req), req.route_params["file"]))


def _add_values(triggers: func.Blueprint, runtime: Runtime) -> None:
    """The routes that bring values from outside to an execution."""

    @triggers.route("executions/{id}/channels/{name}", methods=["POST"])
    async def send(req: func.HttpRequest) -> func.HttpResponse:
        """Send one more value to an execution."""
        params = req.route_params
        return _response(await http.send(runtime, _request(req), params["id"], params["name"]))

    @triggers.route("executions/{id}/deferreds/{name}", methods=["POST"])
    async def resolve_deferred(req: func.HttpRequest) -> func.HttpResponse:
        """Resolve a deferred that an execution waits for."""
        params = req.route_params
        return _response(await http.resolve_deferred(runtime, _request(req), params["id"], params["name"]))

    @triggers.route("executions/{id}/deferreds/{name}/token", methods=["GET"])
    async def deferred_token(req: func.HttpRequest) -> func.HttpResponse:
        """Give a signed token to the person who is to resolve that deferred."""
        params = req.route_params
        return _response(await http.deferred_token(runtime, _request(req), params["id"], params["name"]))

    @triggers.route("deferreds/{token}", methods=["POST"], auth_level=func.AuthLevel.ANONYMOUS)
    async def resolve_by_token(req: func.HttpRequest) -> func.HttpResponse:
        """Resolve the deferred that a signed token names. The token is the only key."""
        return _response(await http.resolve_by_token(runtime, _request(req), req.route_params["token"]))


def _add_driving(triggers: func.Blueprint, runtime: Runtime) -> None:
    """The change feed, the timer and the queue: they drive executions.

    The host sends the messages in `hints` when the function has returned. If it can't send them, the invocation has
    failed. Then the host delivers the batch or the message again, a few times, and the timer fires again.
    """

    @triggers.cosmos_db_trigger(
        "documents",
        connection="COSMOS",
        database_name="%COSMOS_DATABASE%",
        container_name="%COSMOS_CONTAINER%",
        lease_container_name="leases",
        lease_container_prefix="%COSMOS_LEASE_PREFIX%",
        start_from_beginning=True,  # type: ignore[arg-type]  # the SDK's annotation is wrong: it takes a bool
        feed_poll_delay=500,
        max_items_per_invocation=100,
    )
    @triggers.queue_output("hints", queue_name="hints", connection="AzureWebJobsStorage")
    @triggers.retry(
        strategy="exponential_backoff", max_retry_count="5", minimum_interval="00:00:01", maximum_interval="00:00:15"
    )
    async def drive_changes(documents: func.DocumentList, hints: Messages) -> None:
        """Drive the executions that changed. Raises only if the store can't be reached. The host then delivers the same
        batch again, a few times. If the host gives up, the sweep finds the executions."""
        left: list[Hint] = []
        await runtime.worker.drive_changes(documents, left.append)
        _send(hints, left)

    @triggers.timer_trigger("timer", schedule="*/10 * * * * *", use_monitor=False)
    @triggers.queue_output("hints", queue_name="hints", connection="AzureWebJobsStorage")
    async def sweep(timer: func.TimerRequest, hints: Messages) -> None:
        """Drive the executions that are due, and start the app's schedules."""
        left: list[Hint] = []
        await runtime.worker.sweep(left.append)
        _send(hints, left)
        await runtime.start_schedules()

    @triggers.queue_trigger("message", queue_name="hints", connection="AzureWebJobsStorage")
    @triggers.queue_output("hints", queue_name="hints", connection="AzureWebJobsStorage")
    async def drive_one(message: func.QueueMessage, hints: Messages) -> None:
        """Drive one execution. Raises only if the store can't be reached. The host then delivers the message again."""
        hint = from_message(message.get_body())
        if hint is not None:
            left: list[Hint] = []
            with noticing_poison(hint, message.dequeue_count):
                await runtime.worker.drive_one(hint, left.append)
            _send(hints, left)


def _send(out: Messages, hints: list[Hint]) -> None:
    if hints:
        out.set([to_message(hint) for hint in hints])


def _request(req: func.HttpRequest) -> Request:
    headers = {name.lower(): value for name, value in req.headers.items()}
    return Request(req.url, req.get_body(), dict(req.params), headers)


async def _read(req: func.HttpRequest, answer: Awaitable[Response]) -> func.HttpResponse:
    return _response(unchanged(_request(req), await answer))


def _response(answer: Response) -> func.HttpResponse:
    headers = {"Cache-Control": "no-store", **answer.headers}
    return func.HttpResponse(
        answer.body, status_code=answer.status, mimetype=headers.pop("Content-Type"), headers=headers
    )
