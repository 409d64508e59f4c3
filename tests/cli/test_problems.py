"""What goes wrong is one sentence on standard error, and an exit code: 1 for a problem, 2 for wrong usage."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from engine.cli.api import Address, Api
from engine.cli.commands import app
from engine.cli.output import printable
from engine.cli.problems import Refused
from tests.cli.conftest import Site, run

NOBODY = "f" * 32
KEY = "a-key-that-nobody-sees"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["get", NOBODY], 1, f"durable get: Not found: there is no execution {NOBODY}"),
        (["get", "waits", "--key", "nobody"], 1, "durable get: Not found: there is no execution"),
        (["get", "waits"], 2, "durable get: 'waits' isn't an execution id"),
        (["start", "nothing", "1"], 1, "durable start: Not found: no workflow is named 'nothing'; there are: asks"),
        (["start", "returns", "lamp"], 2, "durable start: the payload isn't JSON"),
        (["start", "returns", "@/nowhere"], 2, "durable start: the payload can't be read"),
        (["start", "returns", "1"], 1, "durable start: The input is not valid"),
        (["list", "wrkflow:a"], 1, "durable list: The filter can't be read: there is no field 'wrkflow'"),
        (["list", "error:x"], 1, "durable list: The request is not valid: no index serves error"),
        (["bulk", "purge", " "], 2, "durable bulk: a filter is needed"),
        (["bulk", "purge", "is:stuck", "--reason", "x"], 2, "durable bulk: only `interrupt` takes a --reason"),
        (
            ["resolve", NOBODY, "page.decision", "1"],
            1,
            "durable resolve: The input is not valid: the value of deferred",
        ),
        (["send", NOBODY, "page/words", "1"], 1, "durable send: Not found: no channel is named 'page/words'"),
        (["replay", "/nowhere"], 2, "durable replay: a recording can't be read"),
        (["replay", "/nowhere", "--module", "nowhere"], 2, "durable replay: there is no module 'nowhere' here"),
        (["export", NOBODY, "--store", "/nowhere"], 2, "durable export: there is no file /nowhere"),
        (["check-deploy", "--store", "/nowhere"], 2, "durable check-deploy: there is no file /nowhere"),
    ],
)
def test_a_request_that_makes_no_sense(site: Site, arguments: list[str], code: int, sentence: str) -> None:
    ran = CliRunner().invoke(app, arguments, env={"ENGINE_URL": site.url, "ENGINE_KEY": site.key})
    assert (ran.exit_code, ran.stdout) == (code, "")
    assert ran.stderr.startswith(sentence)
    assert ran.stderr.count("\n") == 1


def test_problems_are_json_for_a_program(site: Site) -> None:
    """Those of the API as it tells them."""
    ran = site.run("get", NOBODY, "--json")
    assert (ran.code, ran.out, json.loads(ran.err)["status"]) == (1, "", 404)
    ran = run("get", NOBODY, "--json")
    assert (ran.code, json.loads(ran.err)["detail"][:16]) == (2, "no host is named")


def test_no_host_answers() -> None:
    ran = run("list", "--url", "http://127.0.0.1:1", ENGINE_KEY=KEY)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "durable list: no answer from http://127.0.0.1:1/api: Connection refused. Check that the host runs, and "
        "that this is its address\n"
    )


def test_another_address_answers(site: Site) -> None:
    ran = run("list", "--url", f"{site.url}/nothing", ENGINE_KEY=site.key)
    assert (ran.code, ran.err) == (
        1,
        f"durable list: {site.url}/nothing answered 404, but not as the engine's API answers. "
        "Check that this is the host's address\n",
    )


def test_a_key_that_is_wrong_or_missing(site: Site) -> None:
    wrong = run("list", ENGINE_URL=site.url, ENGINE_KEY=KEY)
    assert (wrong.code, wrong.err) == (
        1,
        f"durable list: {site.url} refuses callers without its key: ENGINE_KEY isn't this host's key\n",
    )
    assert run("list", ENGINE_URL=site.url).err.endswith("ENGINE_KEY isn't set\n")


@pytest.mark.parametrize(
    "url",
    ["ftp://h", "h:7071", "http://", "http://u:p@h", "http://h/api?code=k", "http://h/#a", "http://[h", "http://h:0"],
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(Refused, match="address has to look like") as caught:
        Address.of(url, {})
    assert caught.value.code == 2


def test_credentials_are_shown_nowhere() -> None:
    """And what can't stand in a header is refused, without being shown."""
    address = Address.of("http://h/", {"ENGINE_KEY": KEY, "ENGINE_TOKEN": f"t-{KEY}"})
    assert address.url == "http://h/api"
    assert address.credentials == {"x-functions-key": KEY, "Authorization": f"Bearer t-{KEY}"}
    assert KEY not in repr(address)
    with pytest.raises(Refused, match="ENGINE_KEY has to consist of printable") as caught:
        Address.of("http://h", {"ENGINE_KEY": f"{KEY}\nx: y"})
    assert KEY not in str(caught.value)


def test_a_redirect_is_not_followed() -> None:
    """A key goes to the address that was given, and nowhere else."""
    asked = list[str]()

    class Redirecting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = Address.of(f"http://127.0.0.1:{server.server_port}", {"ENGINE_KEY": KEY})
        with Api(address) as api, pytest.raises(Refused, match="answered 302, but not as the engine's API"):
            api.get("health")
        server.shutdown()
    assert asked == ["/api/health"]


def test_nothing_that_is_printed_steers_a_terminal() -> None:
    assert printable("a\x1b[31m\x9b\x07\u202e\ud800\U000e0001\nb é") == (
        "a\\u001b[31m\\u009b\\u0007\\u202e\\ud800\\udb40\\udc01\nb é"
    )
