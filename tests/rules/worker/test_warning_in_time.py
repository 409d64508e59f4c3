"""P8: the warning of blocking code comes at the documented time. The clock is the test's."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any, cast
from unittest.mock import Mock

import pytest

from engine import Settings
from engine.driving.watchdog import PATIENCE, Blockage, Watchdog

AFTER = Settings.from_environment({}).blocked_after.total_seconds()


class Timed(Watchdog):
    """Looks at a loop that stands still from `begins` for `lasts` seconds. Its waits take the time of the test."""

    def __init__(self, begins: float, lasts: float) -> None:
        super().__init__(timedelta(seconds=AFTER))
        self.now, self._begins, self._ends = 0.0, begins, begins + lasts

    def _goes_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self.now < 10 * AFTER

    def _wait(self, beats: int) -> bool:
        if not self._begins <= self.now < self._ends:
            return True
        answered = self._ends <= self.now + self._part
        self.now = self._ends if answered else self.now + self._part
        return answered

    def _pause(self) -> None:
        self.now += self._part


def warned_after(monkeypatch: pytest.MonkeyPatch, begins: float, lasts: float) -> list[float]:
    """How long the loop had stood still at each warning."""
    watchdog, found = Timed(begins, lasts), list[float]()
    log = Mock(logging.getLogger("engine"))
    log.warning.side_effect = lambda *_, **__: found.append(watchdog.now - begins)
    monkeypatch.setattr("engine.driving.watchdog._log", log)
    monkeypatch.setattr("engine.driving.watchdog.find", lambda *_: Blockage("an activity", {}))
    monkeypatch.setattr("engine.driving.watchdog.time", Mock(monotonic=lambda: watchdog.now))
    watchdog._watch(cast(Any, Mock(is_running=lambda: True)), 0)
    return found


@pytest.mark.parametrize("part", [0, 0.001, 0.25, 0.5, 0.999])
def test_a_warning_comes_within_the_time(monkeypatch: pytest.MonkeyPatch, part: float) -> None:
    """P8: 12 s of blocking are told, and 22 s once; never later than the setting says, and less than a part sooner."""
    pause = AFTER / (PATIENCE + 1)
    for lasts in (AFTER + 0.01, 12, 22):
        (warned,) = warned_after(monkeypatch, 3 * pause + part * pause, lasts)
        assert AFTER - pause - 0.001 <= warned <= AFTER + 0.001
    assert AFTER == 10, "the default that the guide names: a third of the lease"


def test_a_shorter_blockage_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: 8 s under the default of 10 s."""
    assert warned_after(monkeypatch, 5.0, 8.0) == []
