"""Add the documentation site of a version to a folder with the sites of all versions, for the theme's version selector.

    make site; python tools/site_versions.py dist/site published 0.2.0

Each version has a folder. ``latest`` is a copy of the newest release, to which the index leads. The theme reads the
list of versions from ``versions.json``, in the format of the program mike.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

LATEST = "latest"
INDEX = f"""\
<!doctype html>
<meta charset="utf-8">
<title>mockbroker and kwire</title>
<meta http-equiv="refresh" content="0; url={LATEST}/">
<a href="{LATEST}/">The documentation of the newest release</a>
"""
RELEASE = re.compile(r"\d+\.\d+\.\d+")


def add_version(site: Path, published: Path, version: str) -> list[str]:
    """Copy a site into the folder of its version, and write the list of versions.

    Args:
        site: the built site.
        published: the folder with the sites of all versions; it is made if it does not exist.
        version: the version, such as ``0.2.0``; its site is replaced if it exists.

    Returns: all versions, newest first.

    Raises: ValueError if the version does not have three numbers.
    """
    if not RELEASE.fullmatch(version):
        raise ValueError(f"{version!r} is not a release: expected three numbers such as 0.2.0")
    _copy(site, published / version)
    found = [path.name for path in published.iterdir() if RELEASE.fullmatch(path.name)]
    versions = sorted(found, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    if versions[0] == version:
        _copy(site, published / LATEST)
    listed = [{"version": name, "title": name, "aliases": [LATEST] if name == versions[0] else []} for name in versions]
    (published / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", "utf-8")
    (published / "index.html").write_text(INDEX, "utf-8")
    (published / ".nojekyll").touch()  # GitHub Pages serves the files as they are
    return versions


def _copy(site: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(site, folder)


if __name__ == "__main__":
    print(*add_version(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].removeprefix("v")))
