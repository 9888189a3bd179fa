"""``mockbroker serve --demo``, as a process."""

from __future__ import annotations

import json
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

import pytest
from plain_client import AT_ONCE

COMMAND = [sys.executable, "-m", "mockbroker", "serve", "--port", "0", "--demo"]
PATIENCE = 30.0


@contextmanager
def demo(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Start a demo. Yield the process and the lines that it prints on stderr."""
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert select.select([process.stdout], [], [], PATIENCE)[0], "not ready"
        assert process.stdout.readline().startswith("ready bootstrap.servers=127.0.0.1:")
        yield process, [process.stderr.readline() for _ in range(4)]
    finally:
        process.kill()
        process.communicate()


def wait_group(url: str) -> dict[str, Any]:
    """Wait until the three members of the demo's group own partitions. Return the group."""
    with urlopen(f"{url}v1/groups/demo/wait?state=Stable&members=3&timeout_ms=20000", timeout=PATIENCE) as response:
        group: dict[str, Any] = json.load(response)
    return group


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_prints_where_it_runs_and_ends_on_a_signal(number: signal.Signals) -> None:
    with demo("--http", "0") as (process, lines):
        names = [line.partition("  ")[0] for line in lines]
        assert names == [names[0], "live page", "emulating", "demo"]
        found = re.fullmatch(r"live page  (http://127\.0\.0\.1:\d+/)\n", lines[1])
        assert found
        assert lines[2] == "emulating  Kafka 4.2, data in memory (--data-dir keeps it)\n"
        assert lines[3] == "demo       topic orders (6 partitions), group demo with 3 members, rebalance every 20 s\n"
        group = wait_group(found[1])
        assert sorted(member["client_id"] for member in group["members"]) == ["demo-1", "demo-2", "demo-slow"]
        assert sorted(index for member in group["members"] for index in member["assignment"]["orders"]) == [*range(6)]
        with urlopen(found[1], timeout=PATIENCE) as response:
            assert "demo-slow" in response.read().decode()
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
        assert time.monotonic() - began < AT_ONCE
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_the_demo_uses_a_topic_and_a_listener_of_the_user() -> None:
    options = ("--topic", "orders:2", "--listener", "SSL", "--listener", "PLAINTEXT", "--tls", "auto", "--brokers", "2")
    with demo(*options) as (process, lines):
        assert process.stderr is not None
        while not lines[-1].startswith("demo "):
            lines.append(process.stderr.readline())
        assert "topic orders (2 partitions)" in lines[-1]
        url = next(line for line in lines if line.startswith("live page ")).split()[-1]
        owned = [member["assignment"]["orders"] for member in wait_group(url)["members"] if member["assignment"]]
        assert sorted(index for indexes in owned for index in indexes) == [0, 1]
