"""tests/rules/interrupts/test_interrupt_terminate.py, on CosmosStore."""

from tests.rules.interrupts.test_interrupt_terminate import *  # noqa: F403
