"""tests/rules/compensation/test_compensation.py, on CosmosStore."""

from tests.rules.compensation.test_compensation import *  # noqa: F403
