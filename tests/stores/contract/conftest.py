"""The suites are no test modules themselves: this lets their assertions explain themselves all the same."""

from __future__ import annotations

import pytest

SUITES = ("executions", "signals", "pages")
pytest.register_assert_rewrite(*(f"tests.stores.contract.{suite}" for suite in SUITES))
