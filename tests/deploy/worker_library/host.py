"""Stands in for the Functions host: it makes the real worker index function_app.py, and runs its functions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import azure_functions_runtime as worker

from engine.store.base import Store
from tests.deploy.worker_library.messages import Message, http_data, invocation, json_data, request, text_data

ROOT = Path(__file__).parents[3]
ADDRESS = "https://app.example/api"
SYSTEM_FIELDS = {
    "_rid": "r9sTAKdcjHIBAAAAAAAAAA==",
    "_self": "dbs/r9sTAA==/colls/r9sTAKdcjHI=/docs/r9sTAKdcjHIBAAAAAAAAAA==/",
    "_etag": '"00000000-0000-0000-0000-000000000000"',
    "_attachments": "attachments/",
    "_ts": 1_800_000_000,
    "_lsn": 7,
}
"""What Cosmos DB adds to each document, where the store beneath doesn't."""


@dataclass(frozen=True)
class Answer:
    """What an HTTP function answered; header names in lower case."""

    status: int
    body: Any
    headers: dict[str, str]


class InvocationFailed(Exception):
    """A function raised."""


class WorkerHost:
    """The functions of the app in the worker. `store` is where the app keeps its documents: the host reads the change
    feed of that, and closes it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._feed = store.change_feed()
        self._read: dict[str, str] = {}
        self.functions: dict[str, Message] = {}
        self.invoked: set[str] = set()
        """The functions that have run to their end."""
        self.queue: list[str] = []
        """The messages that functions have sent."""

    async def start(self) -> None:
        """Index and load, as at the start of an instance. Raises RuntimeError with what the worker says."""
        init = request(worker_init_request=Message(capabilities={}, function_app_directory=str(ROOT)))
        _check(await worker.worker_init_request(init))
        answer = await worker.functions_metadata_request(request())
        for function in answer.function_metadata_results or []:
            load = Message(function_id=function.function_id, metadata=function)
            _check(await worker.function_load_request(request(function_load_request=load)))
            self.functions[function.name] = function

    async def close(self) -> None:
        """Let go of the file."""
        await self._store.close()

    async def http(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """Send a request to the function whose route it fits."""
        name, params = self._route(method, path.partition("?")[0])
        content = b"" if body is None else json.dumps(body).encode()
        data = http_data(method, ADDRESS + path, content, params, headers or {})
        http = (await self._invoke(name, data)).http
        text = http.body.bytes if http.body.WhichOneof("data") == "bytes" else http.body.string.encode()
        headers = {name.lower(): value for name, value in http.headers.items()}
        is_json = "json" in headers.get("content-type", "")
        return Answer(int(http.status_code), json.loads(text) if text and is_json else None, headers)

    async def feed(self) -> list[str]:
        """Hand over what has changed in the container since the last time, in batches, until nothing changes.
        Returns the ids of the documents."""
        seen: list[str] = []
        while batch := await self._changes():
            assert all(SYSTEM_FIELDS.keys() <= document.keys() for document in batch)
            seen += [document["id"] for document in batch]
            await self.deliver(json.dumps(batch))
        return seen

    async def deliver(self, batch: str) -> None:
        """Hand over a batch of the feed, as JSON text."""
        await self._invoke("drive_changes", json_data(batch))

    async def sweep(self) -> None:
        """Let the timer fire."""
        status = {"Last": "2027-01-15T08:00:00+00:00", "LastUpdated": "", "Next": "2027-01-15T08:00:10+00:00"}
        timer = {"Schedule": {"AdjustForDST": True}, "ScheduleStatus": status, "IsPastDue": False}
        await self._invoke("sweep", json_data(json.dumps(timer)))

    async def drain_queue(self) -> None:
        """Hand over the messages of the queue, until there is none."""
        while self.queue:
            await self.message(self.queue.pop(0))

    async def message(self, body: str) -> None:
        """Hand over one message."""
        await self._invoke("drive_one", text_data(body))

    def trigger(self, name: str) -> dict[str, Any]:
        """The trigger of a function as the host gets it from the worker."""
        bindings: list[dict[str, Any]] = [json.loads(text) for text in self.functions[name].raw_bindings]  # type: ignore[attr-defined]
        return next(binding for binding in bindings if binding["type"].endswith("Trigger"))

    async def _changes(self) -> list[dict[str, Any]]:
        batch = []
        for lease in await self._feed.leases():
            documents, self._read[lease.range] = await self._feed.read(lease.range, self._read.get(lease.range), 100)
            batch += [SYSTEM_FIELDS | document for document in documents]
        return batch

    async def _invoke(self, name: str, data: Message) -> Any:
        function = self.functions[name]
        answer = await worker.invocation_request(invocation(function.function_id, self.trigger(name)["name"], data))  # type: ignore[attr-defined]
        if not answer.result.status:
            raise InvocationFailed(answer.result.exception.message)
        self.invoked.add(name)
        for output in answer.output_data:
            assert output.name == "hints"
            self.queue += json.loads(output.data.json)
        return answer.return_value

    def _route(self, method: str, path: str) -> tuple[str, dict[str, str]]:
        for name in self.functions:
            trigger = self.trigger(name)
            if trigger["type"] == "httpTrigger" and method in trigger["methods"]:
                pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", trigger["route"])
                if match := re.fullmatch("/" + pattern, path):
                    return name, match.groupdict()
        raise LookupError(f"no function is routed at {method} {path}")


def _check(answer: Message) -> None:
    if not answer.result.status:  # type: ignore[attr-defined]
        raise RuntimeError(answer.result.exception.message)  # type: ignore[attr-defined]
