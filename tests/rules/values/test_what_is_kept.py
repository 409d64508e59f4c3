"""The law of values: what a value shows to whoever looks at it comes back, or the value is refused by name.

The same values go through every place: a payload, an argument, a result, a deferred, a channel, and a Failure.
"""

from __future__ import annotations

import collections
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    FilePath,
    FutureDatetime,
    PrivateAttr,
    SecretStr,
    computed_field,
    model_validator,
)

from engine import EncodingError, Failure
from engine.ground.errors import DecodingError
from engine.values.codec import Codec
from engine.values.error_records import rebuild, record
from engine.values.unseen import first_line

BERLIN = ZoneInfo("Europe/Berlin")


class Patch(BaseModel):
    name: str | None = None
    age: int | None = None


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)

    patch: Patch = Patch()
    at: datetime | None = None


@dataclass
class Page:
    patches: tuple[Patch, ...]
    by_name: dict[str, Patch]


class Image(BaseModel):
    model_config = ConfigDict(extra="forbid")

    raw: bytes

    @computed_field  # type: ignore[prop-decorator]
    @property
    def size(self) -> int:
        return len(self.raw)


class Counter(BaseModel):
    _count: int = PrivateAttr(0)

    def bump(self) -> Counter:
        self._count += 1
        return self


class Animal(BaseModel):
    name: str


class Dog(Animal):
    bark: str


class Carries(Failure):
    patch: Patch
    rows: list[int]


class Told(Failure):
    by: Animal


class Loose(Failure):
    what: Any


class Secret(Failure):
    key: SecretStr


def unset(value: Any) -> Any:
    """Which fields were given, at every depth."""
    if isinstance(value, BaseModel):
        return {name: unset(getattr(value, name)) for name in sorted(value.model_fields_set)}
    if isinstance(value, Page):
        return [unset(value.patches), unset(value.by_name)]
    if isinstance(value, dict):
        return {key: unset(part) for key, part in value.items()}
    return [unset(part) for part in value] if isinstance(value, list | tuple) else None


patches = st.builds(
    lambda given: Patch(**given),
    st.fixed_dictionaries({}, optional={"name": st.none() | st.text(max_size=3), "age": st.none() | st.integers()}),
)
moments = st.datetimes(
    datetime(1990, 1, 1),
    datetime(2090, 1, 1),
    timezones=st.sampled_from([UTC, BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Asia/Kathmandu")]),
    allow_imaginary=False,  # an hour that a clock leaves out is refused
)
frozen = st.builds(
    lambda given: Frozen(**given), st.fixed_dictionaries({}, optional={"patch": patches, "at": st.none() | moments})
)
pages = st.builds(Page, st.lists(patches, max_size=3).map(tuple), st.dictionaries(st.text(max_size=3), patches))


@settings(deadline=None)
@given(st.one_of(patches.map(lambda v: (Patch, v)), frozen.map(lambda v: (Frozen, v)), pages.map(lambda v: (Page, v))))
def test_which_fields_were_given_survives_at_every_depth(typed: tuple[Any, Any]) -> None:
    """N4: in models, frozen models, dataclasses, tuples and mappings."""
    kind, value = typed
    text, live = Codec(kind, "it").round_trip(value)
    for back in (live, Codec(kind, "it").decode(text)):
        assert back == value
        assert unset(back) == unset(value)


@settings(deadline=None)
@given(moments)
def test_a_named_zone_survives(moment: datetime) -> None:
    """N10: a day later by the wall clock is a day later, over a change of the clocks too."""
    back = Codec(datetime, "it").decode(Codec(datetime, "it").encode(moment))
    assert (back, back.utcoffset()) == (moment, moment.utcoffset())
    for days in (1, 180):
        later, expected = back + timedelta(days=days), moment + timedelta(days=days)
        assert later.isoformat() == expected.isoformat()


def test_a_zone_without_a_name_is_refused() -> None:
    """N10: its rule would be lost."""

    class Own(tzinfo):
        def utcoffset(self, moment: datetime | None) -> timedelta:
            return timedelta(hours=1 if moment is None or moment.month < 6 else 2)

        def dst(self, moment: datetime | None) -> timedelta:
            return timedelta(0)

    with pytest.raises(EncodingError, match="doesn't survive"):
        Codec(datetime, "it").encode(datetime(2026, 3, 1, tzinfo=Own()))  # type: ignore[abstract]


def test_what_json_says_stands_in_the_first_line() -> None:
    """Whoever wants plain JSON reads the first line."""
    text = Codec(Patch, "it").encode(Patch(name="Ann"))
    assert first_line(text) == '{"name":"Ann","age":null}'
    assert Codec(Patch, "it").encode(Patch(name="Ann", age=1)) == '{"name":"Ann","age":1}'


def test_bytes_and_computed_fields_are_at_home_in_models() -> None:
    """N11."""
    assert Codec(Image, "it").round_trip(Image(raw=b"\x89PNG\xff"))[1] == Image(raw=b"\x89PNG\xff")


@pytest.mark.parametrize(
    ("type", "value", "lost"),
    [
        (deque[int], deque([1], maxlen=3), "length limit"),
        (dict[str, int], defaultdict(int, a=1), "missing key"),
        (dict[str, int], collections.Counter("aab"), "missing key"),
        (defaultdict[str, int], defaultdict(lambda: 7, a=1), "missing key"),
    ],
)
def test_what_a_container_does_later_is_refused_by_name_if_it_would_be_lost(type: Any, value: Any, lost: str) -> None:
    """N4: equality doesn't see it."""
    with pytest.raises(EncodingError, match=lost):
        Codec(type, "a result").round_trip(value)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (deque[int], deque([1])),
        (defaultdict[str, list[int]], defaultdict(list, a=[1])),
        (collections.Counter[str], collections.Counter("aab")),
        (dict[str, int], {"a": 1}),
    ],
)
def test_containers_of_their_declared_kind_are_kept(type: Any, value: Any) -> None:
    back = Codec(type, "a result").round_trip(value)[1]
    assert (back, back.__class__) == (value, value.__class__)


