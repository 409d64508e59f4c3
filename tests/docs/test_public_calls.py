"""P11: the guide tells of every public call."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import testing

GUIDE = (Path(__file__).parents[2] / "docs/guide.md").read_text("utf-8")
BY_AUTHORS = (
    engine.Activity,
    engine.Channel,
    engine.Client,
    engine.Deferred,
    engine.Handle,
    engine.Peer,
    type(engine.activity),
    type(engine.workflow),
    engine.Workflow,
    testing.Environment,
)
"""What authors call. The other names of the public door are data and errors."""


ENGINES_OWN = {
    engine.Activity: {"is_same", "sharing_with", "signature"},
    engine.Client: {"fork_json", "read", "resolve_json", "send_json", "start_json"},
    engine.Workflow: {"arguments", "default_payload", "key_of", "stored_payload", "tags_of"},
}
"""What the engine calls itself."""


def public_calls(kind: type[Any]) -> list[str]:
    """The public methods that a class defines."""
    calls = {name for name, member in vars(kind).items() if not name.startswith("_") and inspect.isroutine(member)}
    return sorted(calls - ENGINES_OWN.get(kind, set()))


@pytest.mark.parametrize(
    ("owner", "call"), [(kind.__name__.strip("_"), call) for kind in BY_AUTHORS for call in public_calls(kind)]
)
def test_the_guide_tells_of_every_public_call(owner: str, call: str) -> None:
    """P11: in prose or in an example that a test runs."""
    assert re.search(rf"\b{call}\(|`([\w.]+\.)?{call}`", GUIDE), f"docs/guide.md doesn't mention {owner}.{call}()"


@pytest.mark.parametrize(
    "words",
    [
        "receive()",
        "one payload or none",
        ".handle(key=",
        "export(runtime.store",
        "### Going on for ever",
    ],
)
def test_what_a_new_user_looked_for_is_there(words: str) -> None:
    """P11."""
    assert words in GUIDE
