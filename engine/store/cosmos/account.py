"""Which Cosmos DB account, database and container to use, and as whom: read from the app's settings.

| setting | meaning |
| --- | --- |
| `COSMOS__accountEndpoint` | the account's address; the identity of the app is used, unless there is a key |
| `COSMOS__clientId` | the client id of a user-assigned managed identity |
| `COSMOS_KEY` | a key of the account, for the emulator and for local work |
| `COSMOS` | all of that as a connection string: `AccountEndpoint=…;AccountKey=…;` |
| `COSMOS_DATABASE`, `COSMOS_CONTAINER` | names, `workflows` and `executions` unless they are set |

The names are those that the Functions host's own trigger reads. It takes `COSMOS`, if that is set, before the others;
so does this.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from engine.store.cosmos.schema import CONTAINER, DATABASE

ENDPOINT_SETTING = "COSMOS__accountEndpoint"
CLIENT_ID_SETTING = "COSMOS__clientId"
KEY_SETTING = "COSMOS_KEY"
CONNECTION_SETTING = "COSMOS"
DATABASE_SETTING = "COSMOS_DATABASE"
CONTAINER_SETTING = "COSMOS_CONTAINER"

_FORBIDDEN = "/\\?#"


@dataclass(frozen=True)
class CosmosAccount:
    """Where the documents are. `key` None: the app's own identity, `client_id` if it has several.

    `read_timeout` is how long to wait for an answer, in seconds: after that nobody knows whether a write landed.
    """

    endpoint: str
    key: str | None = field(default=None, repr=False)
    client_id: str | None = None
    database: str = DATABASE
    container: str = CONTAINER
    connect_timeout: float = 5.0
    read_timeout: float = 10.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> CosmosAccount | None:
        """The account that the settings name; None if they name none. Raises ValueError that names the setting."""

        def setting(name: str) -> str | None:
            return environment.get(name, "").strip() or None

        endpoint, key, source = setting(ENDPOINT_SETTING), setting(KEY_SETTING), ENDPOINT_SETTING
        connection = setting(CONNECTION_SETTING)
        if connection is not None:
            endpoint, key = _parse_connection(connection)
            source = CONNECTION_SETTING
        if endpoint is None:
            for name in (KEY_SETTING, CLIENT_ID_SETTING):
                if setting(name) is not None:
                    raise ValueError(f"setting {name} is set, but {ENDPOINT_SETTING} isn't: which account is it for?")
            return None
        return cls(
            endpoint=_checked_endpoint(endpoint, source, has_key=key is not None),
            key=_checked_key(key, KEY_SETTING if connection is None else CONNECTION_SETTING),
            client_id=setting(CLIENT_ID_SETTING),
            database=_checked_name(setting(DATABASE_SETTING) or DATABASE, DATABASE_SETTING),
            container=_checked_name(setting(CONTAINER_SETTING) or CONTAINER, CONTAINER_SETTING),
        )


def _parse_connection(text: str) -> tuple[str, str | None]:
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    values = {name.strip().lower(): value.strip() for name, value in parts.items()}
    if not values.get("accountendpoint"):
        raise ValueError(f"setting {CONNECTION_SETTING} is a connection string, but has no AccountEndpoint=…; in it")
    if not values.get("accountkey"):
        raise ValueError(
            f"setting {CONNECTION_SETTING} is a connection string, but has no AccountKey=…; in it. To use the app's "
            f"identity instead, set {ENDPOINT_SETTING}"
        )
    return values["accountendpoint"], values["accountkey"]


def _checked_endpoint(text: str, name: str, has_key: bool) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        shown = f"setting {name} has to hold a URL such as https://NAME.documents.azure.com:443/"
        if "accountkey" in text.lower():
            raise ValueError(f"{shown}; a connection string belongs in {CONNECTION_SETTING}")
        raise ValueError(f"{shown}, not {text!r}")
    if parts.scheme == "http" and not has_key:
        raise ValueError(
            f"setting {name}: the app's identity isn't sent to an address without TLS. Use https, or set {KEY_SETTING}"
        )
    return text


def _checked_key(key: str | None, name: str) -> str | None:
    try:
        if key is not None and not base64.b64decode(key, validate=True):
            raise ValueError
    except (binascii.Error, ValueError):
        raise ValueError(f"setting {name}: the account's key has to be base64 text") from None
    return key


def _checked_name(text: str, name: str) -> str:
    if any(letter in text for letter in _FORBIDDEN) or len(text) > 255:
        raise ValueError(f"setting {name}: {text[:80]!r} can't be a name: up to 255 characters, none of {_FORBIDDEN}")
    return text
