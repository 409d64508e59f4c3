"""tests/rules/starts/test_starts.py, on CosmosStore."""

from tests.rules.starts.test_starts import *  # noqa: F403
