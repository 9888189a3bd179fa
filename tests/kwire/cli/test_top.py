from __future__ import annotations

import gzip
import json
import os
import socket
import struct
import subprocess
import termios
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from commands import command, kwire
from tools.captures import CAPTURES
from tools.handmade_calls import two_members

from kwire.analysis import metrics
from kwire.cli.top import REFRESH_SECONDS, Traffic, _serve

CAPTURE = CAPTURES / "java-4.2.0__kafka-4.2.0__cooperative.pcap.gz"
GROUP = "g-cooperative-java-4.2.0-r3"


def test_last_frame_of_a_file() -> None:
    lines = kwire("top", "--once", str(CAPTURE)).stdout.splitlines()
    assert lines[0].startswith("2026-11-21T01:55:02 UTC  1 group  151 requests  5 errors")
    assert lines[2].split()[:7] == [GROUP, "classic", "0", "4", "3", "0", "0"]


def test_json() -> None:
    (group,) = json.loads(kwire("top", "--json", str(CAPTURE)).stdout)
    assert (group["group_id"], group["generation"], group["rebalances"]) == (GROUP, 4, 3)
    assert [(one["partition"], one["offset"], one["lag"]) for one in group["offsets"]] == [
        (0, 10, 0),
        (1, 8, 0),
        (2, 12, 0),
    ]


def test_metrics_while_the_stream_is_open() -> None:
    content = gzip.decompress(CAPTURE.read_bytes())
    with command("top", "--metrics", "0") as process:
        assert process.stdin is not None
        assert process.stderr is not None
        place = process.stderr.readline().decode().split()[-1]
        process.stdin.write(content)
        process.stdin.flush()
        wanted = f'kwire_group_rebalances_total{{consumergroup="{GROUP}"}} 3\n'
        while wanted not in (text := urllib.request.urlopen(place).read().decode()):
            assert process.poll() is None
        assert f'kafka_consumergroup_members{{consumergroup="{GROUP}"}}' in text
        assert "kwire_requests_total" in urllib.request.urlopen(f"{place}?target=kafka").read().decode()
        out, _ = process.communicate()
    assert GROUP in out.decode()
    assert process.returncode == 0


def test_clients_that_close_their_connection_print_nothing() -> None:
    """A scrape that takes too long is closed by Prometheus."""
    with command("top", "--metrics", "0") as process:
        assert process.stdin is not None
        assert process.stderr is not None
        place = urlsplit(process.stderr.readline().decode().split()[-1])
        process.stdin.write(gzip.decompress(CAPTURE.read_bytes()))
        process.stdin.flush()
        for _ in range(20):
            with socket.create_connection((place.hostname, place.port)) as scrape:
                scrape.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with a reset
                scrape.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert b"kwire_requests_total" in urllib.request.urlopen(place.geturl()).read()
        out, errors = process.communicate()
    assert GROUP in out.decode()
    assert errors == b""


def test_idle_connections_of_the_metrics_server_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.cli.top.IDLE_SECONDS", 0.1)
    server = _serve(Traffic(), 0)
    try:
        with socket.create_connection(server.server_address[:2], timeout=10) as client:
            assert client.recv(1) == b""
    finally:
        server.shutdown()
        server.server_close()


def test_frames_are_printed_while_no_packet_arrives() -> None:
    with _in_a_terminal({}) as (process, ours):
        shown = b""
        while shown.count(b"\x1b[2J") < 3 or GROUP.encode() not in shown:
            shown += os.read(ours, 4096)
        _end_of_input(process, ours)
    assert process.returncode == 0


def test_a_dumb_terminal_gets_only_the_last_frame() -> None:
    with _in_a_terminal({"TERM": "dumb"}) as (process, ours):
        time.sleep(2.5 * REFRESH_SECONDS)
        shown = _end_of_input(process, ours)
    assert b"\x1b" not in shown
    assert shown.count(GROUP.encode()) == 1
    assert process.returncode == 0


@contextmanager
def _in_a_terminal(variables: dict[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start kwire top with a terminal as its stdout, and write a capture to its stdin, which stays open.

    Yields: the process, and the file descriptor from which its output is read.

    ``variables``: environment variables of the process, beside those of the tests.
    """
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    environment = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
    with command("top", stdout=theirs, env=environment | {"TERM": "xterm"} | variables) as process:
        os.close(theirs)
        assert process.stdin is not None
        process.stdin.write(gzip.decompress(CAPTURE.read_bytes()))
        process.stdin.flush()
        yield process, ours
    os.close(ours)


def _end_of_input(process: subprocess.Popen[bytes], ours: int) -> bytes:
    """Close the stdin of a process, and return the rest of its output, from the file descriptor ``ours``."""
    assert process.stdin is not None
    process.stdin.close()
    shown = b""
    with suppress(OSError):  # the terminal has ended
        while more := os.read(ours, 4096):
            shown += more
    return shown


def test_members_expire_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last members of a cluster without traffic expire, too."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    traffic = Traffic()
    log = two_members()
    for call in log.calls:
        traffic.note(call, 0)
    with traffic.current() as state:
        assert list(state.groups["billing"].members) == ["a"]
    now += 2  # the session timeout is 1 s
    with traffic.current() as state:
        assert list(state.groups["billing"].members) == []
        assert 'kafka_consumergroup_members{consumergroup="billing"} 0\n' in metrics.text(state)


def test_stdin_beside_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_bytes(b"")
    for verb in ("top", "capture", "groups", "readiness"):
        done = kwire(verb, "-", str(tmp_path / "x.pcap"))
        assert done.exit_code == 2
        assert "- (stdin) cannot be combined with files" in done.stderr


def test_files_without_traffic_are_exit_code_1(tmp_path: Path) -> None:
    done = kwire("top", str(tmp_path))
    assert done.exit_code == 1
    assert done.stdout.startswith("no calls yet  0 groups")
    assert "no capture files" in done.stderr
