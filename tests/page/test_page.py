"""The page, as a person uses it: each action, both widths, light and dark, without violations of accessibility."""

from __future__ import annotations

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, expect

from engine import Runtime, workflow
from tests.page.conftest import OpenPage, Site

MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
expect.set_options(timeout=20_000)  # the machine may be busy with other tests
SERVED = Path(__file__).with_name("served.py")


def line(mark: str) -> int:
    lines = SERVED.read_text("utf-8").splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"# LINE {mark}"))


def reach(site: Site, id: str, what: Any) -> Any:
    """The status, once `what` holds of it. The local host drives in the background: this is what is waited for."""
    for _ in range(200):
        status = site.status(id)
        if what(status):
            return status
        time.sleep(0.05)
    raise AssertionError(status)


def is_waiting(status: Any) -> bool:
    return bool(status["suspended"])


def ended(status: Any) -> bool:
    return bool(status["status"] == "complete")


def said(page: Page) -> Any:
    return page.locator(".said")


# -- the key --


def test_the_page_asks_for_a_key_and_keeps_it_in_its_tab(open_page: OpenPage, site: Site) -> None:
    """A wrong key is refused. The right one stands in no address and in nothing that outlives the tab."""
    page = open_page("#/list", key=None)
    dialog = page.get_by_role("dialog", name="A key of the app")
    dialog.get_by_label("Key").fill("wrong")
    dialog.get_by_role("button", name="Use this key").click()
    expect(dialog.get_by_role("alert")).to_contain_text("refused")
    dialog.get_by_label("Key").fill(site.key)
    dialog.get_by_role("button", name="Use this key").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("navigation", name="By state")).to_contain_text(re.compile(r"Running \d"))
    assert site.key not in page.url
    assert site.key not in page.evaluate("JSON.stringify(localStorage) + document.cookie")


# -- why it isn't moving --


def test_the_first_thing_is_what_it_waits_for(open_page: OpenPage, site: Site) -> None:
    """With the line of the source, since when, and the error of the last attempt."""
    id = site.start("waits", "a")
    reach(site, id, is_waiting)
    page = open_page(f"#/executions/{id}")
    waiting = page.get_by_role("region", name="What it waits for")
    expect(waiting.get_by_role("listitem").filter(has_text="page.decision").first).to_contain_text(
        f"tests/page/served.py:{line('decision')} in waits"
    )
    expect(waiting).to_contain_text("fires in 23 h")
    first = page.locator("main section").first
    expect(first).to_have_attribute("aria-label", "What it waits for")
    other = site.start("retries", "printer")
    reach(site, other, is_waiting)
    page.goto(page.url.split("#")[0] + f"#/executions/{other}")
    expect(waiting).to_contain_text("attempt 2, next try in")
    expect(waiting).to_contain_text("ConnectionError: no answer from printer")


def test_what_the_code_shows_of_itself_is_shown(open_page: OpenPage, site: Site) -> None:
    id = site.start("waits", "a pear")
    reach(site, id, is_waiting)
    page = open_page(f"#/executions/{id}")
    shown = page.get_by_role("region", name="Custom status")
    expect(shown).to_contain_text('"waits with": "a pear"')
    expect(shown).to_contain_text("12345678901234567890")
    page.get_by_role("link", name="place=<i>here</i>").click()
    first = page.get_by_role("list", name="Executions").get_by_role("listitem").first
    expect(first).to_contain_text('"waits with": "a pear"')
    expect(first).to_contain_text("place=<i>here</i>")
    check(page, "custom status in the list")


def test_home_groups_what_needs_a_person_by_its_cause(open_page: OpenPage, site: Site) -> None:
    ids = [site.start("stuck", n) for n in "ab"]
    for id in ids:
        reach(site, id, is_waiting)
    page = open_page("#/")
    group = page.get_by_role("region", name="Needs a person").get_by_role("link", name="stuck: Stuck")
    expect(group).to_contain_text("only an interrupt reaches it")
    group.click()
    expect(page.get_by_role("list", name="Executions").get_by_role("listitem").first).to_contain_text("Needs you")
    for id in ids:
        site.call("POST", f"executions/{id}/terminate")


