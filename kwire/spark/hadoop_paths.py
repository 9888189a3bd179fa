"""Local paths in the form in which Spark reads the file or folder: Spark reads a path as a pattern.

This module does not depend on Spark.
"""

from __future__ import annotations

import re

from kwire.capture.files.file_systems import is_address

_SPECIAL = re.compile(r"[\\*?\[\]{}]")


def path_to_read(path: str) -> str:
    """Return a local path with the special characters of patterns escaped. An address is returned unchanged."""
    return path if is_address(path) else _SPECIAL.sub(r"\\\g<0>", path)
