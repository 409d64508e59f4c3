"""The clock of the double: `_ts`, time to live and reads "since" take their time from it alone."""

import time


class Clock:
    """Wall time that a test can move and stop."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._frozen: float | None = None

    def now(self) -> float:
        """Seconds since the epoch, as the double sees it."""
        return self._frozen if self._frozen is not None else time.time() + self._offset

    def advance(self, seconds: float) -> None:
        """Move forward; a stopped clock stays stopped, at the later time."""
        if self._frozen is not None:
            self._frozen += seconds
        else:
            self._offset += seconds

    def freeze(self, at: float | None = None) -> None:
        """Stop at `at`, or where it is now."""
        self._frozen = self.now() if at is None else at
