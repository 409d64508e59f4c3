"""tests/faults/test_fencing.py, on CosmosStore."""

from tests.faults.test_fencing import *  # noqa: F403
