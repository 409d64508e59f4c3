"""Every .bicep file is Bicep; what it names is there; modules and their callers agree; so do parameter files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.infra.bicep import INFRA, read, read_parameters, read_text
from tests.deploy.infra.symbols import disagreements, mismatches, undeclared, unused

FILES = sorted(INFRA.rglob("*.bicep"))
PARAMETERS = sorted(INFRA.glob("*.bicepparam"))
MODULE = read_text("param size int\n@secure()\nparam key string\nparam kind string = 'a'\noutput id string = kind")


def by_name(path: Path) -> str:
    return path.name


def test_files_are_found() -> None:
    assert {path.name for path in FILES} >= {"main.bicep", "cosmos.bicep", "function-app.bicep", "network.bicep"}
    assert {path.name for path in PARAMETERS} == {"main.bicepparam", "main.dev.bicepparam", "main.prod.bicepparam"}


@pytest.mark.parametrize("path", FILES, ids=by_name)
def test_it_parses_and_its_names_are_declared_and_used(path: Path) -> None:
    file = read(path)
    assert undeclared(file) + unused(file) == []


@pytest.mark.parametrize("path", FILES, ids=by_name)
def test_modules_and_callers_agree(path: Path) -> None:
    assert list(disagreements(read(path))) == []


def test_every_module_is_used() -> None:
    used = {d.about for d in read(INFRA / "main.bicep").of("module").values()}
    assert used == {path.relative_to(INFRA).as_posix() for path in (INFRA / "modules").glob("*.bicep")}


@pytest.mark.parametrize("path", FILES, ids=by_name)
def test_params_are_described(path: Path) -> None:
    file = read(path)
    needed = [d.name for d in file.declarations if d.kind == "param" and not d.decorators.get("description")]
    assert needed == []


@pytest.mark.parametrize("path", PARAMETERS, ids=by_name)
def test_parameter_files_fit_the_template(path: Path) -> None:
    template, values = read_parameters(path)
    assert template == "main.bicep"
    assert list(mismatches(values, read(INFRA / template))) == []


def test_what_a_module_gets_is_a_literal_of_its_type() -> None:
    assert list(mismatches({"size": 3, "key": "k"}, MODULE)) == []
    assert list(mismatches({"size": "3", "key": "k"}, MODULE)) == ["param size is of type int, not '3'"]
    assert list(mismatches({"size": 3}, MODULE)) == ["param key is missing"]
    assert list(mismatches({"size": 3, "key": "k", "x": 1}, MODULE)) == ["there is no param x"]


def test_limits_of_a_param_are_kept() -> None:
    template = read_text("@minValue(1)\n@maxValue(9)\nparam n int\n@allowed([ 'a' ])\nparam kind string = 'a'")
    assert list(mismatches({"n": 0}, template)) == ["param n is at least 1, not 0"]
    assert list(mismatches({"n": 10}, template)) == ["param n is at most 9, not 10"]
    assert list(mismatches({"n": 1, "kind": "b"}, template)) == ["param kind is one of ['a'], not 'b'"]


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("param a string\noutput b string = c", "c is not declared"),
        ("output b string = sha('x')", "sha is not declared"),
        ("output b array = [for x in [1]: y]", "y is not declared"),
        ("var a = 1", "var a is not used"),
        ("param a string", "param a is not used"),
    ],
)
def test_wrong_names_are_found(source: str, complaint: str) -> None:
    file = read_text(source)
    assert complaint in "; ".join(undeclared(file) + unused(file))


@pytest.mark.parametrize("source", ["param a string =", "resource x 'y' = {", "var a = [1 2"])
def test_what_does_not_parse_is_found(source: str) -> None:
    with pytest.raises(SyntaxError, match=r"\.bicep:\d+: "):
        read_text(source)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("prefix: 'workflows", "prefixes: 'workflows"), "module alerts: there is no param prefixes"),
        (("identity.outputs.clientId", "identity.outputs.appId"), "module identity has no output appId"),
        (("network!.outputs.blobZoneId", "network.outputs.blobZoneId"), "! is for modules that may be missing"),
        (("signingKey: signingKey", "pythonVersion2: signingKey"), "param signingKey is missing"),
        (("maxDrives: maxDrives", "maxDrives: pythonVersion"), "maxDrives is of type int, but pythonVersion of type"),
        (("databaseName: databaseName", "databaseName: signingKey"), "databaseName has to be secure"),
    ],
)
def test_a_wrong_call_of_a_module_is_found(change: tuple[str, str], complaint: str) -> None:
    source = (INFRA / "main.bicep").read_text("utf-8")
    assert change[0] in source
    found = disagreements(read_text(source.replace(*change), INFRA / "main.bicep"))
    assert complaint in "; ".join(found)
