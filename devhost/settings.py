"""Reads local.settings.json, host.json and references to settings, before the host loads the app.

Every mistake raises a LoadError whose message names the file and the field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULT_TIMEOUT_SECONDS = 30 * 60.0
"""How long an invocation may take if host.json sets no limit. This is the default of a Flex Consumption plan."""
DATA_SETTING = "ENGINE_SQLITE_FILE"
"""The setting that names the file of the embedded store."""

_TIMESPAN = re.compile(r"(?:(\d+)\.)?(\d{1,2}):([0-5]?\d):([0-5]?\d(?:\.\d{1,7})?)", re.ASCII)
_USED = frozenset(
    {
        "version",
        "functionTimeout",
        "extensions.http.routePrefix",
        "extensions.queues.batchSize",
        "extensions.queues.newBatchThreshold",
        "extensions.queues.maxPollingInterval",
        "extensions.queues.visibilityTimeout",
        "extensions.queues.maxDequeueCount",
    }
)
"""The settings of host.json that this host uses."""
_REFERENCE = re.compile(r"%([^%]+)%")


class LoadError(Exception):
    """This host can't serve the app. The message says what to change."""


@dataclass(frozen=True)
class QueueSettings:
    """How the host reads queues: the part `extensions.queues` of host.json, with the platform's defaults."""

    batch_size: int = 16
    """The most messages that the host takes at once."""
    new_batch_threshold: int = 8
    """While more functions run than this, the host takes no message."""
    poll_seconds: float = 1.0
    """The longest pause between two reads of an empty queue."""
    retry_seconds: float = 0.0
    """How long a message stays invisible after its function failed."""
    max_dequeues: int = 5
    """How often the function may fail with one message."""


@dataclass(frozen=True)
class HostSettings:
    """The part of host.json that this host uses."""

    route_prefix: str = "api"
    """The first part of every route, without slashes at its ends. It may be empty."""
    timeout_seconds: float | None = DEFAULT_TIMEOUT_SECONDS
    """How long an invocation may take. None means any time."""
    queues: QueueSettings = QueueSettings()
    left_out: tuple[str, ...] = ()
    """The settings of host.json that only the platform uses."""


def load_local_settings(path: Path, environment: MutableMapping[str, str], *, required: bool) -> None:
    """Adds the `Values` of a local.settings.json to `environment`. Settings that the environment already has stay.

    Raises LoadError if the file can't be read, or if it is `required` and missing.
    """
    document = _read_object(path, required=required)
    if document.get("IsEncrypted"):
        raise LoadError(f"{path} is encrypted: decrypt it with `func settings decrypt`")
    values = document.get("Values", {})
    if not isinstance(values, dict):
        raise LoadError(f'{path}: "Values" has to be an object that maps names of settings to their values')
    for name, value in values.items():
        if isinstance(value, dict | list) or value is None:
            raise LoadError(f'{path}: setting "{name}" has to be text')
        environment.setdefault(name, json.dumps(value) if isinstance(value, bool) else str(value))


def load_host_settings(path: Path) -> HostSettings:
    """Returns the routes' prefix, the time limit and the queues of host.json, and the names of its other settings.
    Without that file, returns the defaults. Raises LoadError.
    """
    document = _read_object(path, required=False)
    http = _object_at(_object_at(document, "extensions", path), "http", path)
    prefix = http.get("routePrefix", HostSettings.route_prefix)
    if not isinstance(prefix, str):
        raise LoadError(f'{path}: "routePrefix" has to be text')
    queues = _queues(_object_at(_object_at(document, "extensions", path), "queues", path), path)
    timeout, left_out = _timeout(document.get("functionTimeout"), path), tuple(_unused(document))
    return HostSettings(prefix.strip("/"), timeout, queues, left_out)


def use_cosmos(endpoint: str | None, key: str | None, environment: MutableMapping[str, str]) -> None:
    """Changes the app's settings so that its store is the Cosmos DB account at `endpoint`. For None, changes nothing.

    Raises LoadError for a key without an endpoint.
    """
    if endpoint is None:
        if key is not None:
            raise LoadError("--cosmos-key is the key of an account: name the account with --cosmos URL")
        return
    environment.pop("COSMOS", None)  # a connection string would win over the other settings
    environment["COSMOS__accountEndpoint"] = endpoint
    if key is not None:
        environment["COSMOS_KEY"] = key
    environment.setdefault("COSMOS_DATABASE", "workflows")
    environment.setdefault("COSMOS_CONTAINER", "executions")


def timespan(text: object) -> float:
    """The seconds of a time span "[days.]HH:MM:SS". Raises ValueError."""
    match = _TIMESPAN.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f'a time span has the form "HH:MM:SS", not {text!r}')
    days, hours, minutes, seconds = match.groups()
    return ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes)) * 60 + float(seconds)


def resolve(text: str, environment: Mapping[str, str]) -> str:
    """`text` with each `%NAME%` replaced by that setting. Raises LoadError if one isn't set."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if not environment.get(name):
            raise LoadError(f"setting {name} is not set, and {text!r} refers to it")
        return environment[name]

    return _REFERENCE.sub(value, text)


def _queues(options: Mapping[str, Any], path: Path) -> QueueSettings:
    def number(name: str, default: int, least: int, most: int) -> int:
        value = options.get(name, default)
        if not isinstance(value, int) or not least <= value <= most:
            raise LoadError(
                f'{path}: "{name}" of the queues has to be a whole number from {least} to {most}, not {value!r}'
            )
        return value

    def seconds(name: str, default: float) -> float:
        try:
            return timespan(options[name]) if name in options else default
        except ValueError as error:
            raise LoadError(f'{path}: "{name}" of the queues: {error}') from error

    defaults = QueueSettings()
    return QueueSettings(
        number("batchSize", defaults.batch_size, 1, 32),
        number("newBatchThreshold", defaults.new_batch_threshold, 0, 1_000),
        seconds("maxPollingInterval", defaults.poll_seconds),
        seconds("visibilityTimeout", defaults.retry_seconds),
        number("maxDequeueCount", defaults.max_dequeues, 1, 1_000),
    )


def _unused(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The names of the settings that this host doesn't use. A part of which it uses nothing counts as one."""
    for name, value in settings.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and any(used.startswith(f"{path}.") for used in _USED):
            yield from _unused(value, f"{path}.")
        elif path not in _USED:
            yield path


def _timeout(text: object, path: Path) -> float | None:
    if text is None:
        return DEFAULT_TIMEOUT_SECONDS
    if text == "-1":
        return None
    try:
        seconds = timespan(text)
    except ValueError as error:
        raise LoadError(f'{path}: "functionTimeout": {error}') from error
    if not seconds:
        raise LoadError(f'{path}: "functionTimeout" has to be more than zero. "-1" means no limit')
    return seconds


def _object_at(document: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise LoadError(f'{path}: "{name}" has to be an object')
    return value


def _read_object(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        # Editors on Windows write a byte order mark.
        document = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        if required:
            raise LoadError(f"{path} doesn't exist") from None
        return {}
    except (OSError, ValueError) as error:
        raise LoadError(f"{path} can't be read: {error}") from error
    if not isinstance(document, dict):
        raise LoadError(f"{path} has to hold a JSON object")
    return document
