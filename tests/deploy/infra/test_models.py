"""Every property of every resource is one that Microsoft's own models know, with a value that they allow.

The models are of the API version that each azure-mgmt package was made for, which may be later than the one in the
Bicep. The compiler in CI checks the exact version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.deploy.infra.bicep import INFRA, Declaration, read, read_text
from tests.deploy.infra.shapes import Place, Shape, problems, shape_of

MODELS = {
    "Microsoft.DocumentDB/databaseAccounts": ("cosmosdb", "DatabaseAccountCreateUpdateParameters"),
    "Microsoft.DocumentDB/databaseAccounts/sqlDatabases": ("cosmosdb", "SqlDatabaseCreateUpdateParameters"),
    "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers": ("cosmosdb", "SqlContainerCreateUpdateParameters"),
    "Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments": ("cosmosdb", "SqlRoleAssignmentCreateUpdateParameters"),
    "Microsoft.Insights/actionGroups": ("monitor", "ActionGroupResource"),
    "Microsoft.Insights/components": ("applicationinsights.v2020_02_02", "ApplicationInsightsComponent"),
    "Microsoft.Insights/metricAlerts": ("monitor", "MetricAlertResource"),
    "Microsoft.Insights/scheduledQueryRules": ("monitor", "ScheduledQueryRuleResource"),
    "Microsoft.Network/privateDnsZones": ("privatedns", "PrivateZone"),
    "Microsoft.Network/privateDnsZones/virtualNetworkLinks": ("privatedns", "VirtualNetworkLink"),
    "Microsoft.Network/privateEndpoints": ("network", "PrivateEndpoint"),
    "Microsoft.Network/privateEndpoints/privateDnsZoneGroups": ("network", "PrivateDnsZoneGroup"),
    "Microsoft.Network/virtualNetworks": ("network", "VirtualNetwork"),
    "Microsoft.Network/virtualNetworks/subnets": ("network", "Subnet"),
    "Microsoft.OperationalInsights/workspaces": ("loganalytics", "Workspace"),
    "Microsoft.Storage/storageAccounts": ("storage", "StorageAccountCreateParameters"),
    "Microsoft.Storage/storageAccounts/blobServices": ("storage", "BlobServiceProperties"),
    "Microsoft.Storage/storageAccounts/blobServices/containers": ("storage", "BlobContainer"),
    "Microsoft.Storage/storageAccounts/queueServices": ("storage", "QueueServiceProperties"),
    "Microsoft.Storage/storageAccounts/queueServices/queues": ("storage", "StorageQueue"),
    "Microsoft.Web/serverfarms": ("web", "AppServicePlan"),
    "Microsoft.Web/sites": ("web", "Site"),
    "Microsoft.Web/sites/basicPublishingCredentialsPolicies": ("web", "CsmPublishingCredentialsPoliciesEntity"),
    "Microsoft.Web/sites/config appsettings": ("web", "StringDictionary"),
    "Microsoft.Web/sites/config authsettingsV2": ("web", "SiteAuthSettingsV2"),
}
"""The package (azure.mgmt.…) and the model of each type. The properties of a site's config depend on its name."""


def _object(*names: str, **below: Place) -> Shape:
    return Shape({name: Place() for name in names} | below)


def _category() -> Shape:
    return _object("category", "categoryGroup", "enabled")


SMALL = {
    "Microsoft.Authorization/roleAssignments": _object(
        properties=Place(lambda: _object("roleDefinitionId", "principalId", "principalType", "description"))
    ),
    "Microsoft.Insights/diagnosticSettings": _object(
        properties=Place(
            lambda: _object(
                "workspaceId", "logAnalyticsDestinationType", logs=Place(_category), metrics=Place(_category)
            )
        )
    ),
    "Microsoft.ManagedIdentity/userAssignedIdentities": _object("location", "tags"),
    "Microsoft.Resources/resourceGroups": _object("location", "tags", "managedBy"),
}
"""Types without a model in reach, by hand from their REST reference."""

BICEP_ONLY = ("name", "parent", "scope", "dependsOn")
"""What a resource has in Bicep and not in its body."""


