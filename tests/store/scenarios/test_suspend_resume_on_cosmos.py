"""tests/features/test_suspend_resume.py, on CosmosStore."""

from tests.features.test_suspend_resume import *  # noqa: F403
