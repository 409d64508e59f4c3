"""Which Python the worker's library is for. Elsewhere its tests are skipped, and this says so."""

from __future__ import annotations

import sys

import pytest

from tests.deploy.worker_library.conftest import LEAST


def test_the_worker_is_tested_on_this_python() -> None:
    if sys.version_info < LEAST:
        pytest.skip("azure-functions-runtime, the real worker's library, is for Python 3.13 and later")
