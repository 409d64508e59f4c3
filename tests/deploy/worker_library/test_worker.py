"""function_app.py in Microsoft's own worker library: indexed, loaded, and each trigger invoked."""

from __future__ import annotations

import dataclasses
import json
import sys
from datetime import timedelta

import pytest

import workflows
from engine import Channel, workflow
from engine.boundary.callers import OPEN
from engine.boundary.hints import to_message
from engine.driving.hand_overs import Hint
from tests.deploy.worker_library.host import ADDRESS, WorkerHost

ORDER = {
    "id": "order-1",
    "customer": "Ada",
    "amount": "120.50",
    "items": [{"sku": "lamp", "quantity": 1}, {"sku": "chair", "quantity": 4}],
}


async def _started(host: WorkerHost, order: dict[str, object] | None = None) -> str:
    answer = await host.http("POST", "/workflows/fulfil", order or ORDER)
    assert answer.status == 202
    place: str = answer.headers["location"]
    assert place == f"{ADDRESS}/executions/{answer.body['executionId']}"
    return place.removeprefix(ADDRESS)


async def test_every_function_is_indexed(host: WorkerHost) -> None:
    triggers = {name: host.trigger(name)["type"] for name in host.functions}
    assert triggers.pop("drive_changes") == "cosmosDBTrigger"
    assert triggers.pop("sweep") == "timerTrigger"
    assert triggers.pop("drive_one") == "queueTrigger"
    assert set(triggers.values()) == {"httpTrigger"}
    assert triggers.keys() >= {"start", "poll", "interrupt", "resume", "terminate", "resolve_deferred"}


async def test_the_feed_is_what_the_host_is_told(host: WorkerHost) -> None:
    assert host.trigger("drive_changes") == {
        "direction": "IN",
        "type": "cosmosDBTrigger",
        "name": "documents",
        "connection": "COSMOS",
        "databaseName": "%COSMOS_DATABASE%",
        "containerName": "%COSMOS_CONTAINER%",
        "leaseContainerName": "leases",
        "leaseContainerPrefix": "%COSMOS_LEASE_PREFIX%",
        "startFromBeginning": True,
        "feedPollDelay": 500,
        "maxItemsPerInvocation": 100,
    }
    retry = host.functions["drive_changes"].retry_options  # type: ignore[attr-defined]
    assert retry.max_retry_count == 5
    assert retry.retry_strategy == "exponential_backoff"
    assert (retry.minimum_interval, retry.maximum_interval) == (timedelta(seconds=1), timedelta(seconds=15))


async def test_the_sweep_is_what_the_host_is_told(host: WorkerHost) -> None:
    timer = host.trigger("sweep")
    assert timer["schedule"] == "*/10 * * * * *"
    assert timer["useMonitor"] is False
    assert not timer.get("runOnStartup")


async def test_hints_go_to_the_queue_of_the_host(host: WorkerHost) -> None:
    queue = {"queueName": "hints", "connection": "AzureWebJobsStorage"}
    trigger = host.trigger("drive_one")
    assert (trigger["name"], {name: trigger[name] for name in queue}) == ("message", queue)
    for name in ("drive_changes", "sweep", "drive_one"):
        outputs = [json.loads(text) for text in host.functions[name].raw_bindings]  # type: ignore[attr-defined]
        (output,) = [binding for binding in outputs if binding["type"] == "queue"]
        assert (output["name"], output["direction"]) == ("hints", "OUT")
        assert {name: output[name] for name in queue} == queue


async def test_what_a_batch_cannot_end_is_handed_over_and_driven_from_the_queue(host: WorkerHost) -> None:
    """The feed has no time at all for it; the queue has."""
    runtime = sys.modules["function_app"].runtime
    runtime.settings = dataclasses.replace(runtime.settings, batch_budget=timedelta(0))
    place = await _started(host)
    await host.feed()
    (hint,) = host.queue
    assert json.loads(hint) == {"v": 1, "id": place.rpartition("/")[2]}
    assert not (await host.http("GET", place)).body["suspended"]
    await host.drain_queue()
    assert (await host.http("GET", place)).body["suspended"]


async def test_a_message_that_is_no_hint_is_dropped(host: WorkerHost) -> None:
    await host.message("x" * 2_000)
    assert host.queue == []


async def test_only_tokens_and_the_page_need_no_key(host: WorkerHost) -> None:
    levels = {name: str(host.trigger(name).get("authLevel")) for name in host.functions}
    open_to_all = {name for name, level in levels.items() if "ANONYMOUS" in level.upper()}
    assert open_to_all == set(OPEN)


async def test_an_order_from_start_to_end(host: WorkerHost) -> None:
    place = await _started(host)
    assert (await host.http("GET", place)).body["status"] == "running"

    assert set(await host.feed()) >= {"exec", "history::00000000"}
    waiting = (await host.http("GET", place)).body
    assert (waiting["status"], waiting["suspended"]) == ("running", True)

    done = await host.http("POST", f"{place}/deferreds/approval", {"approved": True, "by": "Grace"})
    assert done.status == 200
    assert "deferred::approval" in await host.feed()

    ended = await host.http("GET", place)
    assert ended.status == 200
    assert ended.headers["content-type"] == "application/json"
    assert ended.body["outcome"] == "completed"
    assert ended.body["result"]["approved_by"] == "Grace"
    assert [parcel["sku"] for parcel in ended.body["result"]["parcels"]] == ["lamp", "chair"]

    again = await host.http("POST", "/workflows/fulfil", ORDER)
    assert (again.status, again.body["result"]) == (200, ended.body["result"])


