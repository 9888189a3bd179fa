"""The second distribution and the files of the container fit the project."""

from __future__ import annotations

import json
import tomllib
from typing import Any

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
