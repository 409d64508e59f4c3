"""tests/scenarios/test_code.py, on CosmosStore."""

from tests.scenarios.test_code import *  # noqa: F403
