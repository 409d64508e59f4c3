"""tests/faults/test_starts.py, on CosmosStore."""

from tests.faults.test_starts import *  # noqa: F403
