"""Creates the database and its containers, as `schema.py` defines them. This is for an emulator, or for an account
whose key you have. In production the infrastructure creates them; the identity of the app isn't allowed to.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

from azure.cosmos import PartitionKey
from azure.cosmos.aio import CosmosClient

from engine.ground.errors import StoreError
from engine.store.cosmos.account import (
    CONNECTION_SETTING,
    CONTAINER_SETTING,
    DATABASE_SETTING,
    ENDPOINT_SETTING,
    KEY_SETTING,
    CosmosAccount,
)
from engine.store.cosmos.client import Connection
from engine.store.cosmos.resend import Meaning, Resend, Trouble
from engine.store.cosmos.schema import LEASES, container_definition, leases_definition
from engine.store.cosmos.usage import Usage

SLOW = 120.0
"""Seconds. An emulator needs time to start and to make partitions."""


async def create_containers(account: CosmosAccount, retry: Resend | None = None) -> list[str]:
    """Create the database and the containers that are missing. Returns a sentence for each difference between a
    container that existed and its definition. Raises StoreError."""
    connection, retry = Connection(account, Usage()), retry or Resend(patience=SLOW)

    async def make() -> list[str]:
        client = await connection.client()
        await client.create_database_if_not_exists(account.database)
        differences = []
        for definition in (container_definition(account.container), leases_definition(LEASES)):
            differences += await _create(client, account.database, definition)
        return differences

    try:
        return await retry(f"making database {account.database} in {account.endpoint}", make)
    finally:
        await connection.close()


async def _create(client: CosmosClient, database: str, definition: dict[str, Any]) -> list[str]:
    key = definition["partitionKey"]
    container = await client.get_database_client(database).create_container_if_not_exists(
        definition["id"],
        PartitionKey(path=key["paths"][0], kind=key["kind"], version=key["version"]),
        indexing_policy=definition.get("indexingPolicy"),
        default_ttl=definition["defaultTtl"],
    )
    return differences(definition, dict(await container.read()))


async def check_containers(account: CosmosAccount, retry: Resend | None = None) -> list[str]:
    """A sentence for each container that is missing or differs from its definition. Changes nothing. Raises
    StoreError."""
    connection, retry = Connection(account, Usage()), retry or Resend()

    async def look() -> list[str]:
        database = (await connection.client()).get_database_client(account.database)
        found = list[str]()
        for definition in (container_definition(account.container), leases_definition(LEASES)):
            try:
                properties = await database.get_container_client(definition["id"]).read()
            except Exception as error:
                if Trouble.of(error).meaning not in (Meaning.MISSING, Meaning.NO_CONTAINER):
                    raise
                found.append(f"database {account.database} has no container {definition['id']}")
            else:
                found += differences(definition, dict(properties))
        return found

    try:
        return await retry(f"looking at database {account.database} in {account.endpoint}", look)
    finally:
        await connection.close()


def differences(wanted: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """A sentence for each difference between a container and its definition."""
    name, sentences = wanted["id"], []
    if found["partitionKey"]["paths"] != wanted["partitionKey"]["paths"]:
        sentences.append(f"container {name} is partitioned by {found['partitionKey']['paths']}: make it anew")
    if found.get("defaultTtl") != wanted["defaultTtl"]:
        sentences.append(f"container {name}: defaultTtl is {found.get('defaultTtl')}, not {wanted['defaultTtl']}")
    if "indexingPolicy" in wanted and _included(found) != _included(wanted):
        sentences.append(f"container {name} indexes {sorted(_included(found))}, not {sorted(_included(wanted))}")
    return sentences


def main(arguments: Sequence[str]) -> int:
    """`init`, with the account from the settings. Returns the exit code."""
    parser = argparse.ArgumentParser(
        "python -m engine.store.cosmos",
        description=f"init makes the database and its containers. The account: settings {ENDPOINT_SETTING} and "
        f"{KEY_SETTING}, or {CONNECTION_SETTING}; names: {DATABASE_SETTING}, {CONTAINER_SETTING}.",
    )
    parser.add_argument("command", choices=["init"])
    parser.parse_args(arguments)
    try:
        account = CosmosAccount.from_environment(os.environ)
        if account is None:
            raise ValueError(f"setting {ENDPOINT_SETTING} or {CONNECTION_SETTING} is not set")
        found = asyncio.run(create_containers(account))
    except (ValueError, StoreError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for sentence in found:
        sys.stderr.write(f"{sentence}\n")
    if not found:
        sys.stdout.write(f"database {account.database} at {account.endpoint} is ready\n")
    return 1 if found else 0


def _included(definition: dict[str, Any]) -> set[str]:
    return {entry["path"] for entry in definition["indexingPolicy"].get("includedPaths", [])}
