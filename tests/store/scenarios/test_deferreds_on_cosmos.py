"""tests/features/test_deferreds.py, on CosmosStore."""

from tests.features.test_deferreds import *  # noqa: F403
