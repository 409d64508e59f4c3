"""Runs one order through a deployed app, from its start to its receipt: `python infra/smoke.py https://APP/api`.

`FUNCTION_KEY` holds the function key, or `ACCESS_TOKEN` a bearer token if callers sign in. The exit code is 0 if the
order was completed and every item was shipped. The script needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from typing import Any

PATIENCE_SECONDS = 300.0
"""After a first deployment it takes a while until the roles of the identity are in effect."""
PAUSE_SECONDS = 5.0


def main(url: str, caller: dict[str, str], patience: float = PATIENCE_SECONDS, pause: float = PAUSE_SECONDS) -> str:
    """Start an order, approve it, wait for its end. `caller` has the header that lets in. Returns a line to print.
    Raises TimeoutError, AssertionError."""
    order = {
        "id": f"smoke-{uuid.uuid4()}",
        "customer": "smoke test",
        "amount": "1.00",
        "items": [{"sku": "lamp", "quantity": 1}, {"sku": "chair", "quantity": 2}],
    }
    deadline = time.monotonic() + patience
    started = _insist(f"{url}/workflows/fulfil", caller, order, deadline, pause)
    place = f"{url}/executions/{started['executionId']}"
    _insist(f"{place}/deferreds/approval", caller, {"approved": True, "by": "smoke test"}, deadline, pause)
    while (status := _insist(f"{place}?wait=20", caller, None, deadline, pause))["status"] != "complete":
        if time.monotonic() > deadline:
            raise TimeoutError(f"execution {started['executionId']} has not ended after {patience:g} s: {status}")
    assert status["outcome"] == "completed", status
    assert len(status["result"]["parcels"]) == len(order["items"]), status
    return f"order {order['id']} is execution {started['executionId']}: {status['outcome']}"


def _insist(url: str, caller: dict[str, str], body: Any, deadline: float, pause: float) -> dict[str, Any]:
    """The answer to a request. The request is repeated while the app isn't up yet."""
    while True:
        try:
            return _call(url, caller, body)
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            code = error.code if isinstance(error, urllib.error.HTTPError) else 503
            if (code not in (404, 408, 429) and code < 500) or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)


def _call(url: str, caller: dict[str, str], body: Any) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=caller)
    with urllib.request.urlopen(request, timeout=60) as answer:
        parsed: dict[str, Any] = json.load(answer)
        return parsed


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    token = os.environ.get("ACCESS_TOKEN")
    key = {"x-functions-key": os.environ.get("FUNCTION_KEY", "")}
    caller = {"Authorization": f"Bearer {token}"} if token else key
    sys.stdout.write(main(sys.argv[1].rstrip("/"), caller) + "\n")
