"""What the careless workflows call in another module."""

import os
import time


def reads_the_clock() -> float:
    return time.time()


class Till:
    """Its methods are reached by their names."""

    def open(self) -> float:
        return time.monotonic()

    def is_never_called(self) -> float:
        return time.perf_counter()


till = Till()
HANDLERS = {"environment": lambda: os.getcwd()}
