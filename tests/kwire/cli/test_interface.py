"""The option --interface on loopback, which needs Linux and CAP_NET_RAW."""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import closing

import pytest
from commands import command
from tools.loopback import ask_versions, opened_ring

from mockbroker import run_cluster


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_capture_of_a_command(number: signal.Signals) -> None:
    opened_ring().close()
    with run_cluster() as cluster:
        host, _, port = cluster.bootstrap_servers.partition(",")[0].rpartition(":")
        done = threading.Event()

        def talk() -> None:
            while not done.wait(0.02):
                with closing(socket.create_connection((host, int(port)))) as sock:
                    ask_versions(sock, 7)

        talker = threading.Thread(target=talk)
        with command("capture", "--interface", "lo", "--port", port, "--format", "table") as process:
            assert process.stdout is not None
            talker.start()
            assert b"client" in process.stdout.readline()
            while (
                b"ApiVersions" not in process.stdout.readline()
            ):  # the first connection may have begun before the capture
                assert process.poll() is None
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            done.set()
            talker.join()
        assert process.returncode == 0
        assert b"interrupted" not in err
        assert out.endswith(b"\n") or not out
