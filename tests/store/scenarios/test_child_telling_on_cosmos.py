"""tests/features/test_child_telling.py, on CosmosStore."""

from tests.features.test_child_telling import *  # noqa: F403
