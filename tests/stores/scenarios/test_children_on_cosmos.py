"""tests/rules/children/test_children.py, on CosmosStore."""

from tests.rules.children.test_children import *  # noqa: F403
