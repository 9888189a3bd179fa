"""``mockbroker replay``, as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from golden import ROOT
from plain_client import PlainClient

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker.cli.replay import _script as script

RECORDING = ROOT / "fixtures" / "recordings" / "kafka-python__mockbroker.jsonl"
COMMAND = [sys.executable, "-m", "mockbroker", "replay", str(RECORDING), "--port", "0"]


def test_departures_are_in_the_journal_and_time_is_manual(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    command = [*COMMAND, "--clock", "manual", "--journal", str(journal)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        servers = process.stdout.readline().strip().partition("ready bootstrap.servers=")[2]
        with PlainClient(servers.split(",")[0]) as client:
            answer = client.ask(HeartbeatRequest(group_id="unknown", generation_id=1, member_id="m"), 4)
            assert answer.error_code == -1
            client.send(ApiVersionsRequest(), 4)
            process.stdin.write("advance 60\nresume\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert (answer["now"], answer["running"], answer["events"]) == (60.0, False, [])
            assert client.answer().error_code == 0
    finally:
        process.terminate()
        process.communicate()
    assert process.returncode == 0
    (event,) = (json.loads(line) for line in journal.read_text("utf-8").splitlines())
    assert event.pop("time").startswith("20")
    assert event == {
        "time_ms": 0, "event": "departure", "group": "unknown", "client": "plain", "member_id": "m", "generation": -1,
        "reason": "Heartbeat v4 is not in the recording",
    }  # fmt: skip


def test_several_files_are_one_recording(tmp_path: Path) -> None:
    """The connections of the first file continue in the second one, as in recordings with --record-size."""
    lines = RECORDING.read_bytes().splitlines(keepends=True)
    parts = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for part, some in zip(parts, (lines[:25], lines[25:]), strict=True):
        part.write_bytes(b"".join(some))
    whole, divided = (
        [(call.api_key, call.request, call.response) for call in script(recording).calls]
        for recording in ([str(RECORDING)], [str(part) for part in reversed(parts)])
    )
    assert whole == divided
    assert len(whole) > 20


def test_the_reason_why_nothing_can_be_replayed_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "damaged.jsonl"
    file.write_text('{"time_us": 1}\n')
    with pytest.raises(click.ClickException, match="no requests with responses"):
        script([str(file)])
    assert capsys.readouterr().err == f"{file} at byte 0: invalid line of a frame log: 'direction' is missing\n"


def test_host_that_cannot_be_resolved_is_an_error() -> None:
    done = subprocess.run([*COMMAND, "--host", "nohost.invalid"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Error: cannot listen on nohost.invalid:0: " in done.stderr
    assert "Unknown error" not in done.stderr
