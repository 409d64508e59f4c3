"""The suites are no test modules themselves: this lets their assertions explain themselves all the same."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.conformance.contract", "tests.conformance.signals", "tests.conformance.pages")
