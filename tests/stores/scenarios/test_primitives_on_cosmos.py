"""tests/rules/loop/test_primitives.py, on CosmosStore."""

from tests.rules.loop.test_primitives import *  # noqa: F403
