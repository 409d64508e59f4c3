"""tests/rules/deferreds/test_deferreds.py, on CosmosStore."""

from tests.rules.deferreds.test_deferreds import *  # noqa: F403
