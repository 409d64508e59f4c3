"""tests/faults/test_wakeups.py, on CosmosStore."""

from tests.faults.test_wakeups import *  # noqa: F403
