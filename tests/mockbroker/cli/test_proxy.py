"""mockbroker proxy, as a process between real clients and a cluster."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from mockbroker import run_cluster

COMMAND = [sys.executable, "-m", "mockbroker", "proxy", "--port", "0"]
PATIENCE = 30.0
TOPIC = "orders"


@contextmanager
def proxy(to: str, ready_file: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and its address."""
    command = [*COMMAND, "--to", to, "--ready-file", str(ready_file), "--http", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("ready bootstrap.servers=127.0.0.1:")
        yield process, line.partition("=")[2].strip()
    finally:
        process.kill()
        process.communicate()


def test_clients_use_every_broker_through_the_proxy(tmp_path: Path) -> None:
    config = {"group.initial.rebalance.delay.ms": 0}
    with (
        run_cluster(brokers=3, topics={TOPIC: 6}, config=config) as cluster,
        proxy(cluster.bootstrap_servers, tmp_path / "ready") as (process, address),
        ExitStack() as stack,
    ):
        content = json.loads((tmp_path / "ready").read_text())
        url = content.pop("http")
        assert content == {"bootstrap_servers": address, "pid": process.pid}
        http = stack.enter_context(httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False))
        servers = {"bootstrap.servers": address}
        brokers = AdminClient(servers).list_topics(timeout=PATIENCE).brokers.values()
        real = {node.port for node in cluster.nodes}
        assert len({each.port for each in brokers} - real) == 3
        producer = Producer({**servers, "enable.idempotence": True})
        for number in range(60):
            producer.produce(TOPIC, str(number), partition=number % 6)
        assert producer.flush(PATIENCE) == 0
        consumer = Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe([TOPIC])
        values = {message.value() for message in consumer.consume(60, PATIENCE)}
        consumer.commit(asynchronous=False)
        waited = http.get("/v1/groups/g/wait?state=Stable&members=1&timeout_ms=20000").json()
        assert waited["members"][0]["assignment"] == {TOPIC: [0, 1, 2, 3, 4, 5]}
        assert {each["offset"]: each["lag"] for each in waited["offsets"]} == {10: 0}
        rule = {"match": {"api": "LeaveGroup"}, "action": {"delay_ms": 1}}
        http.post("/v1/faults", json=rule).raise_for_status()
        consumer.close()
        assert http.get("/v1/groups/g").json()["state"] == "Empty"
        kinds = [each["kind"] for each in http.get("/v1/events?group=g").json()["items"]]
        assert "commit" in kinds
        assert [kind for kind in kinds if kind != "commit"] == [
            "id_given",
            "join",
            "generation",
            "assign",
            "fault",
            "leave",
            "empty",
        ]
        (leave,) = http.get("/v1/requests?api=LeaveGroup").json()["items"]
        assert (leave["fault"], leave["error_code"]) == ("fault-1", 0)
        seen = http.get("/v1/requests?limit=1000").json()["items"]
        assert {"JoinGroup", "Produce", "Fetch", "Metadata"} <= {each["api"] for each in seen}
        shown = http.get("/v1/state").json()
        assert (shown["cluster"]["kind"], shown["cluster"]["counts"]["topics"]) == ("proxy", 1)
        assert len(shown["cluster"]["brokers"]) == 3
        for path in ("reset", "clock", "brokers/0", "topics", "groups/g/rebalance"):
            assert http.post(f"/v1/{path}", json={}).status_code == 409
        assert values == {str(number).encode() for number in range(60)}
        assert sum(cluster.committed("g").values()) == 60
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
