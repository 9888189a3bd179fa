"""What a test does when something outside of Python is not there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

# Where tests keep what they build and fetch. ``make test-bare`` sets it to an empty folder, as a fresh checkout has.
CACHE = Path(os.environ.get("KWIRE_TEST_CACHE", Path(__file__).parent.parent / ".cache"))


def need(tool: str, why: str) -> str:
    """The path of a command. Without it the test is skipped, with the reason; where CI=true, it fails."""
    path = shutil.which(tool)
    return path or lacking(f"{tool} is not installed: {why}")


def lacking(reason: str) -> NoReturn:
    """Skip for this reason; fail where CI=true, where everything is there."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
