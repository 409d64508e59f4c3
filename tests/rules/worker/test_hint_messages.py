"""Messages of the queue: small, versioned and checked. What can't be read is logged and dropped."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from engine.boundary.hints import MAX_BYTES, from_message, to_message
from engine.driving.hand_overs import Hint

ID = "0123456789abcdef" * 2


@pytest.mark.parametrize("hint", [Hint(ID), Hint(ID, datetime(2026, 1, 1, tzinfo=UTC))])
def test_a_hint_comes_back_from_its_message(hint: Hint) -> None:
    assert from_message(to_message(hint).encode()) == hint
    assert len(to_message(hint)) < 100


def test_the_text_of_a_message_stays() -> None:
    """Messages of one version are read by the next: both run during a deployment."""
    assert to_message(Hint(ID)) == f'{{"v":1,"id":"{ID}"}}'
    assert from_message(f'{{"v": 1, "id": "{ID}", "more": [1]}}'.encode()) == Hint(ID)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "the text: Invalid JSON"),
        (b"\xff\xfe", "the text: Invalid JSON"),
        (b"[]", "the text: Input should be an object"),
        (b'{"v": 1}', "id: Field required"),
        (f'{{"v": 2, "id": "{ID}"}}'.encode(), "v: Input should be 1"),
        (f'{{"v": 1, "id": "{ID.upper()}"}}'.encode(), "id: String should match"),
        (f'{{"v": 1, "id": "{ID}\\n"}}'.encode(), "id: String should match"),
        (f'{{"v": 1, "id": "{ID}", "at": "soon"}}'.encode(), "at: "),
        (b'{"v": 1, "id": "../' + b"x" * MAX_BYTES + b'"}', "it has 1,0"),
    ],
)
def test_what_is_no_hint_is_logged_and_dropped(body: bytes, problem: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "engine"):
        assert from_message(body) is None
    (record,) = caplog.records
    assert problem in record.getMessage()
    assert len(record.getMessage()) < 300
