"""What comes back of an exception: its own class under a declared base, its text, its notes, the parts of a group."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from email.message import Message
from io import BytesIO
from typing import Any
from urllib.error import HTTPError

import pytest

from engine import ActivityError, ActivityErrorGroup, Failure, Retry, activity, workflow
from engine.testing import Environment
from engine.values.error_records import MAX_ERRORS, examinable, rebuild, record


class ApiError(Exception):
    pass


class NotFound(ApiError):
    pass


class Priced(ApiError):
    def __init__(self, price: Decimal, currency: str) -> None:
        super().__init__(price, currency)
        self.price, self.currency = price, currency

    def __str__(self) -> str:
        return f"{self.price + 1} {self.currency}"


class Slotted(ApiError):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code

    def __str__(self) -> str:
        return f"code {self.code}"


class Declined(Failure):
    code: str


def back(error: BaseException, *raises: type[BaseException]) -> BaseException:
    return rebuild(record(error, raises), raises)


def test_a_subclass_of_a_declared_class_comes_back_as_itself() -> None:
    """N2."""
    error = back(NotFound("gone", 404), ApiError)
    assert (type(error), error.args) == (NotFound, ("gone", 404))


def test_a_subclass_that_is_gone_comes_back_as_the_declared_class() -> None:
    """N2: and never suspends the execution."""
    saved = record(NotFound("gone"), (ApiError,)).model_copy(update={"type": "Renamed"})
    error = rebuild(saved, (ApiError,))
    assert (type(error), str(error)) == (ApiError, "gone")
    assert isinstance(rebuild(saved, ()), ActivityError)


def test_what_cannot_be_kept_is_named_and_the_text_stays() -> None:
    """N6: a Decimal in `args`, an attribute that isn't JSON, a text that needs both."""
    error = back(Priced(Decimal("1.5"), "EUR"), ApiError)
    assert isinstance(error, Priced)
    assert str(error) == "2.5 EUR"
    assert error.currency == "EUR"
    assert "argument 0 (Decimal) was not kept" in error.__notes__
    assert "attribute price (Decimal) was not kept" in error.__notes__


def test_slots_and_notes_are_kept() -> None:
    """N6."""
    given = Slotted(7)
    given.add_note("after the third page")
    error = back(given, Slotted)
    assert isinstance(error, Slotted)
    assert (error.code, str(error), error.__notes__) == (7, "code 7", ["after the third page"])


class Coded(ApiError):
    def __init__(self, message: str, *codes: int) -> None:
        super().__init__(message)
        self.codes = codes


def test_tuples_and_what_built_in_classes_keep_come_back() -> None:
    """N6: `filename` of an OSError and `name` of an ImportError are in neither `args` nor the attributes."""
    assert vars(back(Coded("x", 1, 2), ApiError)) == {"codes": (1, 2)}
    missing = back(FileNotFoundError(2, "no such file", "/a", None, "/b"), OSError)
    assert isinstance(missing, FileNotFoundError)
    assert (missing.errno, missing.filename, missing.filename2) == (2, "/a", "/b")
    module = back(ModuleNotFoundError("no shop", name="shop"), ImportError)
    assert isinstance(module, ImportError)
    assert module.name == "shop"


class Sealed(ApiError):
    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("it is sealed")


def test_a_class_whose_own_methods_need_what_was_not_kept_stays_readable() -> None:
    """N6: without its body, its `__getattr__` raises a KeyError. The execution goes on."""
    error = back(HTTPError("http://x", 404, "gone", Message(), BytesIO(b"")), OSError)
    assert isinstance(error, HTTPError)
    assert (str(error), error.code, hasattr(error, "fp")) == ("HTTP Error 404: gone", 404, False)
    assert "attribute fp (BytesIO) was not kept" in error.__notes__
    sealed = Sealed("x")
    BaseException.__setattr__(sealed, "__cause__", ApiError("y"))
    cause = back(sealed, ApiError).__cause__
    assert (type(cause), str(cause)) == (ApiError, "y")