def test_what_the_code_left_behind_is_shown(open_page: OpenPage, site: Site) -> None:
    id = site.start("untidy", MARKUP)
    reach(site, id, is_waiting)
    site.call("POST", f"executions/{id}/channels/page.words", "unread")
    site.call("POST", f"executions/{id}/deferreds/page.decision", {"approved": True, "by": "Grace"})
    reach(site, id, ended)
    page = open_page(f"#/executions/{id}")
    left = page.get_by_role("region", name="Left behind")
    expect(left.get_by_role("listitem")).to_have_count(3)
    expect(left).to_contain_text(f"nobody looks at {MARKUP}")
    expect(page.get_by_text("One value of a channel had arrived and was never received.")).to_be_visible()
    check(page, "left behind")


def test_what_no_app_drives_says_what_the_app_lacks(open_page: OpenPage, site: Site) -> None:
    """On its own page, and in the list of a narrow window."""
    with ThreadPoolExecutor() as pool:  # the thread of the test has Playwright's event loop
        id = pool.submit(asyncio.run, start_elsewhere(site)).result()
    page = open_page(f"#/executions/{id}")
    lacks = "this deployment lacks workflow 'elsewhere' version '1'"
    expect(page.get_by_role("region", name="Why it is left alone")).to_contain_text(lacks)
    expect(page.get_by_role("heading", name="elsewhere")).to_contain_text("Left alone")
    check(page, "left alone")
    page = open_page("#/list?q=workflow:elsewhere", narrow=True)
    expect(page.get_by_role("list", name="Executions").get_by_role("listitem")).to_contain_text("Left alone")
    check(page, "left alone, listed")
    site.call("POST", f"executions/{id}/terminate")


async def start_elsewhere(site: Site) -> str:
    """Start an execution of another app on the same store."""

    @workflow
    async def elsewhere(text: str) -> str:
        return text

    runtime = Runtime.from_environment([elsewhere], {"ENGINE_SQLITE_FILE": str(site.data)})
    handle = await runtime.client.start(elsewhere, "a")
    await runtime.close()
    return handle.execution_id


# -- actions --


