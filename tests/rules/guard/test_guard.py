"""The determinism guard names each call that a replay can't repeat, where it stands, and what to use instead."""

import inspect
import logging
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from engine import Runtime
from engine.guard import check
from engine.guard.__main__ import main
from tests.rules.guard import careless, helpers, suspicious

EXPECTED = {
    "datetime.now()": ("datetime.datetime.now", "workflow.now()"),
    "dt.date.today()": ("datetime.date.today", "workflow.now().date()"),
    "time.sleep(1)": ("time.sleep", "asyncio.sleep()"),
    "random.random()": ("random.random", "workflow.random()"),
    "choice([1])": ("random.Random.choice", "workflow.random()"),
    "uuid4()": ("uuid.uuid4", "workflow.uuid4()"),
    "uuid.uuid1()": ("uuid.uuid1", "workflow.uuid4()"),
    'os.environ["HOME"]': ("os.environ", "the payload, or an activity"),
    'getenv("HOME")': ("os.getenv", "the payload, or an activity"),
    'open("file")': ("open", "an activity"),
    'Path("file").read_text()': ("….read_text()", "an activity"),
    "await asyncio.to_thread(print)": ("asyncio.to_thread", "a sync activity, which runs in a thread"),
    "for _ in {1, 2}:": ("iteration over a set", "sorted(), or a list"),
    "[member for member in members]": ("iteration over a set", "sorted(), or a list"),
    "return time.time()": ("time.time", "workflow.now()"),
}

SLIPS = {
    "global TOTAL": ("global TOTAL", "a local variable"),
    'COUNTS["a"] = 1': ("changing COUNTS", "a local variable"),
    'COUNTS["b"] += 1': ("changing COUNTS", "a local variable"),
    'del COUNTS["c"]': ("changing COUNTS", "a local variable"),
    "COUNTS.update(d=1)": ("changing COUNTS", "a local variable"),
    "step()": ("step()", "await"),
    "part()": ("part()", "await"),
    "asyncio.sleep(1)": ("asyncio.sleep()", "await"),
    "asyncio.all_tasks()": ("asyncio.all_tasks", "tasks that you keep yourself"),
    "await asyncio.sleep(timedelta(days=1))": ("asyncio.sleep(timedelta)", "timedelta(days=1).total_seconds()"),
    "await asyncio.wait_for(step(), timeout=2 * HOUR)": ("asyncio.wait_for(timedelta)", "(2 * HOUR).total_seconds()"),
    "aiohttp.ClientSession()": ("aiohttp.ClientSession", "an activity"),
    "ticks()": ("time.monotonic", "workflow.now()"),
    'print("here")': ("print()", "workflow.logger"),
    'log.info("here")': ("logging.log.info", "workflow.logger"),
    "list({1, 2})": ("iteration over a set", "sorted(), or a list"),
    "await asyncio.gather(*{step()})": ("iteration over a set", "sorted(), or a list"),
    '",".join({"a"} | {"b"})': ("iteration over a set", "sorted(), or a list"),
    "{1, 2}.pop()": ("….pop() of a set", "sorted(), or a list"),
    "except:  # noqa: E722": ("except", "except Exception, or raise again"),
    "except BaseException:": ("except BaseException", "except Exception, or raise again"),
}


def _line(module: ModuleType, line: str) -> int:
    return next(n for n, text in enumerate(inspect.getsource(module).splitlines(), 1) if text.strip() == line)


@pytest.mark.parametrize("line", EXPECTED)
def test_each_offence_is_named_with_its_place_and_cure(line: str) -> None:
    """File, line and replacement, also in a plain function that the workflow calls."""
    found = {(f.line, f.what, f.instead) for f in check([suspicious.suspicious])}
    assert (_line(suspicious, line), *EXPECTED[line]) in found


@pytest.mark.parametrize("line", SLIPS)
def test_each_slip_of_a_newcomer_is_named(line: str) -> None:
    """Steps that nobody awaits, what all executions share, sets in disguise, imports inside of the function."""
    found = {(f.line, f.what, f.instead) for f in check([careless.careless])}
    assert (_line(careless, line), *SLIPS[line]) in found


def test_functions_of_other_modules_are_followed() -> None:
    """`module.function()`, in the same app, a method, a function in a container: with its own file and line. A method
    that no code names isn't read."""
    finding, *others = [f for f in check([careless.careless]) if f.file == helpers.__file__]
    assert (finding.line, finding.what) == (_line(helpers, "return time.time()"), "time.time")
    assert [other.what for other in others] == ["time.monotonic", "os.getcwd"]
    assert str(finding).startswith(f"{helpers.__file__}:{finding.line}: workflow careless: time.time reads")


def test_nothing_else_is_named() -> None:
    """Each offence once, and none in code that keeps the rules; activities may do what they like."""
    assert len(check([suspicious.suspicious])) == len(EXPECTED)
    assert check([suspicious.blameless]) == []
    assert len(check([careless.careless])) == len(SLIPS) + 3  # and those in the other module
    assert check([careless.careful]) == []


def test_the_command_ends_with_one_where_it_finds_something() -> None:
    """`python -m engine.guard MODULE` is for CI: the exit code tells, and no warning of Python's is in the way."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "engine.guard", "tests.rules.guard.suspicious"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (1, "")
    assert f"{len(EXPECTED)} findings" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["nowhere"], "no module 'nowhere' here"), (["json"], "module 'json' has no list WORKFLOWS"), ([], "usage:")],
)
def test_the_command_says_what_it_cannot_read(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a sentence, not a traceback."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_a_development_host_is_warned(caplog: pytest.LogCaptureFixture) -> None:
    """At start, with file, line and cure; a deployed app isn't, where nobody would read it."""
    with caplog.at_level(logging.WARNING, "engine"):
        Runtime.from_environment([suspicious.suspicious], {})
        assert not caplog.records
        Runtime.from_environment([suspicious.suspicious], {"AZURE_FUNCTIONS_ENVIRONMENT": "Development"})
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == len(EXPECTED)
    place = f"{suspicious.__file__}:{_line(suspicious, 'uuid4()')}"
    assert f"{place}: workflow suspicious: uuid.uuid4 differs in every replay; use workflow.uuid4()" in warned


def test_the_local_host_warns_as_it_loads_the_app(tmp_path: Path) -> None:
    """In its log, before it serves anything. This app ends right after."""
    (tmp_path / "careless_app.py").write_text(
        "import os\n"
        "from engine import Runtime\n"
        "from tests.rules.guard.careless import WORKFLOWS\n"
        "Runtime.from_environment(WORKFLOWS, os.environ)\n"
        "raise SystemExit\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "devhost", "--app", "careless_app"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{careless.__file__}:{_line(careless, 'step()')}: workflow careless: step() is never awaited" in ran.stderr
