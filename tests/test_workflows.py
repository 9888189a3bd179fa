"""The workflows of .github/: the names in their steps exist, and the linter accepts them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from golden import ROOT
from interop.programs import go, run
from need import CACHE

ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"  # Go builds it
FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(path.name for path in FOLDER.glob("*.yml"))
SYSTEMS = ["ubuntu-latest", "macos-latest", "windows-latest"]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def workflow(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text("utf-8"))
    return loaded


def commands(name: str) -> list[str]:
    """Return the scripts of all steps, including the commands in the values of a matrix."""
    found = []
    for job in workflow(name)["jobs"].values():
        found += [step["run"] for step in job.get("steps", []) if "run" in step]
        found += job.get("strategy", {}).get("matrix", {}).get("suite", [])
    return found


@pytest.mark.parametrize("name", FILES)
def test_steps_name_targets_and_files_that_exist(name: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    text = "\n".join(commands(name))
    assert set(re.findall(r"^make ([\w-]+)", text, re.MULTILINE)) <= targets
    for path in re.findall(r"(?<![\w/.])((?:tests|packaging|tools|\.ci|native)/[\w./-]*\w)", text):
        assert (ROOT / path).exists(), path
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {extra for group in re.findall(r"'\.\[([\w,-]+)\]'", text) for extra in group.split(",")} <= set(extras)


@pytest.mark.parametrize("name", FILES)
def test_every_job_has_few_rights_and_an_end(name: str) -> None:
    loaded = workflow(name)
    assert loaded["permissions"] == {"contents": "read"}
    for job in loaded["jobs"].values():
        assert "uses" in job or job["timeout-minutes"] <= 180


MANIFESTS = {  # name of a file with dependencies, and the ecosystem in which Dependabot updates it
    "Cargo.toml": "cargo",
    "Containerfile": "docker",
    "go.mod": "gomod",
    "package.json": "npm",
    "pom.xml": "maven",
    "pyproject.toml": "pip",
}


def manifests() -> Iterator[Path]:
    """Yield the files of the repository that name dependencies, without those that tools have built or fetched."""
    for folder, inside, names in os.walk(ROOT):
        inside[:] = [name for name in inside if name[0] != "." and name not in ("node_modules", "target", "dist")]
        yield from (Path(folder, name) for name in names if name in MANIFESTS)


def test_dependabot_updates_every_manifest() -> None:
    listed = set()
    loaded = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text("utf-8"))
    for entry in loaded["updates"]:
        folders = [entry["directory"]] if "directory" in entry else entry["directories"]
        listed |= {(entry["package-ecosystem"], folder.strip("/") or ".") for folder in folders}
    expected = {(MANIFESTS[path.name], path.parent.relative_to(ROOT).as_posix()) for path in manifests()}
    assert len(expected) > 15
    assert listed - {("github-actions", "."), ("pip", "packaging/locked")} == expected


def test_tests_run_on_every_system_and_python() -> None:
    matrix = workflow("checks.yml")["jobs"]["systems"]["strategy"]["matrix"]
    assert (matrix["os"], matrix["python"], matrix["native"]) == (SYSTEMS, PYTHONS, [False, True])


@pytest.mark.parametrize("name", FILES)
def test_a_machine_can_list_the_steps_of_every_job(name: str) -> None:
    for job, content in workflow(name)["jobs"].items():
        if "steps" not in content:
            continue
        command = [sys.executable, str(ROOT / ".ci" / "workflow"), name, job, "--list"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.count("-- ") == len(content["steps"])


def test_the_linter_accepts_the_workflows() -> None:
    folder = CACHE / "actionlint" / ACTIONLINT.rpartition("@")[2]
    if not (folder / "actionlint").exists():
        run([go(), "install", ACTIONLINT], ROOT, GOBIN=str(folder), GOTOOLCHAIN="auto")
    done = subprocess.run([folder / "actionlint"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")
