"""The second distribution and the files of the container fit the project."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
import yaml
from golden import ROOT

import kwire

CONTAINER = ROOT / "packaging" / "container"


def project(path: str) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / path / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def test_the_distribution_mockbroker_requires_this_version() -> None:
    second = project("packaging/mockbroker")
    assert second["version"] == kwire.__version__
    assert second["dependencies"] == [f"kwire[http] =={kwire.__version__}"]
    assert second["scripts"] == {"mockbroker": project(".")["scripts"]["mockbroker"]}


def test_all_has_every_extra_for_users() -> None:
    extras = project(".")["optional-dependencies"]
    (everything,) = extras["all"]
    named = everything.removeprefix("kwire[").removesuffix("]").split(",")
    assert {"capture", "fuzz", "http", "pytest", "report", "spark"} <= set(named) <= set(extras)


def test_the_container_is_not_root_and_has_a_health_check() -> None:
    lines = (CONTAINER / "Containerfile").read_text("utf-8").splitlines()
    words = [line.partition(" ") for line in lines]
    assert ("USER", " ", "10001:10001") in words
    (health,) = [rest for name, _, rest in words if name == "HEALTHCHECK"]
    assert json.loads(health.partition("CMD ")[2])[0] == "python"


def test_the_compose_file_publishes_on_loopback_only() -> None:
    services = yaml.safe_load((CONTAINER / "compose.yaml").read_text("utf-8"))["services"]
    assert [port.partition(":")[0] for port in services["mockbroker"]["ports"]] == ["127.0.0.1", "127.0.0.1"]


def locked(name: str) -> dict[str, set[str]]:
    """Return the versions in a file of locked dependencies, by name. A line without an exact version fails."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / "packaging" / "locked" / name).read_text("utf-8").splitlines():
        if line.strip() and not line.startswith((" ", "#")):
            match = re.match(r"([\w.-]+)==([\w.!+-]+)", re.sub(r"\[.*?\]", "", line))
            assert match, line
            found.setdefault(normalized(match[1]), set()).add(match[2])
    return found


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required(extras: tuple[str, ...]) -> set[str]:
    """Return the names of the packages that the project and some extras require directly."""
    of_extras, names, todo = project(".")["optional-dependencies"], set[str](), list(extras)
    lines = list(project(".")["dependencies"])
    while todo:
        lines += of_extras[todo.pop()]
        for line in [line for line in lines if line.startswith("kwire[")]:
            lines.remove(line)
            todo += line.removeprefix("kwire[").partition("]")[0].split(",")
    for line in lines:
        names.add(normalized(re.split(r"[ \[;<>=]", line)[0]))
    return names


@pytest.mark.parametrize(("file", "extras"), [("dev.txt", ("dev",)), ("run.txt", ("http",))])
def test_every_dependency_has_a_locked_version(file: str, extras: tuple[str, ...]) -> None:
    versions = locked(file)
    assert required(extras) <= versions.keys()
    assert len(versions) > len(required(extras)), "and the dependencies of dependencies"


def test_locked_dependencies_of_the_product_have_hashes() -> None:
    text = (ROOT / "packaging" / "locked" / "run.txt").read_text("utf-8")
    requirements = [each for each in re.split(r"^(?=\w)", text, flags=re.MULTILINE) if each]
    assert len(requirements) > 10
    assert all("--hash=sha256:" in each for each in requirements)


def test_every_push_audits_the_locked_dependencies() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text("utf-8"))
    commands = "\n".join(step.get("run", "") for step in workflow["jobs"]["check"]["steps"])
    assert "LOCKED=1" in commands
    assert "pip-audit --strict --no-deps --disable-pip -r packaging/locked/dev.txt" in commands
