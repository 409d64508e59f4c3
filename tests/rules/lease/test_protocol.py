"""What an app can't start with."""

from __future__ import annotations

import pytest

from engine import Runtime
from tests.support.crashes import echo


def test_a_runtime_refuses_a_bad_declaration() -> None:
    """M3: the app must not start with a workflow that can't be run."""
    with pytest.raises(TypeError, match="list of workflows takes functions decorated"):
        Runtime([echo], lambda: None)  # type: ignore[list-item, arg-type, return-value]
