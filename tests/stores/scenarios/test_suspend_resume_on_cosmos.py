"""tests/rules/suspension/test_suspend_resume.py, on CosmosStore."""

from tests.rules.suspension.test_suspend_resume import *  # noqa: F403
