"""tests/rules/interrupts/test_races.py, on CosmosStore."""

from tests.rules.interrupts.test_races import *  # noqa: F403
