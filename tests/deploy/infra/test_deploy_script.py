"""infra/deploy.sh asks for the right deployment and tells where it is, with a stand-in for Azure's command line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.deploy.infra.bicep import INFRA, read
from tests.deploy.infra.code import ROOT

SAYS = {
    "azurE_RESOURCE_GROUP": {"type": "String", "value": "rg"},
    "azurE_FUNCTION_APP_NAME": {"type": "String", "value": "func-x"},
    "apI_URL": {"type": "String", "value": "https://func-x/api"},
    "apI_AUDIENCE": {"type": "String", "value": "api://x"},
}
"""Outputs as Azure gives them: it changes the case of their names."""


@pytest.fixture
def az(tmp_path: Path) -> Path:
    """A stand-in that writes down what it is asked and answers with outputs."""
    script = tmp_path / "az"
    script.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > '{tmp_path}/asked'\nprintf '%s' '{json.dumps(SAYS)}'\n")
    script.chmod(0o755)
    return tmp_path


def _deploy(az: Path, *arguments: str, **more: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "GITHUB_OUTPUT"}
    environment |= {"PATH": f"{az}{os.pathsep}{os.environ['PATH']}", "LOCATION": "northeurope", **more}
    command = [INFRA / "deploy.sh", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout  # type: ignore[arg-type]


def test_it_says_where_the_app_is(az: Path) -> None:
    assert _deploy(az, "dev") == "group=rg\napp=func-x\nurl=https://func-x/api\naudience=api://x\n"


def test_it_tells_later_steps_of_a_job(az: Path) -> None:
    assert _deploy(az, GITHUB_OUTPUT=str(az / "outputs")) == ""
    assert (az / "outputs").read_text() == "group=rg\napp=func-x\nurl=https://func-x/api\naudience=api://x\n"


@pytest.mark.parametrize(("arguments", "environment"), [([], "prod"), (["dev"], "dev")])
def test_it_deploys_the_template_with_the_values_of_the_environment(
    az: Path, arguments: list[str], environment: str
) -> None:
    _deploy(az, *arguments)
    asked = (az / "asked").read_text().splitlines()
    assert asked[:3] == ["deployment", "sub", "create"]
    assert asked[asked.index("--template-file") + 1] == "infra/main.bicep"
    values = asked[asked.index("--parameters") + 1]
    assert values == f"infra/main.{environment}.bicepparam"
    assert (ROOT / values).exists()
    assert "location=northeurope" in asked


def test_the_outputs_that_it_reads_are_those_of_the_template() -> None:
    assert {name.upper() for name in SAYS} <= read(INFRA / "main.bicep").of("output").keys()


def test_a_deployment_that_fails_is_a_failure(az: Path) -> None:
    (az / "az").write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(subprocess.CalledProcessError):
        _deploy(az)