def test_a_group_comes_back_with_typed_parts() -> None:
    """N7: nested too, and with the causes of its parts."""
    inner = ValueError("bad")
    inner.__cause__ = KeyError("why")
    error = back(ExceptionGroup("all", [Declined(code="x"), ExceptionGroup("some", [inner])]))
    assert isinstance(error, ActivityErrorGroup)
    declined, rest = error.split(Declined)
    assert declined is not None
    assert declined.exceptions == (Declined(code="x"),)
    assert isinstance(rest, ActivityErrorGroup)
    (some,) = rest.exceptions
    assert isinstance(some, ActivityErrorGroup)
    assert str(some.exceptions[0].__cause__) == "KeyError: 'why'"


def test_a_tree_of_errors_is_bounded() -> None:
    """N7: what is left out is counted."""
    saved = record(ExceptionGroup("many", [ValueError(str(n)) for n in range(5_000)]))
    assert len(saved.exceptions) == MAX_ERRORS - 1
    assert saved.notes == ("4901 more were not kept",)


def test_a_retry_looks_into_a_group() -> None:
    """N7: one part that must not be repeated is enough."""
    retry = Retry(max_attempts=3, non_retryable=(LookupError,))
    assert retry.allows(ExceptionGroup("x", [ValueError(), OSError()]), 1)
    assert not retry.allows(ExceptionGroup("x", [ValueError(), ExceptionGroup("y", [KeyError()])]), 1)
    assert not retry.allows(ExceptionGroup("x", [Declined(code="x")]), 1)


def test_one_class_alone_is_told_how_to_be_given() -> None:
    """O7."""
    with pytest.raises(TypeError, match=r"non_retryable=\(ValueError,\)"):
        Retry(non_retryable=ValueError)  # type: ignore[arg-type]


class Lying(Exception):
    """Its class raises when it is asked for."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise ValueError("no")


HOW: dict[str, type[BaseException]] = {"exit": GeneratorExit, "lie": Lying, "cancel": asyncio.CancelledError}


def leaves_by(how: str) -> None:
    raise HOW[how]()


async def leaves_soon_by(how: str) -> None:
    leaves_by(how)


@activity
def in_a_thread(how: str) -> None:
    leaves_by(how)


@activity
async def from_a_thread(how: str) -> None:
    await asyncio.to_thread(leaves_by, how)


@activity
async def in_a_task(how: str) -> None:
    await asyncio.gather(leaves_soon_by(how))


@activity
async def by_itself(how: str) -> None:
    await leaves_soon_by(how)


WAYS: dict[str, Any] = {one.name: one for one in (in_a_thread, from_a_thread, in_a_task, by_itself)}


@workflow
async def calls(way: list[str]) -> str:
    try:
        await WAYS[way[0]](way[1])
    except ActivityError as error:
        return error.type_name
    return ""


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("way", WAYS)
async def test_every_way_out_of_an_attempt_is_a_failed_attempt(way: str, how: str) -> None:
    """O1: also a GeneratorExit, which passes through `except` on its way, and a class that can't be examined."""
    async with Environment([calls]) as env:
        assert (await env.run(calls, [way, how])).value() == HOW[how].__name__


def test_what_can_be_examined_is_left_as_it_is() -> None:
    error = ValueError()
    assert examinable(error) is error
    assert type(examinable(Lying())) is ActivityError


@activity(retry=Retry(max_attempts=3))
async def fails_in_parts() -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_decline())
        tasks.create_task(_miss())


async def _decline() -> None:
    raise Declined(code="limit")


async def _miss() -> None:
    raise KeyError("page")


@workflow
async def splits() -> list[str]:
    found: list[str] = []
    try:
        await fails_in_parts()
    except* Declined as group:
        found += map(str, group.exceptions)
    except* ActivityError as group:
        found += map(str, group.exceptions)
    return found


async def test_a_workflow_takes_a_group_apart() -> None:
    """N7: after one attempt, since a Failure is an answer."""
    async with Environment([splits]) as env:
        assert (await env.run(splits)).value() == ["code='limit'", "KeyError: 'page'"]
