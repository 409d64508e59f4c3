"""tests/scenarios/test_primitives.py, on CosmosStore."""

from tests.scenarios.test_primitives import *  # noqa: F403
