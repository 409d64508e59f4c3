"""tests/features/test_children.py, on CosmosStore."""

from tests.features.test_children import *  # noqa: F403
