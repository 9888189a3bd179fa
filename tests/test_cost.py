"""The work of every request is linear: fuzzing/cost.py counts it, and finds slow code that is planted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FUZZING = Path(__file__).parent.parent / "fuzzing"
sys.path.insert(0, str(FUZZING))
import planted  # noqa: E402 - found there
from effort import amount  # noqa: E402

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each request is measured in a copy of the process")


def test_work_is_linear_and_planted_slow_code_is_found():
    """One run checks both, because most of its time is spent on rewriting the code and filling the brokers."""
    pieces = planted.PLANTED[: amount(1, len(planted.PLANTED))]
    step = amount(5, 1)
    command = [sys.executable, str(FUZZING / "cost.py"), "--step", str(step), "--planted", str(len(pieces))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    (number,) = [index for index, line in enumerate(lines) if line.startswith("cost: ")]
    assert lines[:number] == [], done.stderr
    assert int(lines[number].split()[1]) > 400 // step, "requests of all APIs"
    assert lines[number + 1 :] == [f"planted: {each.what} ({each.api}): found" for each in pieces]
    assert (done.returncode, done.stderr) == (0, "")
