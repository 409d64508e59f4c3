"""tests/rules/suspension/test_code.py, on CosmosStore."""

from tests.rules.suspension.test_code import *  # noqa: F403
