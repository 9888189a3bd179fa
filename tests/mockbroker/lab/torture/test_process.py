"""A client as a child process."""

from __future__ import annotations

import os
import sys
import time

import pytest

pytest.importorskip("psutil")

from mockbroker.lab.torture.process import OUTPUT, ClientProcess


def started(code: str) -> ClientProcess:
    return ClientProcess([sys.executable, "-c", code], {"GREETING": "tea"})


def ended(process: ClientProcess) -> int:
    deadline = time.monotonic() + 30
    while process.exit_code is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.end()
    assert process.exit_code is not None
    return process.exit_code


def test_the_end_of_the_output_is_kept() -> None:
    process = started(f"import os; print('x' * {2 * OUTPUT}); print(os.environ['GREETING'])")
    assert ended(process) == 0
    assert len(process.output) == OUTPUT
    assert process.output.endswith("tea\n")
    assert not process.has_crashed


@pytest.mark.parametrize(
    ("code", "crashed"),
    [
        ("raise SystemExit(3)", False),
        ("import os; os.abort()", True),
        ("print('panic: runtime error'); raise SystemExit(2)", True),
        ("print('panic: runtime error')", False),
        ("print('    at TCP.onStreamRead (node:internal/stream_base:1:2)'); raise SystemExit(1)", True),
        ("raise SystemExit(139)", True),
        ("raise SystemExit(255)", False),  # like a program in PHP or Perl after an exception, or sys.exit(-1)
        ("raise SystemExit(200)", False),
    ],
)
def test_a_crash_is_a_signal_or_an_error_of_the_runtime(code: str, crashed: bool) -> None:
    process = started(code)
    ended(process)
    assert process.has_crashed == crashed


def test_the_largest_use_of_resources_is_kept() -> None:
    process = started(
        "import sys; data = bytes(60_000_000); print('ready', flush=True); del data; sys.stdin.read(); import time; time.sleep(60)"
    )
    deadline = time.monotonic() + 30
    while "ready" not in process.output and time.monotonic() < deadline:
        assert process.sample() >= 0
        time.sleep(0.02)
    process.sample()
    process.end()
    assert process.usage.memory > 5_000_000
    assert process.usage.threads >= 1
    assert process.exit_code == -15


def test_children_are_ended_too() -> None:
    code = "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); print(child.pid, flush=True); child.wait()"
    process = started(code)
    deadline = time.monotonic() + 30
    while not process.output and time.monotonic() < deadline:
        time.sleep(0.02)
    child = int(process.output)
    process.end()
    for _ in range(500):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        with open(f"/proc/{child}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "Z":
                return  # the process has ended, and is a zombie until init reaps it
        time.sleep(0.02)
    pytest.fail("the child still runs")
