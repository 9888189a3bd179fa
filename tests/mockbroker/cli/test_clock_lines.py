"""``mockbroker serve --clock manual`` as a process that reads lines from stdin."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from plain_client import PlainClient

COMMAND = [sys.executable, "-m", "mockbroker", "serve", "--port", "0", "--clock", "manual"]
LIMIT = 30  # seconds within which a process must respond
QUICK = ["--set", "group.initial.rebalance.delay.ms=0"]


class Stepped:
    """A broker process whose clock is controlled by lines on stdin."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.servers = self.line().strip().removeprefix("ready bootstrap.servers=")

    def line(self) -> str:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], LIMIT)[0], "nothing was said"
        return self.process.stdout.readline()

    def say(self, text: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()
        return json.loads(self.line())

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT)


@contextmanager
def stepped(*arguments: str, stdin: int = subprocess.PIPE) -> Iterator[Stepped]:
    process = subprocess.Popen([*COMMAND, *arguments], stdin=stdin, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        yield Stepped(process)
    finally:
        process.kill()
        process.communicate()


def test_a_session_of_45_s_expires(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with stepped(*QUICK, "--journal", str(journal)) as broker, PlainClient(broker.servers) as client:
        client.join("g")
        assert broker.say("now\n")["events"] == []
        answer = broker.say("advance 45\n")
        assert (answer["now"], answer["running"]) == (45.0, False)
        assert next((event["event"], event["time_ms"]) for event in answer["events"]) == ("expire", 10_000)
        lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
        first, last = lines[0], lines[-1]
        assert last["event"] == "empty"
        assert first["time"] < last["time"] < answer["time"]
        assert broker.end() == 0


def test_clock_is_resumed_and_stopped() -> None:
    with stepped() as broker:
        assert broker.say("now\n") | {"time": ""} == {"now": 0.0, "time": "", "running": False, "events": []}
        assert broker.say("resume\n")["running"]
        stood = broker.say("stop\n")
        assert not stood["running"]
        assert broker.say("now\n") == stood


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("tick\n", "'tick': expected advance SECONDS, stop, resume or now"),
        ("advance\n", "'advance': expected advance SECONDS, stop, resume or now"),
        ("advance soon\n", "'advance soon': expected a number of seconds, got 'soon'"),
        ("advance -1\n", "'advance -1': cannot advance the clock by -1.0 s: expected 0 to 315360000 s"),
    ],
)
def test_unknown_command_is_reported(line: str, problem: str) -> None:
    with stepped() as broker:
        assert broker.say(line) == {"error": problem}
        assert broker.say("now\n")["now"] == 0.0


def test_a_line_without_end_is_not_kept() -> None:
    with stepped() as broker:
        assert "error" in broker.say("x" * 1_000_000 + "\n")
        assert broker.say("advance 1\n")["now"] == 1.0


def test_the_end_of_stdin_is_not_that_of_the_broker() -> None:
    with stepped(*QUICK) as broker:
        assert broker.process.stdin is not None
        broker.process.stdin.write("advance 1\nadvance 2")  # the last line has no line end
        broker.process.stdin.close()
        broker.process.stdin = None
        assert json.loads(broker.line())["now"] == 1.0
        with PlainClient(broker.servers) as client:
            assert client.join("g").error_code == 0
        assert broker.end() == 0


def test_without_stdin_it_serves() -> None:
    with open(os.devnull, "rb") as nothing, stepped(*QUICK, stdin=nothing.fileno()) as broker:
        with PlainClient(broker.servers) as client:
            assert client.join("g").error_code == 0
        assert broker.end() == 0


def test_a_shell_script_steps_it_through_a_fifo(tmp_path: Path) -> None:
    """The script is the example in docs/testing.md."""
    script = f"""
    set -e
    cd {tmp_path}
    mkfifo clock
    {" ".join(COMMAND)} < clock > said &
    exec 3> clock
    echo "advance 45" >&3
    until grep -q '"now": 45.0' said; do kill -0 $!; done
    kill -TERM $!
    wait $!
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
