"""tests/features/test_compensation.py, on CosmosStore."""

from tests.features.test_compensation import *  # noqa: F403
