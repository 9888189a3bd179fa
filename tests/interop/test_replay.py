"""Real clients in front of ``mockbroker replay``, each with its program that was recorded on a real Kafka."""

from __future__ import annotations

import subprocess
import sys

import pytest
from effort import usual_and_long
from golden import ROOT
from interop.recorded_programs import FAMILIES, POLL_MS, VALUES, program
from interop.stage import MARKS
from oracle.kafka import NEWEST

pytestmark = MARKS

PATIENCE = 100.0  # seconds
RECORDINGS = ROOT / "fixtures" / "recordings"
COMMAND = [sys.executable, "-m", "mockbroker", "replay", "--port", "0"]
LONGER, SHORTER = 7 * POLL_MS, POLL_MS // 3
RUNS = [(family, POLL_MS, "1") for family in FAMILIES]
MORE = [
    *((family, poll_ms, "1") for family in FAMILIES for poll_ms in (LONGER, SHORTER)),
    *((family, POLL_MS, "max") for family in FAMILIES),
]
CHANGED = ("confluent-kafka", LONGER, "max")


@pytest.mark.parametrize(
    ("family", "poll_ms", "speed"), usual_and_long([*RUNS, CHANGED], [run for run in MORE if run != CHANGED])
)
def test_clients_run_as_recorded(family: str, poll_ms: int, speed: str) -> None:
    """The clients run as recorded, also if the interval of their polls differs from that in the recording."""
    command = program(family)
    recording = RECORDINGS / f"{family}__kafka-{NEWEST}.jsonl"
    replay = subprocess.Popen(
        [*COMMAND, str(recording), "--speed", speed], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert replay.stdout is not None
        servers = replay.stdout.readline().strip().partition("ready bootstrap.servers=")[2]
        done = subprocess.run([*command, servers, str(poll_ms)], capture_output=True, text=True, timeout=PATIENCE)
    finally:
        replay.terminate()
        _, errors = replay.communicate()
    assert sorted(done.stdout.splitlines()) == VALUES, (done.stderr, errors)
    assert done.returncode == replay.returncode == 0, (done.stderr, errors)
    assert "has left the recording" not in errors
