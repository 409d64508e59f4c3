"""tests/rules/children/test_child_telling.py, on CosmosStore."""

from tests.rules.children.test_child_telling import *  # noqa: F403
