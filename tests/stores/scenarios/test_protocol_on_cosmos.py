"""tests/rules/lease/test_protocol.py, on CosmosStore."""

from tests.rules.lease.test_protocol import *  # noqa: F403
