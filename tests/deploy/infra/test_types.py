"""Every property of every resource is one that Microsoft publishes for that type in that API version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.deploy.infra.bicep import INFRA, Declaration, read, read_text
from tests.deploy.infra.published import problems

UNPUBLISHED = ["properties.functionAppConfig.siteUpdateStrategy is no property"]
"""Documented, and missing from the published types of every version so far. The compiler warns of it, and is told why
that is right. (https://learn.microsoft.com/azure/azure-functions/flex-consumption-site-updates)"""


def _resources() -> list[Any]:
    return [
        pytest.param(resource, id=f"{path.stem}-{resource.name}")
        for path in sorted(INFRA.rglob("*.bicep"))
        for resource in read(path).of("resource").values()
        if not resource.is_existing
    ]


@pytest.mark.parametrize("resource", _resources())
def test_properties_are_those_of_the_published_type(resource: Declaration) -> None:
    expected = UNPUBLISHED if resource.about.startswith("Microsoft.Web/sites@") else []
    assert list(problems(resource)) == expected


def test_the_compiler_is_told_why_a_property_is_not_published() -> None:
    lines = [line.strip() for line in (INFRA / "modules/function-app.bicep").read_text("utf-8").splitlines()]
    place = lines.index("siteUpdateStrategy: {")
    assert lines[place - 1] == "#disable-next-line BCP037"
    assert lines[place - 2].startswith("//")


APP = """
resource app 'Microsoft.Web/sites@2024-11-01' = {
  location: 'here'
  properties: {
    httpsOnly: true
    functionAppConfig: {
      runtime: { name: 'python', version: '3.13' }
      scaleAndConcurrency: { alwaysReady: [ { name: 'http', instanceCount: 1 } ] }
    }
  }
}
"""
ALERT = """
resource alert 'Microsoft.Insights/metricAlerts@2018-03-01' = {
  location: 'global'
  properties: {
    severity: 2
    enabled: true
    scopes: [ 'x' ]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT5M'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [ { name: 'x', metricName: 'm', criterionType: 'StaticThresholdCriterion', timeAggregation: 'Count' } ]
    }
    actions: [ { actionGroupId: 'x' } ]
  }
}
"""


@pytest.mark.parametrize(
    ("source", "good", "bad", "complaint"),
    [
        (APP, "httpsOnly: true", "httpOnly: true", "properties.httpOnly is no property"),
        (APP, "httpsOnly: true", "httpsOnly: 'yes'", "properties.httpsOnly is of kind bool"),
        (APP, "httpsOnly: true", "state: 'Running'", "properties.state is set by the service alone"),
        (APP, "instanceCount: 1", "count: 1", "scaleAndConcurrency.alwaysReady[].count is no property"),
        (APP, "name: 'python'", "name: 'cobol'", "runtime.name is one of"),
        (APP, "location: 'here'", "", "location is required"),
        (APP, "2024-11-01", "2011-01-01", "Microsoft.Web/sites@2011-01-01 None is no published type"),
        (APP, "httpsOnly: true", "siteConfig: { limits: {} }", "published_types.json has nothing of this object"),
        (ALERT, "criterionType:", "criterionTyp:", "criteria.allOf[].criterionTyp is no property"),
        (ALERT, "actionGroupId", "actionGroup", "properties.actions[].actionGroup is no property"),
        (ALERT, "severity: 2", "urgency: 2", "properties.severity is required"),
    ],
)
def test_what_is_wrong_is_found(source: str, good: str, bad: str, complaint: str) -> None:
    assert list(problems(_only(source))) == []
    assert good in source
    assert complaint in "; ".join(problems(_only(source.replace(good, bad))))


def _only(source: str) -> Declaration:
    (resource,) = read_text(source, Path("test.bicep")).of("resource").values()
    return resource
