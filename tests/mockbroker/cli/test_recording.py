"""``mockbroker proxy --record``, as a process between a real client and a cluster."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest
from commands import kwire
from confluent_kafka import Consumer, Producer

from kwire import encode_request
from kwire.capture import Call, read
from kwire.frames import pack
from kwire.messages.produce import ProduceRequest
from mockbroker import ThreadCluster, run_cluster
from mockbroker.recording.recorder import MAX_WAITING

COMMAND = [sys.executable, "-m", "mockbroker", "proxy", "--port", "0"]
PATIENCE = 30.0
LARGE = 1_000_000  # size of a request in bytes
SENT = 100  # number of such requests: more than the proxy keeps in memory


def produce(settings: dict[str, Any], partition: int = 0) -> None:
    """Append a record to ``orders``. The producer is closed before the broker."""
    producer = Producer(settings)
    producer.produce("orders", b"value", partition=partition)
    assert producer.flush(PATIENCE) == 0


@pytest.mark.parametrize("suffix", ["jsonl", "pcapng"])
def test_a_recording_is_read_after_kill_9(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"out.{suffix}"
    with run_cluster(topics={"orders": 2}, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        arguments = ["--to", cluster.bootstrap_servers, "--record", str(path)]
        process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            servers = {"bootstrap.servers": process.stdout.readline().partition("=")[2].strip()}
            produce(servers, partition=1)
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
            produce({"bootstrap.servers": process.stdout.readline().partition("=")[2].strip()})
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


LOGIN = "sasl.mechanism=SCRAM-SHA-512\nsasl.username=alice\nsasl.password=alice-secret\n"
PASSED_ON = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "alice-secret"}


@pytest.mark.parametrize("logs_in", [True, False], ids=["as the proxy", "with properties of its own"])
def test_a_topic_behind_tls_and_sasl_is_written(logs_in: bool, tmp_path: Path) -> None:
    """Either the proxy authenticates for its clients and for the recording, or it forwards SASL."""
    with run_cluster(
        topics={"orders": 1, "frames": 2}, listeners=["SASL_SSL"], users={"alice": "alice-secret"}
    ) as cluster:
        servers, ca, login = cluster.bootstrap_servers, str(cluster.tls.ca), tmp_path / "client.properties"
        store = f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
        login.write_text(LOGIN if logs_in else LOGIN + store)
        options = ["--tls-to-ca", ca, "--sasl-to" if logs_in else "--record-config", str(login)]
        arguments = ["--to", servers, "--record", f"kafka://{servers}/frames", *options]
        process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            settings = {} if logs_in else {"security.protocol": "SASL_PLAINTEXT", **PASSED_ON}
            address = process.stdout.readline().partition("=")[2].strip()
            produce({"bootstrap.servers": address, **settings})
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=PATIENCE)
        values = [record.value or b"" for record in cluster.records("frames")]
    assert (errors, process.returncode) == ("", 0)
    assert sum(b"value" in value for value in values) == 1
    assert not any(b"alice-secret" in value for value in values)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("suffix", ["jsonl", "pcapng"])
def test_a_disk_that_stops_does_not_hold_up_clients(suffix: str, tmp_path: Path) -> None:
    """A pipe without a reader replaces the disk: the write of the recording blocks in the kernel."""
    path, copy = tmp_path / f"out.{suffix}", tmp_path / f"copy.{suffix}"
    os.mkfifo(path, 0o600)
    disk = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with run_cluster(topics={"orders": 1}) as cluster, proxy_of(cluster, path) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
            answered = exchange(client, 1, LARGE)  # the first exchange allocates the memory of a connection
            before = psutil.Process(process.pid).memory_info().rss
            for number in range(2, SENT + 1):
                answered += exchange(client, number, LARGE)
            grown = psutil.Process(process.pid).memory_info().rss - before
        assert answered == SENT
        assert grown < 1.5 * MAX_WAITING
        os.set_blocking(disk, True)
        drained = Thread(target=drain, args=(disk, copy))
        drained.start()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
        drained.join(PATIENCE)
    assert "1 connections were not recorded completely" in errors
    requests = [call for call in read(copy) if isinstance(call, Call) and call.request_size is not None]
    assert [call.correlation_id for call in requests] == list(range(1, len(requests) + 1))
    assert MAX_WAITING // 3 < len(requests) * LARGE < MAX_WAITING + SENT


def proxy_of(cluster: ThreadCluster, path: Path) -> subprocess.Popen[str]:
    command = [*COMMAND, "--to", cluster.bootstrap_servers, "--record", str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def exchange(client: socket.socket, number: int, size: int) -> int:
    """Send a Produce request with invalid records of this size. Return 1 if the response belongs to it, otherwise 0."""
    partition = ProduceRequest.Topic.Partition(index=0, records=bytes(size))
    request = ProduceRequest(acks=1, topic_data=[ProduceRequest.Topic(name="orders", partition_data=[partition])])
    client.sendall(pack(encode_request(request, 9, correlation_id=number, client_id="c")))
    header = client.recv(4, socket.MSG_WAITALL)
    answer = client.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL)
    return int.from_bytes(answer[:4], "big") == number


def drain(disk: int, copy: Path) -> None:
    """Copy what is written to a pipe into a file, until the pipe ends."""
    with open(disk, "rb") as source, copy.open("wb") as target:
        shutil.copyfileobj(source, target)


def wait_for(path: Path, api: str) -> None:
    """Wait until a request of this API is in the file."""
    until = time.monotonic() + PATIENCE
    while f'"{api}"' not in kwire("capture", str(path)).stdout:
        assert time.monotonic() < until, f"{api} is not in {path.name}"
