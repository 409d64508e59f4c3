"""tests/rules/lease/test_races.py, on CosmosStore."""

from tests.rules.lease.test_races import *  # noqa: F403
