"""mockbroker replay, as a process for the clients that were recorded; some poll at other intervals than then."""

from __future__ import annotations

import subprocess
import sys

import pytest
from effort import usual_and_long
from golden import ROOT

PROGRAM = str(ROOT / "tests" / "tools" / "recorded_programs.py")
PATIENCE = 100.0
RECORDINGS = ROOT / "fixtures" / "recordings"
COMMAND = [sys.executable, "-m", "mockbroker", "replay", "--port", "0"]
RUNS = [  # the recording, the interval of polls in milliseconds (100 when it was recorded), and the speed
    ("confluent-kafka__kafka-4.2.0", 700, "max"),
    ("kafka-python__mockbroker", 700, "1"),
    ("aiokafka__mockbroker", 30, "1"),
]
MORE = [
    ("confluent-kafka__mockbroker", 100, "1"),
    ("kafka-python__mockbroker", 30, "max"),
    ("aiokafka__mockbroker", 700, "max"),
]


@pytest.mark.parametrize(("name", "poll_ms", "speed"), usual_and_long(RUNS, MORE))
def test_clients_run_as_recorded(name: str, poll_ms: int, speed: str) -> None:
    command = [*COMMAND, str(RECORDINGS / f"{name}.jsonl"), "--speed", speed]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        servers = process.stdout.readline().strip().partition("ready bootstrap.servers=")[2]
        program = [sys.executable, PROGRAM, name.partition("__")[0], servers, str(poll_ms)]
        done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=PATIENCE)
    finally:
        process.terminate()
        _, errors = process.communicate()
    assert sorted(done.stdout.split()) == [f"{number}" for number in range(6)]
    assert "has left the recording" not in errors
    assert process.returncode == 0
