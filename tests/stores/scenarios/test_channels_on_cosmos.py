"""tests/rules/channels/test_channels.py, on CosmosStore."""

from tests.rules.channels.test_channels import *  # noqa: F403
