"""``serve --stop-on-stdin-eof``, and the lines that ``serve`` reads from stdin."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from mockbroker.cli import stdin

COMMAND = [sys.executable, "-m", "mockbroker", "serve", "--port", "0"]
LIMIT = 30  # seconds within which a process must respond
PARENT = "import subprocess, sys; subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE).wait()"


@contextmanager
def started(*command: str, input_from: int = subprocess.PIPE) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that serves, and wait until it is ready."""
    process = subprocess.Popen(command, stdin=input_from, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], LIMIT)[0], "not ready in time"
        assert process.stdout.readline().startswith(b"ready ")
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("clock", ["real", "manual"])
def test_stops_when_stdin_ends(clock: str) -> None:
    with started(*COMMAND, "--stop-on-stdin-eof", "--clock", clock) as process:
        assert process.stdin is not None
        process.stdin.write(b"now\n")
        process.stdin.flush()
        if clock == "manual":  # clock commands are still executed
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["running"] is False
        process.stdin.close()
        process.stdin = None
        assert process.wait(LIMIT) == 0


def test_stops_when_the_parent_is_killed() -> None:
    with started(sys.executable, "-c", PARENT, *COMMAND, "--stop-on-stdin-eof") as parent:
        parent.kill()
        assert parent.stdout is not None
        # The broker has inherited stdout: the pipe ends when no process has it open.
        assert select.select([parent.stdout], [], [], LIMIT)[0], "the broker runs on"
        assert parent.stdout.read() == b""


def test_without_the_option_the_end_of_stdin_is_ignored() -> None:
    with started(*COMMAND, input_from=subprocess.DEVNULL) as process, pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)


async def test_lines_are_read_until_the_end_of_the_file() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"now\n\n  \nadvance 1")
    os.close(writer)
    with trio.fail_after(LIMIT):
        assert [line async for line in stdin.read_lines(reader)] == ["now", "advance 1"]
        await stdin.wait_end(reader)
    os.close(reader)
    assert [line async for line in stdin.read_lines(reader)] == []  # the file is closed
