"""A recorded exception comes back as the class that it had, whatever other classes are called."""

from __future__ import annotations

from engine import Failure
from engine.values.error_records import rebuild, record


def declared() -> type[Exception]:
    class Clash(Exception):
        """Declared in `raises=`."""

    Clash.__qualname__ = "Clash"
    Clash.__module__ = "shop"
    return Clash


def failure_of_that_name() -> type[Failure]:
    return type("Clash", (Failure,), {"__module__": "elsewhere", "__annotations__": {"code": str}})


def test_a_declared_exception_goes_before_a_failure_of_its_name() -> None:
    """D4: one that some other module declares."""
    one, _other = declared(), failure_of_that_name()
    rebuilt = rebuild(record(one("gone", 404), (one,)), (one,))
    assert (type(rebuilt), rebuilt.args) == (one, ("gone", 404))


def test_a_failure_that_moved_is_found_by_its_name() -> None:
    """Declared in `raises=` or not."""
    moved = type("MovedClash", (Failure,), {"__module__": "new_place", "__annotations__": {"code": str}})
    saved = record(moved(code="x"), ()).model_copy(update={"module": "old_place"})
    for raises in ((), (moved,)):
        rebuilt = rebuild(saved, raises)
        assert isinstance(rebuilt, moved)
        assert rebuilt.code == "x"  # type: ignore[attr-defined]
