"""Opens the store that a command reads: a SQLite file, or the store that the app's settings name.

1. The commands only read. They claim nothing and drive nothing.
2. A missing file is refused, because opening it would create an empty one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from engine.boundary.runtime import DEFAULT_FILE, Runtime
from engine.cli.problems import USAGE, Refused
from engine.ground.errors import StoreError
from engine.store.cosmos.account import CosmosAccount

FILE_SETTING = "ENGINE_SQLITE_FILE"


def settings_for(file: Path | None, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings of the app. If `file` is given, the settings name that SQLite file as the store."""
    if file is None:
        return dict(environment)
    kept = {name: value for name, value in environment.items() if not name.startswith("COSMOS")}
    return kept | {FILE_SETTING: str(file)}


def account_in(settings: Mapping[str, str]) -> CosmosAccount | None:
    """The Cosmos DB account that the settings name. None if they name a SQLite file. Raises Refused."""
    try:
        return CosmosAccount.from_environment(settings)
    except ValueError as error:
        raise Refused(str(error), USAGE) from None


def file_in(settings: Mapping[str, str]) -> Path:
    """The SQLite file that the settings name, or the default file."""
    return Path(settings.get(FILE_SETTING) or DEFAULT_FILE)


@contextlib.asynccontextmanager
async def opened(settings: Mapping[str, str]) -> AsyncIterator[Runtime]:
    """A runtime on the store that the settings name, without workflows. Raises Refused. A StoreError in the block
    becomes Refused too."""
    account, file = account_in(settings), file_in(settings)
    if account is None and not file.is_file():
        raise Refused(
            f"there is no file {file}: name a SQLite file with --store, or an account in the app's settings", USAGE
        )
    try:
        runtime = Runtime.from_environment([], settings)
    except ValueError as error:
        raise Refused(str(error), USAGE) from None
    try:
        yield runtime
    except StoreError as error:
        raise Refused(f"the store can't be read: {error}") from None
    finally:
        await runtime.close()


async def container_problems(account: CosmosAccount) -> list[str]:
    """A sentence for each container of the account that is missing or configured wrongly. Raises StoreError."""
    from engine.store.cosmos.init import check_containers  # the SDK takes long to import

    return await check_containers(account)