def test_a_deferred_is_resolved_by_a_form_of_its_schema(open_page: OpenPage, site: Site) -> None:
    """Bad input comes back with its field; long numbers keep every digit; a channel gets a value."""
    id = site.start("waits", "a")
    reach(site, id, is_waiting)
    page = open_page(f"#/executions/{id}")
    page.get_by_role("button", name="Send…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("page.words").fill(MARKUP)
    dialog.get_by_role("button", name="Send").click()
    expect(said(page)).to_contain_text("got a value")
    page.get_by_role("button", name="Resolve…").click()
    dialog.get_by_label("approved").check()
    dialog.get_by_label("by", exact=True).fill("G")
    dialog.get_by_label("amount").fill("12345678901234567890")
    dialog.get_by_label("level").select_option(label="high")
    dialog.get_by_role("button", name="Resolve").click()
    expect(dialog.get_by_role("listitem")).to_contain_text("by: String should have at least 2 characters")
    dialog.get_by_label("by", exact=True).fill('Grace "G" <b>')
    dialog.get_by_role("button", name="Resolve").click()
    expect(said(page)).to_contain_text("was resolved")
    status = reach(site, id, ended)
    assert status["result"] == 'Grace "G" <b> 12345678901234567890 high None'
    expect(page.get_by_role("heading", name="waits")).to_contain_text("Completed")


@pytest.mark.parametrize(
    ("action", "outcome"), [("Interrupt", "interrupted"), ("Terminate", "terminated"), ("Resume", None)]
)
def test_each_action_asks_and_says_what_it_did(
    open_page: OpenPage, site: Site, action: str, outcome: str | None
) -> None:
    """Cancelling changes nothing. Afterwards the page shows the new state without loading again."""
    id = site.start("asks", "a")
    reach(site, id, is_waiting)
    page = open_page(f"#/executions/{id}")
    before = site.status(id)["updatedAt"]
    page.get_by_role("button", name=action, exact=True).click()
    dialog = page.get_by_role("dialog", name=f"{action} asks {id[:8]}?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert site.status(id)["updatedAt"] == before
    page.get_by_role("button", name=action, exact=True).click()
    if action == "Interrupt":
        dialog.get_by_label("Reason").fill("the customer called")
    dialog.get_by_role("button", name=action).click()
    expect(said(page)).to_contain_text(f"asks {id[:8]}")
    if outcome is None:
        assert reach(site, id, lambda status: status["updatedAt"] != before)["status"] == "running"
    else:
        assert reach(site, id, ended)["outcome"] == outcome
        if action == "Interrupt":
            expect(page.get_by_role("note", name="Interrupt")).to_contain_text("the customer called")
        expect(page.get_by_role("heading", name="asks")).to_contain_text(outcome.capitalize())


def test_a_failed_execution_is_retried(open_page: OpenPage, site: Site) -> None:
    """One from its own page, many from the list."""
    ids = [site.start("flaky", name) for name in ("one", "two", "three")]
    for id in ids:
        assert reach(site, id, ended)["outcome"] == "failed"
    page = open_page(f"#/executions/{ids[0]}")
    page.get_by_role("button", name="Retry").click()
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    expect(said(page)).to_contain_text("was opened again")
    expect(page.get_by_role("heading", name="flaky")).to_contain_text("Completed")
    page = open_page(f"#/list?q=id:{','.join(ids)}")
    page.get_by_label("All 3 shown").check()
    page.get_by_role("button", name="Retry").click()
    page.get_by_role("dialog", name="Retry 2 executions?").get_by_role("button", name="Retry").click()
    expect(said(page)).to_contain_text("2 of 2 done")
    assert [reach(site, id, ended).get("result") for id in ids] == ["one", "two", "three"]


def test_an_execution_is_forked_from_a_step(open_page: OpenPage, site: Site) -> None:
    """With another payload. The page then shows the fork, and where it comes from."""
    id = site.start("forkable", "sugar")
    assert reach(site, id, ended)["result"] == "8 sugar"
    page = open_page(f"#/executions/{id}")
    page.get_by_role("button", name="Event 2:").click()
    page.get_by_role("button", name="Fork from here…").click()
    dialog = page.get_by_role("dialog", name="Fork forkable")
    expect(dialog.get_by_label("From step")).to_have_value("double#2")
    expect(dialog.get_by_label("Payload")).to_have_value('"sugar"')
    check(page, "fork")
    dialog.get_by_label("Payload").fill('"milk')
    dialog.get_by_role("button", name="Fork").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("Payload").fill('"milk"')
    dialog.get_by_label("Reason").fill("<b>no</b> sugar")
    dialog.get_by_role("button", name="Fork").click()
    expect(said(page)).to_contain_text(f"{id[:8]} was forked from double#2")
    expect(page.get_by_text("forked from").first).to_contain_text(f"{id[:8]} at double#2: <b>no</b> sugar")
    expect(page.get_by_role("group", name="Result")).to_contain_text("8 milk")
    assert reach(site, id, ended)["result"] == "8 sugar"


def test_what_has_ended_is_purged(open_page: OpenPage, site: Site) -> None:
    id = site.start("returns", "a")
    reach(site, id, ended)
    page = open_page(f"#/executions/{id}")
    page.get_by_role("button", name="Purge").click()
    page.get_by_role("dialog").get_by_role("button", name="Purge").click()
    expect(page.get_by_role("heading", name="Purged")).to_be_visible()
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("there is no execution")


def test_many_at_once(open_page: OpenPage, site: Site) -> None:
    """The number first, then the progress, then what was refused."""
    ids = [site.start("asks", f"many {n}") for n in range(6)]
    done = site.start("returns", "many")
    for id in ids:
        reach(site, id, is_waiting)
    reach(site, done, ended)
    page = open_page(f"#/list?q=id:{','.join([*ids, done])}")
    expect(page.get_by_text("All 7 shown")).to_be_visible()
    page.get_by_label("All 7 shown").check()
    page.get_by_role("button", name="Terminate").click()
    dialog = page.get_by_role("dialog", name="Terminate 6 executions?")
    expect(dialog).to_contain_text("1 of the 7 chosen can't be asked that")
    dialog.get_by_role("button", name="Terminate").click()
    expect(said(page)).to_contain_text("6 of 6 done")
    expect(dialog.get_by_label("6 of 6")).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    assert {site.status(id)["outcome"] for id in ids} == {"terminated"}


# -- the list --


def test_a_filter_stands_in_the_address_and_shows_where_it_goes_wrong(open_page: OpenPage, site: Site) -> None:
    id = site.start("asks", "filtered")
    reach(site, id, is_waiting)
    page = open_page("#/list")
    page.keyboard.press("/")
    page.keyboard.type(f"workflow:asks id:{id}")
    page.keyboard.press("Enter")
    rows = page.get_by_role("list", name="Executions").get_by_role("listitem")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name=re.compile("^Running")).click()
    expect(page.get_by_label("Filter", exact=True)).to_have_value(f"workflow:asks id:{id} status:running")
    page.reload()
    expect(rows).to_have_count(1)
    expect(page.get_by_label("Filter", exact=True)).to_have_value(f"workflow:asks id:{id} status:running")
    rows.first.get_by_role("link").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="asks")).to_be_visible()
    page.go_back()
    page.get_by_label("Filter", exact=True).fill("status:running colour:red")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("no field 'colour'")
    assert page.locator(".where").inner_text().split("\n")[1].index("▲") == len("status:running ")


