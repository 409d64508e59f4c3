"""How types may change while executions sleep: a test for each line of the table in docs/operations.md."""

from __future__ import annotations

import inspect
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, BaseModel, Field, FutureDatetime, create_model, model_validator

from engine import Failure, activity, workflow
from engine.ground.errors import DecodingError, NonDeterminism
from engine.testing import Environment, export, replay
from engine.values.codec import Codec
from engine.values.error_records import rebuild, record

TABLE = re.search(
    r"### Changing types\n(.*?)\n### ", (Path(__file__).parents[3] / "docs/operations.md").read_text(), re.DOTALL
)


class Old(BaseModel):
    name: str = "Ann"
    age: int = 7
    tags: list[str] = ["a"]


def reads(new: Any) -> Any:
    """What today's type makes of a stored value of the old one."""
    return Codec(new, "it").decode(Codec(Old, "it").encode(Old(name="Ann", age=7, tags=["a"])))


def test_a_field_with_a_default_is_added() -> None:
    assert reads(create_model("New", name=(str, ...), more=(int, 5))).more == 5


def test_a_field_is_renamed() -> None:
    for renamed in (Field(validation_alias=AliasChoices("full_name", "name")), Field(alias="name")):
        assert reads(create_model("New", full_name=(str, renamed))).full_name == "Ann"


def test_an_alias_is_added_or_taken_away() -> None:
    assert reads(create_model("New", name=(str, Field(alias="fullName")))).name == "Ann"
    aliased = create_model("Aliased", name=(str, Field(alias="fullName")))
    text = Codec(aliased, "it").encode(aliased(fullName="Ann"))
    assert Codec(Old, "it").decode(text).name == "Ann"


def test_a_type_becomes_wider() -> None:
    new = reads(create_model("New", name=(str | None, ...), age=(float, ...), tags=(set[str], ...)))
    assert (new.name, new.age, new.tags) == ("Ann", 7.0, {"a"})


def test_a_limit_becomes_tighter() -> None:
    assert reads(create_model("New", age=(Annotated[int, Field(le=5)], ...))).age == 7
    future = create_model("Future", at=(FutureDatetime, ...))
    assert Codec(future, "it").decode('{"at":"2020-01-01T00:00:00Z"}').at == datetime(2020, 1, 1, tzinfo=UTC)


def test_a_before_validator_turns_the_old_form_into_the_new_one() -> None:
    class New(BaseModel):
        first: str
        age: int

        @model_validator(mode="before")
        @classmethod
        def _from_old(cls, data: dict[str, Any]) -> dict[str, Any]:
            return data if "first" in data else {**data, "first": data["name"]}

    assert reads(New).first == "Ann"


def test_a_field_without_a_default_is_added() -> None:
    with pytest.raises(DecodingError):
        reads(create_model("New", name=(str, ...), more=(int, ...)))


def test_a_type_becomes_narrower() -> None:
    assert Codec(int, "it").decode(Codec(float, "it").encode(7.0)) == 7
    with pytest.raises(DecodingError):
        reads(create_model("New", name=(int, ...)))


def test_a_failure_class_is_renamed() -> None:
    class Gone(Failure):
        why: str

    with pytest.raises(DecodingError):
        rebuild(record(Gone(why="x")).model_copy(update={"type": "NeverWas"}))


def test_a_class_below_one_in_raises_is_renamed() -> None:
    class ApiError(Exception):
        pass

    class NotFound(ApiError):
        pass

    saved = record(NotFound("gone"), (ApiError,)).model_copy(update={"type": "NeverWas"})
    assert type(rebuild(saved, (ApiError,))) is ApiError


def passing(default: int, value: dict[str, Any], age: Any = int) -> Any:
    """A workflow that passes a model to an activity, under the same names each time."""
    model = create_model("Passed", name=(str, ...), age=(age, default))

    async def takes(passed: Any) -> int:
        return int(passed.age)

    takes.__annotations__ = {"passed": model, "return": int}
    step = activity(takes)

    async def passes() -> int:
        return await step(model(**value))

    return workflow(passes)


async def test_the_default_of_a_field_changes() -> None:
    before, after = passing(7, {"name": "Ann"}), passing(8, {"name": "Ann"})
    async with Environment([before]) as env:
        id = (await env.start(before)).execution_id
        await env.finish(id)
        assert replay(await export(env.store, id), [after]).outcome is not None


async def test_an_argument_gets_another_form() -> None:
    before, after = passing(7, {"name": "Ann", "age": 5}), passing(7, {"name": "Ann", "age": 5}, age=float)
    async with Environment([before]) as env:
        id = (await env.start(before)).execution_id
        await env.finish(id)
        assert replay(await export(env.store, id), [after]).outcome is not None


async def test_an_argument_gets_another_value() -> None:
    before, after = passing(7, {"name": "Ann"}), passing(7, {"name": "Bob"})
    async with Environment([before]) as env:
        id = (await env.start(before)).execution_id
        await env.finish(id)
        with pytest.raises(NonDeterminism, match=r"passed\.name: recorded 'Ann', now 'Bob'"):
            replay(await export(env.store, id), [after])


def test_each_line_of_the_table_has_a_test() -> None:
    assert TABLE is not None
    lines = [row for row in TABLE[1].splitlines() if row.startswith("| ")][2:]
    tests = [name for name, made in globals().items() if name.startswith("test_") and inspect.isfunction(made)]
    assert len(lines) == len(tests) - 1
