"""tests/rules/wake_ups/test_wake_ups.py, on CosmosStore."""

from tests.rules.wake_ups.test_wake_ups import *  # noqa: F403
