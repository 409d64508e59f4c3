"""Stands in for git, az, azd and func, one name each: `python azure_tools.py NAME ARGUMENTS…`.

They know what the README asks of them and nothing else; whatever the real ones would refuse for lack of something (a
sign-in, a deployment, a file, a parameter) they refuse. What has been done stands in files of the folder `STATE`. The
deployed app is the local host at `STANDIN_URL`, which takes the key `STANDIN_KEY`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.infra.bicep import read, read_parameters
from tests.deploy.infra.code import ROOT
from tests.deploy.infra.symbols import mismatches

STATE = Path(os.environ.get("STATE", "."))
GROUP, APP = "rg-workflows-dev", "func-abc123"
AUDIENCE = "api://11111111-2222-3333-4444-555555555555"


class Refused(Exception):
    """What the real one would say no to."""


def git(arguments: list[str]) -> str:
    """`git clone ADDRESS FOLDER` gives the files that are here."""
    options = _parse(arguments, "clone", "address", "folder")
    Path(options["folder"]).symlink_to(ROOT)
    return ""


def az(arguments: list[str]) -> str:
    """`az login`, `az deployment sub create`, `az functionapp keys list|stop|start`, `az cosmosdb restore`,
    `az account get-access-token`."""
    if arguments == ["login"]:
        return _done("az signed in")
    _need("az signed in")
    count = next((n for n, argument in enumerate(arguments) if argument.startswith("-")), len(arguments))
    command, options = " ".join(arguments[:count]), arguments[count:]
    match command:
        case "deployment sub create":
            return _create(options)
        case "functionapp keys list":
            _need("app deployed")
            given = _of_the_app(_options(options, "resource-group", "name", "query", "output"))
            if (given["query"], given["output"]) != ("functionKeys.default", "tsv"):
                raise Refused("it prints the default key as text alone")
            return os.environ["STANDIN_KEY"]
        case "account get-access-token":
            given = _options(options, "resource", "query", "output")
            if (given["resource"], given["query"], given["output"]) != (AUDIENCE, "accessToken", "tsv"):
                raise Refused(f"there is no token for {given}")
            return os.environ["STANDIN_TOKEN"]
        case "functionapp stop" | "functionapp start":
            _of_the_app(_options(options, "resource-group", "name"))
            return _done("app stopped" if command.endswith("stop") else "app started")
        case "cosmosdb restore":
            needed = ("resource-group", "location", "account-name", "target-database-account-name")
            given = _options(options, *needed, "restore-timestamp")
            datetime.fromisoformat(given["restore-timestamp"].replace("Z", "+00:00"))
            return _done(f"account restored as {given['target-database-account-name']}")
    raise Refused(f"az {command}")


def azd(arguments: list[str]) -> str:
    """`azd auth login`, `azd up`, `azd env get-value NAME`."""
    if arguments == ["auth", "login"]:
        return _done("azd signed in")
    _need("azd signed in")
    if arguments == ["up"]:
        project = yaml.safe_load(Path("azure.yaml").read_text("utf-8"))
        infra = Path(project["infra"]["path"])
        template = infra / f"{project['infra']['module']}.bicep"
        _deploy(template, [str(template.with_suffix(".bicepparam"))])
        for service in project["services"].values():
            _publish(Path(service["project"]))
        return ""
    if arguments[:2] == ["env", "get-value"] and len(arguments) == 3:
        _need("infrastructure deployed")
        return _outputs()[arguments[2]]
    raise Refused(f"azd {' '.join(arguments)}")


def func(arguments: list[str]) -> str:
    """`func azure functionapp publish APP --python`."""
    _need("az signed in")
    _need("infrastructure deployed")
    if arguments != ["azure", "functionapp", "publish", APP, "--python"]:
        raise Refused(f"func {' '.join(arguments)}")
    _publish(Path())
    return ""


def _create(arguments: list[str]) -> str:
    parser = argparse.ArgumentParser(exit_on_error=False)
    for name, required in (("location", True), ("template-file", True), ("name", False), ("query", False)):
        parser.add_argument(f"--{name}", required=required)
    parser.add_argument("--output", choices=["json"], default="json")
    parser.add_argument("--parameters", action="append", nargs="+", required=True)
    given = parser.parse_args(arguments)
    _deploy(Path(given.template_file), [one for several in given.parameters for one in several])
    if given.query != "properties.outputs":
        return "{}"
    # Azure changes the case of their names.
    return json.dumps({name[:5].lower() + name[5:]: {"value": value} for name, value in _outputs().items()})


def _options(arguments: list[str], *names: str) -> dict[str, str]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    for name in names:
        parser.add_argument(f"--{name}", required=True, dest=name)
    return vars(parser.parse_args(arguments))


def _of_the_app(given: dict[str, str]) -> dict[str, str]:
    if (given["resource-group"], given["name"]) != (GROUP, APP):
        raise Refused(f"there is no app {given['name']} in {given['resource-group']}")
    return given


def _deploy(template: Path, parameters: list[str]) -> None:
    values: dict[str, Any] = {}
    for given in parameters:
        if given.endswith(".bicepparam"):
            named, found = read_parameters(Path(given))
            if Path(given).parent / named != template:
                raise Refused(f"{given} is for {named}")
            values |= found
        else:
            name, _, text = given.partition("=")
            values[name] = text
    if wrong := list(mismatches(values, read(template))):
        raise Refused("; ".join(wrong))
    (STATE / "parameters").write_text(json.dumps(values, default=str))
    _done("infrastructure deployed")


def _publish(folder: Path) -> None:
    for name in ("host.json", "function_app.py", "requirements.txt"):
        if not (folder / name).is_file():
            raise Refused(f"there is no {name} here")
    _done("app deployed")


def _outputs() -> dict[str, str]:
    values = {"AZURE_RESOURCE_GROUP": GROUP, "AZURE_FUNCTION_APP_NAME": APP, "API_URL": os.environ["STANDIN_URL"]}
    values["API_AUDIENCE"] = os.environ.get("STANDIN_AUDIENCE", "")
    return {name: values.get(name, "of no matter") for name in read(ROOT / "infra/main.bicep").of("output")}


def _parse(arguments: list[str], command: str, *names: str) -> dict[str, str]:
    if arguments[:1] != [command] or len(arguments) != 1 + len(names):
        raise Refused(f"{command} takes {', '.join(names)}")
    return dict(zip(names, arguments[1:], strict=True))


def _done(what: str) -> str:
    (STATE / what).touch()
    with (STATE / "log").open("a", encoding="utf-8") as log:
        log.write(f"{what}\n")
    return ""


def _need(what: str) -> None:
    if not (STATE / what).exists():
        raise Refused(f"this comes before it: {what}")


if __name__ == "__main__":
    try:
        sys.stdout.write({"git": git, "az": az, "azd": azd, "func": func}[sys.argv[1]](sys.argv[2:]))
    except (Refused, argparse.ArgumentError, OSError, KeyError) as refusal:
        sys.exit(f"{sys.argv[1]}: {refusal}")
