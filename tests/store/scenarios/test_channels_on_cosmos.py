"""tests/features/test_channels.py, on CosmosStore."""

from tests.features.test_channels import *  # noqa: F403
