"""tests/faults/test_races.py, on CosmosStore."""

from tests.faults.test_races import *  # noqa: F403
