"""What the careless workflows call in another module."""

import time


def reads_the_clock() -> float:
    return time.time()
