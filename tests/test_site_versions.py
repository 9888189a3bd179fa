"""The sites of all versions side by side, and the list for the version selector."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from site_versions import add_version


def site_of(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "index.html").write_text(text, "utf-8")
    return folder


def test_latest_is_the_newest_release(tmp_path: Path) -> None:
    """Versions compare by number: 0.10.0 is newer than 0.9.0, even if an older release is published afterwards."""
    published = tmp_path / "published"
    for version in ("0.9.0", "0.10.0", "0.9.1"):
        versions = add_version(site_of(tmp_path / version, version), published, version)
    assert versions == ["0.10.0", "0.9.1", "0.9.0"]
    assert (published / "latest" / "index.html").read_text("utf-8") == "0.10.0"
    assert (published / "0.9.1" / "index.html").read_text("utf-8") == "0.9.1"
    listed = json.loads((published / "versions.json").read_text("utf-8"))
    assert [(each["version"], each["aliases"]) for each in listed] == [
        ("0.10.0", ["latest"]),
        ("0.9.1", []),
        ("0.9.0", []),
    ]


def test_site_of_a_version_is_replaced(tmp_path: Path) -> None:
    published = tmp_path / "published"
    add_version(site_of(tmp_path / "first", "first"), published, "0.2.0")
    (published / "0.2.0" / "removed.html").touch()
    assert add_version(site_of(tmp_path / "second", "second"), published, "0.2.0") == ["0.2.0"]
    assert [path.name for path in (published / "0.2.0").iterdir()] == ["index.html"]


@pytest.mark.parametrize("version", ["", "1.2", "../0.2.0", "0.2.0rc1"])
def test_other_names_are_refused(version: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a release: expected three numbers"):
        add_version(tmp_path, tmp_path / "published", version)