async def test_an_order_from_start_to_end_over_cosmos(cosmos_host: WorkerHost) -> None:
    """The worker, the SDK and the protocol are the real ones: only the host and the service are not."""
    place = await _started(cosmos_host)
    assert set(await cosmos_host.feed()) >= {"exec", "history::00000000"}
    await cosmos_host.http("POST", f"{place}/deferreds/approval", {"approved": True, "by": "Grace"})
    await cosmos_host.feed()
    await cosmos_host.sweep()
    ended = (await cosmos_host.http("GET", place)).body
    assert (ended["outcome"], ended["result"]["approved_by"]) == ("completed", "Grace")
    too_early = await cosmos_host.http("DELETE", place)
    assert (too_early.status, "arrive a second time" in too_early.body["detail"]) == (409, True)


remarks = Channel("worker.remarks", str)


@workflow(name="worker_listens")
async def listens() -> str:
    """Ends with the first remark: the examples have no channel."""
    return await remarks.receive()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more workflow in the app."""
    monkeypatch.setattr(workflows, "WORKFLOWS", [*workflows.WORKFLOWS, listens])


async def test_every_function_runs(listener: None, host: WorkerHost) -> None:
    """Through every trigger that the app has."""
    answer = await host.http("POST", "/workflows/worker_listens")
    heard = answer.headers["location"].removeprefix(ADDRESS)
    assert (await host.http("POST", f"{heard}/channels/worker.remarks", "quick, please")).status == 202
    place = await _started(host)
    await host.feed()
    await host.sweep()
    assert (await host.http("GET", "/executions?status=running")).body["executions"]
    assert (await host.http("GET", "/health")).body == {
        "status": "ok",
        "overdueSeconds": 0.0,
        "stuck": {},
        "leftAlone": {},
        "unreadable": {},
    }
    assert (await host.http("POST", f"{place}/resume")).status == 202
    given = (await host.http("GET", f"{place}/deferreds/approval/token")).body
    answer = {"approved": True, "by": "Grace"}  # type: ignore[assignment]
    assert (await host.http("POST", f"{place}/deferreds/approval", answer)).status == 200
    assert (await host.http("POST", given["url"].removeprefix(ADDRESS), answer)).status == 204  # the same again
    assert (await host.http("POST", f"{place}/interrupt")).status == 202
    await host.feed()
    assert (await host.http("GET", heard)).body["result"] == "quick, please"
    assert (await host.http("GET", place)).body["outcome"] == "interrupted"
    for view in ("history", "steps", "family"):
        assert (await host.http("GET", f"{place}/{view}")).status == 200
    assert (await host.http("GET", "/counts")).status == 200
    assert (await host.http("GET", "/openapi.json")).body["openapi"].startswith("3.1")
    assert (await host.http("GET", "/workflows/fulfil/executions?key=nobody")).status == 404
    assert (await host.http("POST", f"{heard}/terminate")).status == 409
    assert (await host.http("POST", f"{heard}/retry")).status == 409
    assert (await host.http("POST", f"{heard}/fork", {"from": "worker.remarks"})).status == 202
    assert (await host.http("GET", "/ui/nothing")).status == 404
    assert (await host.http("GET", "/ui")).status in (200, 302, 308)
    assert (await host.http("DELETE", place)).status == 204
    await host.message(to_message(Hint("0" * 32)))
    assert host.invoked == host.functions.keys()


async def test_a_start_that_waits_is_driven_at_once(host: WorkerHost) -> None:
    """Nothing here delivers the change feed: only the request itself can have driven the execution to its wait."""
    answer = await host.http("POST", "/workflows/fulfil?wait=0.2", ORDER)
    assert answer.status == 202
    while not answer.body["suspended"]:
        answer = await host.http("GET", f"/executions/{answer.body['executionId']}?wait=0.2")


async def test_what_the_feed_lost_is_swept(host: WorkerHost) -> None:
    place = await _started(host)
    await host.feed()
    await host.http("POST", f"{place}/deferreds/approval", {"approved": True, "by": "Grace"})
    await host.sweep()
    assert (await host.http("GET", place)).body["outcome"] == "completed"


async def test_an_interrupt_reaches_a_waiting_order(host: WorkerHost) -> None:
    place = await _started(host)
    await host.feed()
    assert (await host.http("POST", f"{place}/interrupt")).status == 202
    await host.feed()
    assert (await host.http("GET", place)).body["outcome"] == "interrupted"
    late = await host.http("POST", f"{place}/deferreds/approval", {"approved": True, "by": "Grace"})
    assert (late.status, late.headers["content-type"]) == (409, "application/problem+json")


async def test_a_token_completes_without_a_key(host: WorkerHost) -> None:
    place = await _started(host)
    given = (await host.http("GET", f"{place}/deferreds/approval/token")).body
    path = given["url"].removeprefix(ADDRESS)
    assert (await host.http("POST", path, {"approved": False, "by": "Grace"})).status == 204
    await host.feed()
    assert (await host.http("GET", place)).body["error"]["type"] == "OrderRejected"


async def test_the_other_requests_are_answered(host: WorkerHost) -> None:
    place = await _started(host)
    assert (await host.http("POST", f"{place}/resume")).status == 202
    assert (await host.http("POST", f"{place}/terminate")).body["outcome"] == "terminated"
    listed = (await host.http("GET", "/executions?workflow=fulfil")).body["executions"]
    assert [execution["outcome"] for execution in listed] == ["terminated"]
    assert (await host.http("DELETE", place)).status == 204
    assert (await host.http("GET", place)).status == 404


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/workflows/nobody", ORDER, 404),
        ("/workflows/fulfil", {**ORDER, "amount": "-1"}, 422),
        ("/workflows/fulfil", None, 422),
    ],
)
async def test_a_bad_start_is_refused(host: WorkerHost, path: str, body: object, status: int) -> None:
    answer = await host.http("POST", path, body)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (await host.http("GET", "/executions")).body["executions"] == []
