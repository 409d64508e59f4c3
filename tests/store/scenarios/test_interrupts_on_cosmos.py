"""tests/faults/test_interrupts.py, on CosmosStore."""

from tests.faults.test_interrupts import *  # noqa: F403
