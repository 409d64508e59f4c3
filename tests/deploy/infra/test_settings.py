"""The app settings in Bicep and the settings that something reads are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine import Settings
from tests.deploy.infra.bicep import INFRA, read
from tests.deploy.infra.code import ROOT, TRIGGERS, settings_in, settings_read, trigger

BY_THE_PLATFORM = {
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING",
    "APPLICATIONINSIGHTS_CONNECTION_STRING",
    "AzureWebJobsStorage__accountName",
    "AzureWebJobsStorage__clientId",
    "AzureWebJobsStorage__credential",
    "COSMOS__credential",
}
"""What the Functions host reads and the code doesn't."""
NOT_IN_AZURE = {
    "AZURE_FUNCTIONS_ENVIRONMENT": "the host sets it",
    "COSMOS": "a connection string has a key in it",
    "COSMOS_KEY": "a key",
    "ENGINE_SQLITE_FILE": "the local store",
    "LEDGER_FILE": "the worked examples write into the instance's folder for temporary files",
}
"""What the code reads and an app in Azure must not have, and why."""
NOT_ON_FLEX = {
    "ENABLE_ORYX_BUILD",
    "FUNCTIONS_EXTENSION_VERSION",
    "FUNCTIONS_WORKER_RUNTIME",
    "SCM_DO_BUILD_DURING_DEPLOYMENT",
    "WEBSITE_CONTENTAZUREFILECONNECTIONSTRING",
    "WEBSITE_CONTENTSHARE",
    "WEBSITE_RUN_FROM_PACKAGE",
    "WEBSITE_TIME_ZONE",
}
"""What a Flex Consumption plan refuses or ignores."""


def app_settings() -> dict[str, Any]:
    settings: dict[str, Any] = read(INFRA / "modules/function-app.bicep").of("resource")["settings"].value["properties"]
    return settings


def test_what_the_code_reads_is_set() -> None:
    assert settings_read() - NOT_IN_AZURE.keys() - app_settings().keys() == set()


def test_what_is_set_is_read() -> None:
    assert app_settings().keys() - settings_read() - BY_THE_PLATFORM == set()


def test_the_lists_of_exceptions_are_needed() -> None:
    assert app_settings().keys() >= BY_THE_PLATFORM
    assert settings_read() >= NOT_IN_AZURE.keys()


def test_nothing_is_set_that_must_not_be() -> None:
    assert app_settings().keys() & (NOT_ON_FLEX | NOT_IN_AZURE.keys()) == set()


def test_the_trigger_has_what_it_needs_to_connect_as_the_identity() -> None:
    connection = trigger("drive_changes")["connection"]
    assert {f"{connection}__{part}" for part in ("accountEndpoint", "credential", "clientId")} <= app_settings().keys()
    assert app_settings()[f"{connection}__credential"] == "managedidentity"


def test_no_setting_is_a_key_of_azure() -> None:
    values = " ".join(map(str, app_settings().values()))
    assert "listKeys" not in values
    assert "AccountKey" not in values


@pytest.mark.parametrize(
    ("param", "default"),
    [
        ("leaseSeconds", Settings.lease.total_seconds()),
        ("skewSeconds", Settings.skew.total_seconds()),
        ("maxClaims", Settings.max_claims),
        ("retentionDays", Settings.retention.days),
        ("maxDrives", Settings.max_drives),
        ("maxHeld", Settings.max_held),
        ("blockedExitSeconds", Settings.from_environment({}).blocked_exit.total_seconds()),
        ("blockedSeconds", Settings.from_environment({}).blocked_after.total_seconds()),
    ],
)
def test_defaults_are_those_of_the_engine(param: str, default: float) -> None:
    assert read(INFRA / "main.bicep").of("param")[param].value == default


def test_the_local_example_has_every_setting_that_a_trigger_refers_to() -> None:
    example = json.loads((ROOT / "local.settings.json.example").read_text("utf-8"))["Values"]
    referred = set(settings_in(TRIGGERS.read_text("utf-8"))) - NOT_IN_AZURE.keys()
    assert referred - example.keys() == set()


def test_settings_are_found_in_code() -> None:
    source = 'a = env.get("ENGINE_X")\nb = "%COSMOS_PLACE%"\nc = "see ENGINE_Y for more"\nd = "COSMOS__clientId"'
    assert set(settings_in(source)) == {"ENGINE_X", "COSMOS_PLACE", "COSMOS__clientId"}
