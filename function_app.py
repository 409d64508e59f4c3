"""The Functions app: triggers only. Each turns what the host gives it into a call of the engine, and back."""

from __future__ import annotations

import logging
import os

import azure.functions as func

from engine import Runtime
from engine.boundary import http
from workflows import WORKFLOWS

app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
runtime = Runtime.from_environment(WORKFLOWS, os.environ)

if os.environ.get("AZURE_FUNCTIONS_ENVIRONMENT") != "Development" and logging.lastResort is not None:
    # The platform drops what a worker logs while none of its invocations runs, as a drive does that goes on after its
    # batch, or a thread. It keeps what stands on stderr, and this writes warnings and errors there.
    logging.getLogger("engine").addHandler(logging.lastResort)


@app.route("workflows/{name}", methods=["POST"])
async def start(req: func.HttpRequest) -> func.HttpResponse:
    """Start a workflow."""
    return _response(await http.start(runtime, _request(req), req.route_params["name"]))


@app.route("executions/{id}", methods=["GET"])
async def poll(req: func.HttpRequest) -> func.HttpResponse:
    """How an execution stands."""
    return _response(await http.poll(runtime, _request(req), req.route_params["id"]))


@app.route("executions/{id}/interrupt", methods=["POST"])
async def interrupt(req: func.HttpRequest) -> func.HttpResponse:
    """Ask an execution to stop and clean up."""
    return _response(await http.interrupt(runtime, _request(req), req.route_params["id"]))


@app.route("executions/{id}/resume", methods=["POST"])
async def resume(req: func.HttpRequest) -> func.HttpResponse:
    """Let a suspended execution run again."""
    return _response(await http.resume(runtime, _request(req), req.route_params["id"]))


@app.route("executions/{id}/terminate", methods=["POST"])
async def terminate(req: func.HttpRequest) -> func.HttpResponse:
    """End an execution at once."""
    return _response(await http.terminate(runtime, _request(req), req.route_params["id"]))


@app.route("executions/{id}", methods=["DELETE"])
async def purge(req: func.HttpRequest) -> func.HttpResponse:
    """Delete an execution that has ended."""
    return _response(await http.purge(runtime, req.route_params["id"]))


@app.route("health", methods=["GET"])
async def health(req: func.HttpRequest) -> func.HttpResponse:
    """Whether the store is there, and whether executions are late or wait for a person."""
    return _response(await http.health(runtime))


@app.route("executions", methods=["GET"])
async def list_executions(req: func.HttpRequest) -> func.HttpResponse:
    """The executions there are."""
    return _response(await http.list_executions(runtime, _request(req)))


@app.route("executions/{id}/channels/{name}", methods=["POST"])
async def send(req: func.HttpRequest) -> func.HttpResponse:
    """Send one more value to an execution."""
    params = req.route_params
    return _response(await http.send(runtime, _request(req), params["id"], params["name"]))


@app.route("executions/{id}/deferreds/{name}", methods=["POST"])
async def complete_deferred(req: func.HttpRequest) -> func.HttpResponse:
    """Bring a value that an execution waits for."""
    params = req.route_params
    return _response(await http.complete_deferred(runtime, _request(req), params["id"], params["name"]))


@app.route("executions/{id}/deferreds/{name}/token", methods=["GET"])
async def deferred_token(req: func.HttpRequest) -> func.HttpResponse:
    """A signed token, for whoever is to bring that value."""
    params = req.route_params
    return _response(await http.deferred_token(runtime, _request(req), params["id"], params["name"]))


@app.route("deferreds/{token}", methods=["POST"], auth_level=func.AuthLevel.ANONYMOUS)
async def complete_by_token(req: func.HttpRequest) -> func.HttpResponse:
    """Bring a value, by a signed token alone."""
    return _response(await http.complete_by_token(runtime, _request(req), req.route_params["token"]))


@app.cosmos_db_trigger(
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
@app.retry(
    strategy="exponential_backoff", max_retry_count="-1", minimum_interval="00:00:01", maximum_interval="00:01:00"
)
async def drive_changes(documents: func.DocumentList) -> None:
    """Drive what changed. Raises only if the store can't be reached: the host then gives the same batch again."""
    await runtime.worker.drive_changes(documents)


@app.timer_trigger("timer", schedule="*/10 * * * * *", use_monitor=False)
async def sweep(timer: func.TimerRequest) -> None:
    """Drive what is due."""
    await runtime.worker.sweep()


def _request(req: func.HttpRequest) -> http.Request:
    headers = {name.lower(): value for name, value in req.headers.items()}
    return http.Request(req.url, req.get_body(), dict(req.params), headers)


def _response(answer: http.Response) -> func.HttpResponse:
    headers = {"Cache-Control": "no-store", **answer.headers}
    return func.HttpResponse(
        answer.body, status_code=answer.status, mimetype=headers.pop("Content-Type"), headers=headers
    )
