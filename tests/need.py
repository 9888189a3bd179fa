"""Skip or fail a test when a command outside of Python is missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

# Where tests keep built and fetched files. ``make test-bare`` sets it to an empty folder, as in a fresh checkout.
CACHE = Path(os.environ.get("KWIRE_TEST_CACHE", Path(__file__).parent.parent / ".cache"))


def need(tool: str, why: str) -> str:
    """Return the path of a command. If it is missing, the test is skipped with the reason; with CI=true, it fails."""
    path = shutil.which(tool)
    return path or lacking(f"{tool} is not installed: {why}")


def lacking(reason: str) -> NoReturn:
    """Skip the test for this reason; with CI=true, fail it, because everything is installed there."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
