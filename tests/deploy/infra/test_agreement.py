"""Containers, leases and roles in Bicep agree with the code that uses them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from engine.boundary.callers import OPEN
from engine.boundary.callers import ROLES as APP_ROLES
from tests.deploy.infra.bicep import INFRA, BicepFile, Each, read, read_parameters
from tests.deploy.infra.code import ROOT, driving_functions, routes_of_functions, trigger

COSMOS = read(INFRA / "modules/cosmos.bicep")
APP = read(INFRA / "modules/function-app.bicep")
MAIN = read(INFRA / "main.bicep")
ROLES = {
    "Storage Blob Data Owner": "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
    "Storage Queue Data Contributor": "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
    "Monitoring Metrics Publisher": "3913510d-42f4-4e42-8a64-420c390055eb",
}
DATA_CONTRIBUTOR = "00000000-0000-0000-0000-000000000002"


def container(name: str) -> dict[str, Any]:
    body = COSMOS.of("resource")[name].value
    found: dict[str, Any] = body["properties"]["resource"]
    assert body["name"] == found["id"], "Cosmos DB wants the same name twice"
    return found


def test_the_containers_are_those_of_the_engine() -> None:
    schema = pytest.importorskip("engine.store.cosmos.schema")
    for found, wanted in (
        (container("executions"), schema.container_definition()),
        (container("leases"), schema.leases_definition()),
    ):
        assert {**found, "id": wanted["id"]} == wanted


def test_names_of_database_and_containers_are_those_of_the_engine() -> None:
    schema = pytest.importorskip("engine.store.cosmos.schema")
    assert MAIN.of("var")["databaseName"].value == schema.DATABASE
    assert MAIN.of("var")["containerName"].value == schema.CONTAINER
    assert container("leases")["id"] == schema.LEASES


def test_the_feed_watches_the_container_and_keeps_its_leases_in_the_other() -> None:
    feed = trigger("drive_changes")
    settings = APP.of("resource")["settings"].value["properties"]
    assert settings[str(feed["database_name"]).strip("%")] == "databaseName"
    assert settings[str(feed["container_name"]).strip("%")] == "containerName"
    assert settings[str(feed["lease_container_prefix"]).strip("%")] == "leasePrefix"
    assert feed["lease_container_name"] == container("leases")["id"]
    assert MAIN.of("module")["functionApp"].value["params"]["leasePrefix"] == "leasePrefix"
    assert "environmentName" in MAIN.of("param")["leasePrefix"].value


def test_the_feed_misses_no_first_change_and_makes_no_container() -> None:
    feed = trigger("drive_changes")
    assert feed["start_from_beginning"] is True
    assert not feed.get("create_lease_container_if_not_exists"), "an identity of the data plane can't make containers"


def test_an_instance_can_wait_for_each_group_that_scales_alone() -> None:
    """HTTP scales as one group, each other trigger alone. Production keeps one for the feed and one for the sweep."""
    groups = APP.of("var")["scaleGroups"].value
    assert all(re.fullmatch(r"alwaysReady\w+", group["instances"]) for group in groups)
    waiting = {group["name"]: group["instances"] for group in groups}
    assert waiting.keys() <= {"http"} | {f"function:{name}" for name in driving_functions()}
    values = read_parameters(INFRA / "main.prod.bicepparam")[1]
    kept = {name for name, param in waiting.items() if values.get(param, 0) >= 1}
    assert kept >= {"function:drive_changes", "function:sweep"}
    scale = APP.of("resource")["app"].value["properties"]["functionAppConfig"]["scaleAndConcurrency"]
    assert isinstance(scale["alwaysReady"], Each)
    assert scale["alwaysReady"].body["name"] == "group.name"


def test_callers_sign_in_before_the_app_sees_them() -> None:
    """Everything asks for a caller of the right audience, but for the routes that take a signed token. The app trusts
    the caller's header only where this stands in front, and only after it does."""
    sign_in, settings = APP.of("resource")["signIn"], APP.of("resource")["settings"].value
    assert sign_in.is_conditional
    properties = sign_in.value["properties"]
    rules = properties["globalValidation"]
    assert (rules["requireAuthentication"], rules["unauthenticatedClientAction"]) == (True, "Return401")
    entra = properties["identityProviders"]["azureActiveDirectory"]
    assert entra["validation"]["allowedAudiences"] == ["signInClientId", "'api://${signInClientId}'"]
    assert settings["dependsOn"] == ["signIn"]
    assert settings["properties"]["ENGINE_SIGN_IN"].values == ("", "entra")
    prefix = {path.rstrip("*") for path in rules["excludedPaths"]}
    routes = {name: f"/api/{route}" for name, route in routes_of_functions().items()}
    assert {name for name, route in routes.items() if route.startswith(tuple(prefix))} == set(OPEN)
    assert prefix == {routes[name].partition("{")[0] for name in OPEN}


