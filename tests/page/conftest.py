"""The page in a real browser, over the local host: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Playwright, ViewportSize, sync_playwright

ROOT = Path(__file__).parents[2]
WIDE, NARROW = ViewportSize(width=1280, height=900), ViewportSize(width=390, height=844)


@dataclass(frozen=True)
class Site:
    """A running local host."""

    url: str
    key: str
    data: Path

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None and method != "POST" else json.dumps(body).encode()
        headers = {"x-functions-key": self.key}
        request = urllib.request.Request(f"{self.url}/api/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def start(self, workflow: str, payload: Any) -> str:
        return str(self.call("POST", f"workflows/{workflow}", payload)["executionId"])

    def status(self, id: str) -> Any:
        return self.call("GET", f"executions/{id}")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("page")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ENGINE_", "COSMOS"))}
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "devhost",
            "--app",
            "tests.page.served",
            "--port",
            "0",
            "--data",
            str(folder / "s.sqlite"),
        ],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    assert process.stdout is not None
    url = key = ""
    for line in process.stdout:
        if found := re.search(r"(http://127\.0\.0\.1:\d+)/api/ui", line):
            url = found[1]
        if found := re.search(r"key\s+(\S+)", line):
            key = found[1]
            break
    assert url, (folder / "log").read_text()
    yield Site(url, key, folder / "s.sqlite")
    process.terminate()
    process.communicate(timeout=20)
    log.close()


def _chromium() -> str:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine: install Debian's package chromium, or name one in CHROMIUM")
    return path


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Only while these tests run: as long as it is open, it has an event loop of its own on this thread."""
    _chromium()
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
    yield browser
    browser.close()


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, site: Site) -> Iterator[OpenPage]:
    """Opens the page at an address of it. In the end: no error was in the console, nothing was asked of other hosts."""
    contexts, wrong = [], list[str]()

    def open_page(at: str = "#/", narrow: bool = False, dark: bool = False, key: str | None = site.key) -> Page:
        context = browser.new_context(viewport=NARROW if narrow else WIDE, color_scheme="dark" if dark else "light")
        contexts.append(context)
        if key is not None:
            context.add_init_script(f"sessionStorage.setItem('functions-key', {json.dumps(key)})")
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("request", lambda asked: wrong.append(asked.url) if not asked.url.startswith(site.url) else None)
        page.goto(f"{site.url}/api/ui{at}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    # Chromium reports each answer of 400 and above; the tests provoke those.
    assert [text for text in wrong if "Failed to load resource" not in text] == []
