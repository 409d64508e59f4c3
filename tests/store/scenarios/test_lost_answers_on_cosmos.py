"""tests/faults/test_lost_answers.py, on CosmosStore."""

from tests.faults.test_lost_answers import *  # noqa: F403