def _resources() -> list[Any]:
    return [
        pytest.param(resource, id=f"{path.stem}-{resource.name}")
        for path in sorted(INFRA.rglob("*.bicep"))
        for resource in read(path).of("resource").values()
        if not resource.is_existing
    ]


def _complaints(resource: Declaration) -> list[str]:
    body = resource.value.body if hasattr(resource.value, "body") else resource.value
    type = resource.about.partition("@")[0]
    type += f" {body['name']}" if type == "Microsoft.Web/sites/config" else ""
    shape = SMALL[type] if type in SMALL else shape_of(f"azure.mgmt.{MODELS[type][0]}.models", MODELS[type][1])
    return list(problems({name: value for name, value in body.items() if name not in BICEP_ONLY}, shape))


@pytest.mark.parametrize("resource", _resources())
def test_properties_are_those_of_the_model(resource: Declaration) -> None:
    assert _complaints(resource) == []


@pytest.mark.parametrize(
    ("good", "bad", "complaint"),
    [
        ("httpsOnly: true", "httpOnly: true", "properties.httpOnly is no property"),
        ("siteUpdateStrategy: { type: 'RollingUpdate' }", "updateStrategy: {}", "updateStrategy is no property"),
        ("type: 'RollingUpdate'", "type: 'Rolling'", "siteUpdateStrategy.type is one of"),
        ("perInstanceConcurrency", "instanceConcurrency", "http.instanceConcurrency is no property"),
        ("instanceCount: 1", "count: 1", "alwaysReady[0].count is no property"),
        ("httpsOnly: true", "state: 'Running'", "properties.state is set by the service alone"),
    ],
)
def test_a_wrong_property_of_the_app_is_found(good: str, bad: str, complaint: str) -> None:
    source = """
    resource app 'Microsoft.Web/sites@2024-11-01' = {
      name: 'app'
      properties: {
        httpsOnly: true
        functionAppConfig: {
          scaleAndConcurrency: {
            alwaysReady: [ { name: 'http', instanceCount: 1 } ]
            triggers: { http: { perInstanceConcurrency: 16 } }
          }
          siteUpdateStrategy: { type: 'RollingUpdate' }
        }
      }
    }
    """
    assert _complaints(_only(source)) == []
    assert good in source
    assert complaint in "; ".join(_complaints(_only(source.replace(good, bad))))


@pytest.mark.parametrize(
    ("good", "bad", "complaint"),
    [
        ("criterionType: 'StaticThresholdCriterion'", "criterionTyp: 'x'", "criteria.allOf[0].criterionTyp"),
        ("actionGroupId", "actionGroup", "properties.actions[0].actionGroup"),
        ("severity: 2", "urgency: 2", "properties.urgency"),
    ],
)
def test_a_wrong_property_of_an_alert_is_found(good: str, bad: str, complaint: str) -> None:
    source = """
    resource alert 'Microsoft.Insights/metricAlerts@2018-03-01' = {
      name: 'alert'
      properties: {
        severity: 2
        criteria: {
          'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
          allOf: [ { name: 'x', criterionType: 'StaticThresholdCriterion' } ]
        }
        actions: [ { actionGroupId: 'x' } ]
      }
    }
    """
    assert _complaints(_only(source)) == []
    assert good in source
    assert complaint in "; ".join(_complaints(_only(source.replace(good, bad))))


def test_wrong_values_of_the_account_are_found() -> None:
    source = """
    resource account 'Microsoft.DocumentDB/databaseAccounts@2024-11-15' = {
      name: 'account'
      properties: {
        minimalTlsVersion: 'TLS1_2'
        backupPolicy: { type: 'Continuous', continuousModeProperties: { tier: 'Continuous8Days', days: 8 } }
      }
    }
    """
    found = "; ".join(_complaints(_only(source)))
    assert "minimalTlsVersion is one of" in found
    assert "tier is one of" in found
    assert "continuousModeProperties.days is no property" in found


def _only(source: str) -> Declaration:
    (resource,) = read_text(source, Path("test.bicep")).of("resource").values()
    return resource
