"""Moving received bytes to another socket, without blocking and without losing a byte."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace

import pytest
from open_files import open_files, opened_since

from mockbroker.proxy.splicing import STEP, SplicePipe

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="splice is a system call of Linux")

PATIENCE = 30.0  # seconds


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as one:
        other, _ = listener.accept()
        with other:
            yield one, other


@contextmanager
def received(data: bytes) -> Iterator[socket.socket]:
    """Yield a non-blocking socket that has received these bytes."""
    with connected() as (sender, receiver):
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * len(data))
        sender.sendall(data)
        receiver.settimeout(PATIENCE)
        arrived = 0
        while arrived < len(data):
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, arrived + 1)
            arrived = len(receiver.recv(len(data), socket.MSG_PEEK))
        receiver.setblocking(False)
        yield receiver


def read(reader: socket.socket, size: int) -> bytes:
    reader.settimeout(PATIENCE)
    data = b""
    while len(data) < size and (more := reader.recv(size - len(data))):
        data += more
    return data


def test_all_bytes_move_if_the_target_accepts_them() -> None:
    data, pipe = Random(1).randbytes(100_000), SplicePipe()
    with received(data) as source, connected() as (target, reader):
        target.setblocking(False)
        assert pipe.move(source.fileno(), target.fileno(), 60_000) == (60_000, b"")
        assert pipe.move(source.fileno(), target.fileno(), 40_000) == (40_000, b"")
        assert read(reader, len(data)) == data
    pipe.close()


def test_bytes_that_a_full_target_rejects_are_returned_or_left() -> None:
    data, pipe = Random(2).randbytes(2_000_000), SplicePipe()
    with received(data) as source, connected() as (target, reader):
        target.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20_000)
        target.setblocking(False)
        taken, rest = pipe.move(source.fileno(), target.fileno(), len(data))
        assert 0 < len(rest) <= STEP
        assert taken < len(data)
        assert read(reader, taken - len(rest)) + rest == data[:taken]
        assert source.recv(100) == data[taken : taken + 100]
    with received(b"next") as source, connected() as (target, reader):
        target.setblocking(False)
        assert pipe.move(source.fileno(), target.fileno(), 4) == (4, b"")
        assert read(reader, 4) == b"next"
    pipe.close()


def test_the_bytes_for_a_broken_target_are_returned() -> None:
    data, pipe = b"x" * 1_000, SplicePipe()
    with received(data) as source, connected() as (target, reader):
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reader.close()
        target.setblocking(False)
        assert pipe.move(source.fileno(), target.fileno(), len(data)) == (len(data), data)
    assert pipe.is_usable
    pipe.close()


@pytest.mark.parametrize("has_ended", [False, True], ids=["open", "ended"])
def test_no_byte_is_taken_before_urgent_data(has_ended: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, splice = Counter[str](), os.splice

    def counted(*arguments: int) -> int:
        calls["splice"] += 1
        assert calls["splice"] < 10
        return splice(*arguments)

    monkeypatch.setattr(os, "splice", counted)
    pipe = SplicePipe()
    with connected() as (sender, source), connected() as (target, _):
        sender.send(b"u", socket.MSG_OOB)
        sender.sendall(b"data")
        if has_ended:
            sender.shutdown(socket.SHUT_WR)
        source.settimeout(PATIENCE)
        assert source.recv(10, socket.MSG_PEEK | socket.MSG_WAITALL) == b"data"
        source.setblocking(False)
        target.setblocking(False)
        assert pipe.move(source.fileno(), target.fileno(), 4) == (0, b"")
        assert source.recv(10) == b"data"
    assert pipe.is_usable
    pipe.close()


@pytest.mark.parametrize("call", ["splice", "pipe2"], ids=["no splice", "too many files"])
def test_no_byte_is_taken_if_the_system_does_not_permit_it(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError

    pipe = SplicePipe()
    monkeypatch.setattr(os, call, fail)
    with received(b"data") as source, connected() as (target, _):
        assert pipe.move(source.fileno(), target.fileno(), 4) == (0, b"")
        assert source.recv(10) == b"data"
    assert not pipe.is_usable
    pipe.close()


@pytest.mark.parametrize(
    ("release", "is_usable"), [("6.4.16", True), ("6.5.0-44-generic", False), ("6.7.1", False), ("6.8.0", True)]
)
def test_kernels_that_may_wait_for_the_target_are_not_used(
    release: str, is_usable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    assert SplicePipe().is_usable is is_usable


def test_a_closed_pipe_has_no_open_files() -> None:
    pipe, before = SplicePipe(), open_files()
    with received(b"data") as source, connected() as (target, _):
        pipe.move(source.fileno(), target.fileno(), 4)
    assert len(opened_since(before, pipes=True)) == 2
    pipe.close()
    assert not opened_since(before, pipes=True)
