"""Public names and signatures are those of the last release, except for changes that CHANGELOG.md names."""

from __future__ import annotations

import re

import pytest
import release_check
from golden import ROOT
from public_api import api

from kwire import __version__
from mockbroker.control.table import openapi

RECORDED = dict(line.split(": ", 1) for line in (ROOT / "tests" / "public_api.txt").read_text("utf-8").splitlines())


def unreleased(changelog: str) -> str:
    """Return the section of changes since the last release."""
    return changelog.partition("## Unreleased\n")[2].partition("\n## ")[0]


def unannounced(recorded: dict[str, str], current: dict[str, str], changelog: str) -> list[str]:
    """Return names that were added, changed or removed, and that the section Unreleased does not mention."""
    names = sorted(set(recorded) | set(current))
    words = set(re.findall(r"\w+", unreleased(changelog)))
    changed = [name for name in names if recorded.get(name) != current.get(name)]
    return [name for name in changed if name.rpartition(".")[2] not in words]


def test_changed_public_names_are_in_the_changelog() -> None:
    """A new, changed or removed name is named in CHANGELOG.md; a release records the names: tools/public_api.py."""
    assert unannounced(RECORDED, api(), (ROOT / "CHANGELOG.md").read_text("utf-8")) == []


LOG = "# Changelog\n\n## Unreleased\n\n- kwire: `encode` has an argument.\n\n## 0.2.0\n\n- kwire: `decode`\n"


@pytest.mark.parametrize(
    ("recorded", "current", "noticed"),
    [
        ({"kwire.decode": "(a)"}, {"kwire.decode": "(a)"}, []),
        ({"kwire.decode": "(a)"}, {"kwire.decode": "(a, b)"}, ["kwire.decode"]),
        ({"kwire.decode": "(a)"}, {}, ["kwire.decode"]),
        ({}, {"kwire.recode": "(a)"}, ["kwire.recode"]),
        ({"kwire.encode": "(a)"}, {"kwire.encode": "(a, b)"}, []),
    ],
    ids=["the same", "changed", "removed", "new", "changed and announced"],
)
def test_change_without_an_entry_is_noticed(
    recorded: dict[str, str], current: dict[str, str], noticed: list[str]
) -> None:
    assert unannounced(recorded, current, LOG) == noticed


def test_every_path_of_the_control_api_has_its_version() -> None:
    outside = {path for path in openapi()["paths"] if not path.startswith("/v1/")}
    assert outside <= {"/", "/openapi.json", "/page/{file}"}


def test_every_file_with_a_version_has_the_same() -> None:
    assert set(release_check.versions().values()) == {__version__}


def test_release_check_reads_the_files_of_the_instructions() -> None:
    """CONTRIBUTING.md, under "Release", lists the files with a version."""
    step = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Release\n")[2]
    listed = re.findall(r"`([\w./]+\.(?:toml|cff|md)|kwire/__init__\.py)`", step)
    assert set(listed) == set(release_check.VERSIONS)
