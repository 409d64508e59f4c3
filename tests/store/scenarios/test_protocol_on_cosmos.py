"""tests/scenarios/test_protocol.py, on CosmosStore."""

from tests.scenarios.test_protocol import *  # noqa: F403
