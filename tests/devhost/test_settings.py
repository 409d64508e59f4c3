"""local.settings.json, host.json, time spans and references to settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devhost.keys import local_key
from devhost.settings import (
    DEFAULT_TIMEOUT_SECONDS,
    HostSettings,
    LoadError,
    QueueSettings,
    load_host_settings,
    load_local_settings,
    resolve,
    timespan,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "some.json"


def test_values_join_the_environment_without_replacing_what_is_set(file: Path) -> None:
    file.write_text('\ufeff{"Values": {"A": "file", "B": "file", "N": 3, "T": true}}', "utf-8")
    environment = {"A": "set"}
    load_local_settings(file, environment, required=True)
    assert environment == {"A": "set", "B": "file", "N": "3", "T": "true"}


def test_a_missing_file_matters_only_where_it_was_asked_for(file: Path) -> None:
    load_local_settings(file, {}, required=False)
    with pytest.raises(LoadError, match="doesn't exist"):
        load_local_settings(file, {}, required=True)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "can't be read"),
        ("[]", "JSON object"),
        ('{"Values": []}', '"Values"'),
        ('{"Values": {"A": {}}}', 'setting "A"'),
        ('{"Values": {"A": null}}', 'setting "A"'),
        ('{"IsEncrypted": true, "Values": {"A": "x"}}', "decrypt"),
    ],
)
def test_bad_local_settings_are_named(file: Path, text: str, complaint: str) -> None:
    file.write_text(text)
    with pytest.raises(LoadError, match=complaint):
        load_local_settings(file, {}, required=False)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (None, HostSettings("api", DEFAULT_TIMEOUT_SECONDS)),
        (
            {
                "version": "2.0",
                "logging": {},
                "extensions": {"cosmosDB": {"x": 1}, "http": {"hsts": {}}, "queues": {"y": 1}},
            },
            HostSettings(left_out=("logging", "extensions.cosmosDB", "extensions.http.hsts", "extensions.queues.y")),
        ),
        ({"extensions": {"http": {"routePrefix": ""}}}, HostSettings("")),
        ({"extensions": {"http": {"routePrefix": "/v1/x/"}}}, HostSettings("v1/x")),
        ({"functionTimeout": "00:05:30"}, HostSettings("api", 330)),
        ({"functionTimeout": "-1"}, HostSettings("api", None)),
        ({"extensions": {"queues": {}}}, HostSettings(queues=QueueSettings(16, 8, 1, 0, 5))),
        (
            {
                "extensions": {
                    "queues": {
                        "batchSize": 32,
                        "newBatchThreshold": 0,
                        "maxPollingInterval": "00:00:02",
                        "visibilityTimeout": "00:00:10",
                        "maxDequeueCount": 1,
                    }
                }
            },
            HostSettings(queues=QueueSettings(32, 0, 2, 10, 1)),
        ),
    ],
)
def test_host_json(file: Path, document: object, expected: HostSettings) -> None:
    if document is not None:
        file.write_text(json.dumps(document))
    assert load_host_settings(file) == expected


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"functionTimeout": 30}, "functionTimeout"),
        ({"functionTimeout": "00:00:00"}, "functionTimeout"),
        ({"extensions": []}, "extensions"),
        ({"extensions": {"queues": {"batchSize": 33}}}, '"batchSize" of the queues .* from 1 to 32'),
        ({"extensions": {"queues": {"maxDequeueCount": "5"}}}, "maxDequeueCount"),
        ({"extensions": {"queues": {"visibilityTimeout": 10}}}, '"visibilityTimeout" of the queues: .*HH:MM:SS'),
        ({"extensions": {"http": 1}}, "http"),
        ({"extensions": {"http": {"routePrefix": 1}}}, "routePrefix"),
    ],
)
def test_bad_host_json_is_named(file: Path, document: object, complaint: str) -> None:
    file.write_text(json.dumps(document))
    with pytest.raises(LoadError, match=complaint):
        load_host_settings(file)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:00:02", 2), ("01:02:03", 3723), ("1.00:00:00", 86_400), ("00:00:00.500", 0.5), ("00:59:59", 3599)],
)
def test_time_spans(text: str, seconds: float) -> None:
    assert timespan(text) == seconds


@pytest.mark.parametrize("text", ["5", "00:05", "00:60:00", "00:00:60", "", "a:b:c", None, 5, "-00:00:01", "٠٠:٠٠:٠١"])
def test_what_is_no_time_span(text: object) -> None:
    with pytest.raises(ValueError, match="HH:MM:SS"):
        timespan(text)


def test_references_are_resolved() -> None:
    assert resolve("*/%S% * * * * %D%", {"S": "10", "D": "MON"}) == "*/10 * * * * MON"
    for environment in ({}, {"S": ""}):
        with pytest.raises(LoadError, match="setting S"):
            resolve("%S%", environment)


def test_the_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "functions.key"
    key = local_key(path)
    assert len(key) >= 32
    assert local_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["functions.key"]

    path.chmod(0o644)
    assert local_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_file_each_host_has_its_own_key() -> None:
    assert local_key(None) != local_key(None)