# -- values are text --


@pytest.mark.parametrize("workflow", ["returns", "fails", "waits", "retries"])
def test_markup_in_values_stays_text(open_page: OpenPage, site: Site, workflow: str) -> None:
    """In payloads, results, errors, tags and the names of steps: shown as it is, run never."""
    id = site.start(workflow, MARKUP)
    reach(site, id, lambda status: is_waiting(status) or ended(status))
    for at in (f"#/executions/{id}", f"#/list?q=workflow:{workflow}", f"#/list?q={MARKUP}"):
        page = open_page(at)
        page.wait_for_load_state("networkidle")
        expect(page.locator("main")).to_contain_text("onerror" if MARKUP in at or "list" not in at else workflow)
        assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
        assert "owned" not in page.title().replace(MARKUP, "")


def test_a_number_keeps_every_digit(open_page: OpenPage, site: Site) -> None:
    id = site.start("returns", "a")
    reach(site, id, ended)
    page = open_page(f"#/executions/{id}")
    expect(page.get_by_role("region", name="Result", exact=True).first).to_contain_text("12345678901234567890")


def test_an_error_shows_its_causes(open_page: OpenPage, site: Site) -> None:
    id = site.start("fails", "visa")
    reach(site, id, ended)
    page = open_page(f"#/executions/{id}")
    error = page.get_by_role("region", name="Error")
    expect(error).to_contain_text("Declined: declined: visa")
    expect(error.get_by_text("first visa")).to_be_visible()
    error.get_by_text("Caused by").click()
    expect(error.get_by_text("first visa")).to_be_hidden()


# -- size --


def test_five_thousand_events_stay_fluid(open_page: OpenPage, site: Site) -> None:
    """A few rows are in the document at a time, wherever one scrolls to."""
    id = site.start("many", 5_000)
    reach(site, id, ended)
    page = open_page(f"#/executions/{id}")
    events = page.get_by_role("list", name="Events")
    events.wait_for(timeout=60_000)  # the machine may be busy with other tests
    assert events.get_by_role("listitem").count() < 60
    events.evaluate("element => { element.scrollTop = element.scrollHeight; }")
    expect(events.get_by_role("listitem").last).to_contain_text("Ended as completed")
    assert page.evaluate("document.querySelectorAll('*').length") < 2_500
    events.get_by_role("button", name="Event 5000:").click()
    expect(page.get_by_role("dialog")).to_contain_text("tests/page/served.py")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


# -- accessibility --


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
def test_no_violation_of_accessibility(open_page: OpenPage, site: Site, narrow: bool, dark: bool) -> None:
    """Each view and its dialogs, by axe-core. Nothing is wider than the window."""
    waiting, failed, held = site.start("waits", "axe"), site.start("fails", "axe"), site.start("stuck", "axe")
    for id in (waiting, failed, held):
        reach(site, id, lambda status: is_waiting(status) or ended(status))
    views = ["#/", "#/list", "#/list?q=colour:red", *(f"#/executions/{id}" for id in (waiting, failed, held))]
    for at in views:
        page = open_page(at, narrow=narrow, dark=dark)
        page.wait_for_load_state("networkidle")
        check(page, at)
        buttons = {waiting: "Resolve…", failed: "Purge", held: "Interrupt"}
        for id, name in buttons.items():
            if id in at:
                page.get_by_role("button", name=name, exact=True).click()
                check(page, f"{at} {name}")
    site.call("POST", f"executions/{held}/terminate")


def check(page: Page, at: str) -> None:
    page.evaluate("document.getAnimations().forEach(one => one.finish())")
    found = Axe().run(page)
    assert found.violations_count == 0, f"{at}: {found.generate_report()}"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{at} is wider than the window"