def test_the_roles_are_those_that_the_app_enforces() -> None:
    roles = json.loads((INFRA / "roles.json").read_text("utf-8"))
    assert tuple(role["value"] for role in roles) == APP_ROLES
    assert all(role["allowedMemberTypes"] == ["User", "Application"] and role["isEnabled"] for role in roles)


def _roles(file: BicepFile) -> dict[str, str]:
    """The roles that a file assigns, and the resource that each is scoped to."""
    named = {name: d.value for name, d in file.of("var").items()}
    found = {}
    for role in file.of_type("Microsoft.Authorization/roleAssignments"):
        assert role.value["properties"]["principalId"] == "principalId"
        assert role.value["properties"]["principalType"] == "ServicePrincipal"
        (variable,) = re.findall(
            r"'Microsoft.Authorization/roleDefinitions', (\w+)", role.value["properties"]["roleDefinitionId"]
        )
        found[named[variable]] = str(role.value.get("scope"))
    return found


def test_roles_are_as_narrow_as_can_be() -> None:
    assert _roles(read(INFRA / "modules/storage.bicep")) == {
        ROLES["Storage Blob Data Owner"]: "account",
        ROLES["Storage Queue Data Contributor"]: "account",
    }
    assert _roles(read(INFRA / "modules/monitoring.bicep")) == {ROLES["Monitoring Metrics Publisher"]: "component"}
    others = {path.stem for path in INFRA.rglob("*.bicep")} - {"storage", "monitoring"}
    for path in INFRA.rglob("*.bicep"):
        if path.stem in others:
            assert _roles(read(path)) == {}, path.name


def test_the_data_role_is_scoped_to_the_one_database() -> None:
    (assignment,) = COSMOS.of_type("Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments")
    properties = assignment.value["properties"]
    assert properties["scope"] == "'${account.id}/dbs/${database.name}'"
    assert properties["roleDefinitionId"] == "'${account.id}/sqlRoleDefinitions/${dataContributorRole}'"
    assert COSMOS.of("var")["dataContributorRole"].value == DATA_CONTRIBUTOR


def test_nothing_takes_keys() -> None:
    account = COSMOS.of("resource")["account"].value["properties"]
    storage = read(INFRA / "modules/storage.bicep").of("resource")["account"].value["properties"]
    monitoring = read(INFRA / "modules/monitoring.bicep").of("resource")
    assert account["disableLocalAuth"] is True
    assert account["disableKeyBasedMetadataWriteAccess"] is True
    assert account["minimalTlsVersion"] == "Tls12"
    assert storage["allowSharedKeyAccess"] is False
    assert storage["allowBlobPublicAccess"] is False
    assert storage["minimumTlsVersion"] == "TLS1_2"
    assert monitoring["component"].value["properties"]["DisableLocalAuth"] is True
    assert monitoring["workspace"].value["properties"]["features"]["disableLocalAuth"] is True
    for password in APP.of_type("Microsoft.Web/sites/basicPublishingCredentialsPolicies"):
        assert password.value["properties"]["allow"] is False
    for path in INFRA.rglob("*.bicep"):
        assert "listKeys" not in path.read_text("utf-8"), path.name


def test_dev_and_prod_are_as_described() -> None:
    """The two columns of docs/operations.md, from the parameter files and the template's own defaults."""
    defaults = {name: param.value for name, param in MAIN.of("param").items()}
    document = (ROOT / "docs/operations.md").read_text("utf-8")
    for column, environment in enumerate(("dev", "prod")):
        values = defaults | read_parameters(INFRA / f"main.{environment}.bicepparam")[1]
        serverless = values["cosmosCapacity"] == "serverless"
        described = {
            "Cosmos DB": "serverless" if serverless else f"autoscale up to {values['cosmosMaxThroughput']:,} RU/s",
            "instances that wait for the feed, and for the sweep": ", ".join(
                str(values[f"alwaysReady{group}"]) for group in ("Feed", "Sweep")
            ),
            "backup": values["backupTier"].removeprefix("Continuous").replace("Days", " days"),
            "network": "private endpoints" if values["privateNetworking"] else "public",
        }
        for what, said in described.items():
            (row,) = re.findall(rf"^\| {what} \| (.+) \| (.+) \|$", document, re.MULTILINE)
            assert row[column] == said
        assert values["siteUpdateStrategy"] == "RollingUpdate"
