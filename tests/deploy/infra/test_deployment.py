"""azd's file, host.json and the workflow of GitHub Actions fit the templates and the app."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from devhost.settings import load_host_settings, timespan
from engine import Settings
from engine.boundary.http import MAX_WAIT_SECONDS
from engine.store.cosmos.resend import BUDGET as RETRY_SECONDS
from tests.deploy.infra.bicep import INFRA, read
from tests.deploy.infra.code import ROOT, TRIGGERS, trigger

HOST: dict[str, Any] = json.loads((ROOT / "host.json").read_text("utf-8"))
AZURE_YAML: dict[str, Any] = yaml.safe_load((ROOT / "azure.yaml").read_text("utf-8"))
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/infra.yml").read_text("utf-8"))
JOBS: dict[str, Any] = WORKFLOW["jobs"]


def _steps() -> list[Any]:
    return [
        pytest.param(step, id=f"{job}-{number}")
        for job, definition in JOBS.items()
        for number, step in enumerate(definition["steps"])
    ]


def test_azd_finds_the_app_by_its_tag() -> None:
    (service,) = AZURE_YAML["services"]
    tags = read(INFRA / "modules/function-app.bicep").of("resource")["app"].value["tags"]
    assert f"'azd-service-name': '{service}'" in tags
    assert AZURE_YAML["services"][service] == {"project": ".", "language": "python", "host": "function"}
    assert read(INFRA / "main.bicep").of("var")["tags"].value == {"azd-env-name": "environmentName"}


def test_azd_finds_the_template_and_its_values() -> None:
    infra = AZURE_YAML["infra"]
    assert (ROOT / infra["path"] / f"{infra['module']}.bicepparam").exists()
    assert read(INFRA / "main.bicep").scope == "subscription"
    assert {"AZURE_RESOURCE_GROUP", "AZURE_LOCATION"} <= read(INFRA / "main.bicep").of("output").keys()


def test_the_environment_of_azd_stays_out_of_the_repository() -> None:
    assert ".azure/" in (ROOT / ".gitignore").read_text("utf-8").split(), "azd keeps secrets there"


def test_an_invocation_may_take_longer_than_any_that_is_meant_to() -> None:
    timeout = load_host_settings(ROOT / "host.json").timeout_seconds
    assert timeout is not None
    assert timeout > 2 * max(MAX_WAIT_SECONDS, Settings.batch_budget.total_seconds())


def test_a_drive_of_the_queue_hands_over_before_it_is_cut_off() -> None:
    """The rest of the time is for its last step, and for the store when it is slow."""
    timeout = load_host_settings(ROOT / "host.json").timeout_seconds
    assert timeout is not None
    over = Settings.invocation_budget + Settings.let_go_within
    assert timeout - over.total_seconds() >= RETRY_SECONDS


def test_what_tells_of_an_execution_is_never_sampled_away() -> None:
    sampling = HOST["logging"]["applicationInsights"]["samplingSettings"]
    assert set(sampling["excludedTypes"].split(";")) >= {"Request", "Exception", "Trace", "Event"}


def test_the_api_is_where_its_address_says() -> None:
    prefix = load_host_settings(ROOT / "host.json").route_prefix
    output = read(INFRA / "modules/function-app.bicep").of("output")["url"]
    assert str(output.value).strip("'").endswith(f"/{prefix}")


def test_a_batch_that_fails_is_given_up_within_minutes() -> None:
    """A try may take the store's patience and a batch's budget. A partition waits no longer than that, and a draining
    instance ends. The sweep finds what the batch held."""
    retry = TRIGGERS.read_text("utf-8")
    (count,) = re.findall(r'max_retry_count="(-?\d+)"', retry)
    (longest,) = re.findall(r'maximum_interval="([\d:]+)"', retry)
    one_try = RETRY_SECONDS + Settings.batch_budget.total_seconds() + timespan(longest)
    assert int(count) > 0
    assert (1 + int(count)) * one_try < 600
    assert trigger("drive_changes")["feed_poll_delay"] == 500


def test_the_workflow_comes_in_by_oidc_and_may_do_little() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    for name, job in JOBS.items():
        logs_in = [step for step in job["steps"] if str(step.get("uses", "")).startswith("azure/login@")]
        assert bool(logs_in) == (job.get("permissions", {}).get("id-token") == "write"), name
        assert bool(logs_in) == ("environment" in job), f"{name}: an identity belongs to an environment"
        for step in logs_in:
            assert set(step["with"]) == {"client-id", "tenant-id", "subscription-id"}


def test_the_workflow_builds_before_it_deploys_and_deploys_tags_alone() -> None:
    triggers = WORKFLOW[True]  # YAML reads `on` as true
    assert triggers["push"]["tags"] == ["v*"]
    assert JOBS["what-if"]["needs"] == "build"
    assert JOBS["deploy"]["needs"] == "build"
    assert "refs/tags/v" in JOBS["deploy"]["if"]
    assert JOBS["roll-back"]["if"].startswith("failure()") or "failure()" in JOBS["roll-back"]["if"]


@pytest.mark.parametrize("step", _steps())
def test_a_step_is_a_script_of_bash_or_an_action_of_a_fixed_version(step: dict[str, Any]) -> None:
    if "uses" in step:
        assert re.fullmatch(r"[\w./-]+@v\d+(\.\d+)*", step["uses"])
        return
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash to check it with")
    script = re.sub(r"\$\{\{.*?\}\}", "value", step["run"])
    checked = subprocess.run([bash, "-n"], input=script, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert "${{ github.event" not in step["run"], "text from outside goes through env, never into a script"
    for path in re.findall(r"\b(?:infra|requirements|constraints)[\w./-]*\.(?:bicep(?:param)?|txt)\b", step["run"]):
        assert (ROOT / path).exists(), path
