"""mockbroker proxy --record, as a process between a real client and a cluster."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import kwire
from confluent_kafka import Consumer, Producer

from mockbroker import run_cluster

COMMAND = [sys.executable, "-m", "mockbroker", "proxy", "--port", "0"]
PATIENCE = 30.0


@pytest.mark.parametrize("suffix", ["jsonl", "pcapng"])
def test_a_recording_is_read_after_kill_9(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"out.{suffix}"
    with run_cluster(topics={"orders": 2}, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        arguments = ["--to", cluster.bootstrap_servers, "--record", str(path)]
        process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            servers = {"bootstrap.servers": process.stdout.readline().partition("=")[2].strip()}
            producer = Producer(servers)
            producer.produce("orders", b"value", partition=1)
            assert producer.flush(PATIENCE) == 0
            consumer = Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
            consumer.subscribe(["orders"])
            assert [message.value() for message in consumer.consume(1, PATIENCE)] == [b"value"]
            consumer.commit(asynchronous=False)
            consumer.close()
            wait_for(path, "LeaveGroup")
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    assert path.stat().st_mode & 0o777 == 0o600
    (group,) = json.loads(kwire("groups", "--json", str(path)).stdout)["groups"]
    assert (group["group_id"], group["members"][0]["left_how"]) == ("g", "leave")
    assert [commit["topic"] for commit in group["commits"]] == ["orders"]


def test_a_topic_is_read_after_kill_9() -> None:
    with run_cluster(topics={"orders": 1, "frames": 2}) as cluster:
        servers = cluster.bootstrap_servers
        arguments = ["--to", servers, "--record", f"kafka://{servers}/frames"]
        process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            producer = Producer({"bootstrap.servers": process.stdout.readline().partition("=")[2].strip()})
            producer.produce("orders", b"value")
            assert producer.flush(PATIENCE) == 0
            until = time.monotonic() + PATIENCE
            while sum(b"value" in (record.value or b"") for record in cluster.records("frames")) < 1:
                assert time.monotonic() < until, "Produce is not in the topic"
                time.sleep(0.05)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        apis = [dict(record.headers)["api_key"] for record in cluster.records("frames")]
    assert {b"0", b"3", b"18"} <= set(apis)
    assert b"-1" not in apis


def wait_for(path: Path, api: str) -> None:
    """Wait until a request of this API is in the file."""
    until = time.monotonic() + PATIENCE
    while f'"{api}"' not in kwire("capture", str(path)).stdout:
        assert time.monotonic() < until, f"{api} is not in {path.name}"
