"""tests/rules/lost_answers/test_lost_answers.py, on CosmosStore."""

from tests.rules.lost_answers.test_lost_answers import *  # noqa: F403
