"""The store that a command looks into: a SQLite file, or what the app's settings name.

1. Reads only. The commands claim nothing and drive nothing.
2. A file that isn't there is refused: opening it would make an empty one.
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
    """The settings of the app; with those of the file's store alone, if one is named."""
    if file is None:
        return dict(environment)
    kept = {name: value for name, value in environment.items() if not name.startswith("COSMOS")}
    return kept | {FILE_SETTING: str(file)}


def account_in(settings: Mapping[str, str]) -> CosmosAccount | None:
    """The Cosmos DB account that the settings name; None for a SQLite file. Raises Refused."""
    try:
        return CosmosAccount.from_environment(settings)
    except ValueError as error:
        raise Refused(str(error), USAGE) from None


def file_in(settings: Mapping[str, str]) -> Path:
    """The SQLite file that the settings name, or the usual one."""
    return Path(settings.get(FILE_SETTING) or DEFAULT_FILE)


@contextlib.asynccontextmanager
async def opened(settings: Mapping[str, str]) -> AsyncIterator[Runtime]:
    """The engine over that store, without workflows. Raises Refused, also for a StoreError in the block."""
    account, file = account_in(settings), file_in(settings)
    if account is None and not file.is_file():
        raise Refused(
            f"there is no file {file}: name a SQLite file by --store, or an account by the app's settings", USAGE
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
    """A sentence for each container of the account that is missing, or isn't as the engine needs it. Raises
    StoreError."""
    from engine.store.cosmos.init import check_containers  # the SDK takes long to import

    return await check_containers(account)
