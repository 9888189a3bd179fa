"""Packets of the loopback interface. They need Linux and CAP_NET_RAW; other traffic on the interface is ignored."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from tools.loopback import ask_versions, opened_ring

from kwire.capture import Call, read
from kwire.capture.files.blocks import RING_FULL, Skipped
from kwire.capture.files.packet_ring import ANY, interface_names, stopped_by_signals
from mockbroker import run_cluster

PAGE = 4096


@pytest.fixture(scope="module")
def broker() -> Iterator[tuple[str, int]]:
    with run_cluster() as cluster:
        host, _, port = cluster.bootstrap_servers.partition(",")[0].rpartition(":")
        yield host, int(port)


@pytest.mark.parametrize("name", ["lo", ANY])
def test_each_call_is_captured_once(name: str, broker: tuple[str, int]) -> None:
    with opened_ring(name) as ring:
        with closing(socket.create_connection(broker)) as sock:
            for number in range(20):
                ask_versions(sock, number)
        calls = []
        for item in read((), ports=[broker[1]], ring=ring):
            if isinstance(item, Call):
                calls.append(item)
            if len(calls) == 20:
                ring.stop()
    assert [(call.api_key, call.correlation_id) for call in calls] == [(18, number) for number in range(20)]
    assert all(0 < (call.response_us or 0) - (call.request_us or 0) < 60_000_000 for call in calls)
    assert {call.broker for call in calls} == {f"127.0.0.1:{broker[1]}"}


def test_packets_that_find_the_ring_full_are_counted() -> None:
    with opened_ring(block=16 * PAGE, blocks=2) as ring:
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
            for _ in range(1_000):
                sock.sendto(bytes(1_000), ("127.0.0.1", 9))
        ring.read(24)
        ring.read(1)
        assert ring.lost > 500
        reading = read((), ring=ring)
        ring.stop()
        lost = [item for item in reading if isinstance(item, Skipped) and item.reason == RING_FULL]
        assert [(one.file, one.packets) for one in lost] == [("lo", ring.lost)]
        assert f"lo: {ring.lost} packets lost because they arrived faster" in str(reading.damage[-1])


def test_stop_ends_a_read_that_waits() -> None:
    with opened_ring(block=PAGE, blocks=1) as ring:
        ring.read(24)
        threading.Timer(0.05, ring.stop).start()
        while ring.read(1):
            pass
        assert ring.read(1) == b""


def test_interface_that_does_not_exist() -> None:
    with pytest.raises(OSError, match="No such device") as caught:
        opened_ring("nosuchinterface")
    assert (caught.value.errno, caught.value.filename) == (errno.ENODEV, "nosuchinterface")
    assert "lo" in interface_names()


def test_second_signal_has_its_usual_effect() -> None:
    stops: list[int] = []

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        while not stops:
            pass

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # pyspark installs its own handler
    try:
        with stopped_by_signals(lambda: stops.append(1), [signal.SIGINT]):
            interrupt()
            with pytest.raises(KeyboardInterrupt):
                interrupt()
        assert stops == [1]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
