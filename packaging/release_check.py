"""Check that every file with a version has the version of a tag, and that CHANGELOG.md has a section for it.

    python packaging/release_check.py v0.2.0

prints each file with another version; exit code 1 if there are any.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSIONS = {  # files, and the line with the version
    "kwire/__init__.py": r'^__version__ = "(.+)"$',
    "packaging/mockbroker/pyproject.toml": r'^version = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "native/Cargo.toml": r'^version = "(.+)"$',
    "CHANGELOG.md": r"^## (\d+\.\d+\.\d+)\b",  # the newest release
}


def versions() -> dict[str, str]:
    """Return the version in each file."""
    found = {}
    for name, pattern in VERSIONS.items():
        match = re.search(pattern, (ROOT / name).read_text("utf-8"), re.MULTILINE)
        found[name] = match[1] if match else "no version"
    return found


if __name__ == "__main__":
    wanted = sys.argv[1].removeprefix("v")
    other = {name: version for name, version in versions().items() if version != wanted}
    for name, version in other.items():
        print(f"{name}: {version}, expected {wanted}", file=sys.stderr)
    sys.exit(bool(other))
