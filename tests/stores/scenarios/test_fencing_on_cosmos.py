"""tests/rules/lease/test_fencing.py, on CosmosStore."""

from tests.rules.lease.test_fencing import *  # noqa: F403
