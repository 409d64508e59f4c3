"""tests/features/test_interrupt_terminate.py, on CosmosStore."""

from tests.features.test_interrupt_terminate import *  # noqa: F403