def test_private_data_is_refused_by_name() -> None:
    """State that equality sees and JSON doesn't say."""
    Codec(Counter, "it").encode(Counter())
    with pytest.raises(EncodingError, match="_count"):
        Codec(Counter, "it").encode(Counter().bump())


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Told(by=Dog(name="Rex", bark="wow")), "Dog would come back as Animal at by"),
        (lambda: Loose(what=(1, 2)), "what"),
        (lambda: Loose(what=datetime(2026, 1, 1, tzinfo=UTC)), "what"),
        (lambda: Secret(key=SecretStr("x")), "key"),
    ],
)
def test_a_failure_refuses_what_it_could_not_bring_back(make: Callable[[], Failure], named: str) -> None:
    """N8: where the failure is built, with the field's name."""
    with pytest.raises(EncodingError, match=named):
        make()


@settings(deadline=None, max_examples=5)
@given(patches)
def test_a_failure_keeps_its_fields_as_they_were(patch: Patch) -> None:
    """N8: 100 kB of rows, and the fields that were given."""
    error = rebuild(record(Carries(patch=patch, rows=list(range(20_000)))))
    assert isinstance(error, Carries)
    assert (error.patch, unset(error.patch), error.rows[-1]) == (patch, unset(patch), 19_999)


class Future(BaseModel):
    at: FutureDatetime


class Limited(BaseModel):
    size: Annotated[int, Field(le=10)]
    code: Annotated[str, AfterValidator(lambda code: code if code in TODAY else _refuse())]

    @model_validator(mode="after")
    def _is_open(self) -> Limited:
        assert TODAY, "closed today"
        return self


@dataclass
class Stay:
    nights: int

    def __post_init__(self) -> None:
        if self.nights > MOST:
            raise ValueError("too many nights")


class Files(BaseModel):
    at: FilePath


TODAY: set[str] = set()
MOST = 7


def _refuse() -> str:
    raise ValueError("not today")


def test_what_was_accepted_stays_readable(tmp_path: Path) -> None:
    """N3: validators that look at the clock, at limits, at globals, at the disk. What never was valid is refused."""
    assert Codec(Future, "it").decode('{"at":"2020-01-01T00:00:00Z"}').at == datetime(2020, 1, 1, tzinfo=UTC)
    assert Codec(Limited, "it").decode('{"size":12,"code":"a"}').size == 12
    assert Codec(Stay, "it").decode('{"nights":9}').nights == 9
    stored = Codec(Files, "it").encode(Files(at=_touched(tmp_path / "a")))
    (tmp_path / "a").unlink()
    assert Codec(Files, "it").decode(stored).at == tmp_path / "a"
    for kind, text in ((Future, '{"at":7.5e99}'), (Limited, '{"size":"x","code":"a"}'), (Stay, '{"days":1}')):
        with pytest.raises(DecodingError):
            Codec(kind, "it").decode(text)


def _touched(path: Path) -> Path:
    path.touch()
    return path


def test_a_value_that_is_invalid_now_is_not_stored() -> None:
    """Tolerance is for what was accepted, not for what is new."""
    with pytest.raises(EncodingError):
        Codec(Future, "it").encode(Future.model_construct(at=datetime(2020, 1, 1, tzinfo=UTC)))


class Renamed(BaseModel):
    full_name: str = Field("nobody", validation_alias=AliasChoices("full_name", "name"))


class Aliased(BaseModel):
    order_id: str = Field(alias="orderId")


class Swapped(BaseModel):
    a: int = Field(alias="b")
    b: int = Field(alias="a")


class Widened(BaseModel):
    amount: float
    tags: set[str] = set()


def test_types_may_evolve_as_pydantic_lets_them() -> None:
    """N9: a renamed field, an alias given or taken away, a wider type, another collection."""
    assert Codec(Renamed, "it").decode('{"name":"Ann"}').full_name == "Ann"
    assert Codec(Renamed, "it").decode('{"full_name":"Ann"}').full_name == "Ann"
    assert Codec(Aliased, "it").decode('{"order_id":"7"}').order_id == "7"
    assert Codec(Aliased, "it").decode('{"orderId":"7"}').order_id == "7"
    assert Codec(Widened, "it").decode('{"amount":7,"tags":["a","a"]}') == Widened(amount=7.0, tags={"a"})
    swapped = Swapped(b=1, a=2)
    assert Codec(Swapped, "it").decode(Codec(Swapped, "it").encode(swapped)) == swapped
