"""What a test does when something outside of Python is not there."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def need(tool: str, why: str) -> str:
    """The path of a command. Without it the test is skipped, with the reason; where CI=true, it fails."""
    found = shutil.which(tool)
    return found or lacking(f"{tool} is not installed: {why}")


def lacking(reason: str) -> NoReturn:
    """Skip for this reason; fail where CI=true, where everything is there."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
