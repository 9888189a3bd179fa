"""The work and the response of each request in the simulator stay below a bound: fuzzing/simulated_cost.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from effort import amount

SCRIPT = Path(__file__).parent.parent / "fuzzing" / "simulated_cost.py"


def test_requests_are_bounded_and_slow_code_is_found():
    """One run checks both, because most of its time is spent on rewriting the code."""
    command = [sys.executable, str(SCRIPT), "--planted", "--events", "300", "--seeds", str(amount(1, 10))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    (number,) = [index for index, line in enumerate(lines) if line.startswith("cost: ")]
    _, requests, _, findings, _ = lines[number].split()
    assert (done.returncode, done.stderr, findings) == (0, "", "0"), done.stdout
    assert int(requests) > 500
    assert [line.rpartition(": ")[2] for line in lines[number + 1 :]] == ["found", "found"]
