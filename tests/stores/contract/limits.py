"""The promises of `engine.store.base` about the documents of limits. They aren't executions, and nothing finds them but
their own calls."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engine.ground.clock import FAR_FUTURE
from engine.ground.errors import Conflict, DecodingError, Missing, Unreadable
from engine.store.base import Filter, Store
from engine.store.limit_state import LimitState, Permit, limit_id
from tests.stores.contract.executions import NOW, Raw, execution

ID = limit_id("charge", "ada")
HELD = Permit(holder="h", token="t", expires_at=NOW + timedelta(seconds=30))


class LimitsContract:
    """read_limit and write_limit."""

    async def test_a_limit_is_created_and_replaced_under_its_etag(self, store: Store) -> None:
        with pytest.raises(Missing):
            await store.read_limit(ID)
        first = await store.write_limit(LimitState(execution_id=ID, permits=(HELD,)))
        read = await store.read_limit(ID)
        assert (read.permits, read.etag) == ((HELD,), first.etag)
        second = await store.write_limit(first.model_copy(update={"permits": ()}))
        assert second.etag != first.etag
        assert (await store.read_limit(ID)).permits == ()

    async def test_of_two_writers_one_wins(self, store: Store) -> None:
        """At the creation, and afterwards."""
        first = await store.write_limit(LimitState(execution_id=ID))
        with pytest.raises(Conflict):
            await store.write_limit(LimitState(execution_id=ID, permits=(HELD,)))
        await store.write_limit(first)
        with pytest.raises(Conflict):
            await store.write_limit(first.model_copy(update={"permits": (HELD,)}))
        assert (await store.read_limit(ID)).permits == ()

    async def test_nothing_that_looks_for_executions_finds_a_limit(self, store: Store) -> None:
        await store.write_limit(LimitState(execution_id=ID, permits=(HELD,)))
        one = await store.create(execution())
        listed, due = await store.list(Filter(), 10), await store.due(FAR_FUTURE, 10)
        assert [each.execution_id for each in listed.executions] == [one.execution_id]
        assert {each.execution_id for each in due.executions} <= {one.execution_id}
        assert not listed.unreadable
        assert await store.total(Filter()) == 1
        with pytest.raises(Missing):
            await store.read(ID)

    async def test_a_spoiled_limit_says_so(self, store: Store, raw: Raw) -> None:
        await raw.put({"id": "limit", "executionId": ID, "permits": 5})
        with pytest.raises((DecodingError, Unreadable), match="document limit can't be read"):
            await store.read_limit(ID)
