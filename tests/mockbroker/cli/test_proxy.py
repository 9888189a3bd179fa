"""``mockbroker proxy``, as a process between real clients and a cluster."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import httpx
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from tools.proxy_process import running_proxy

from mockbroker import run_cluster

PATIENCE = 30.0
TOPIC = "orders"


def test_clients_use_every_broker_through_the_proxy(tmp_path: Path) -> None:
    config = {"group.initial.rebalance.delay.ms": 0}
    with (
        run_cluster(brokers=3, topics={TOPIC: 6}, config=config) as cluster,
        running_proxy(cluster.bootstrap_servers, "--ready-file", str(tmp_path / "ready"), "--http", "0") as (
            process,
            address,
        ),
        ExitStack() as stack,
    ):
        content = json.loads((tmp_path / "ready").read_text())
        url = content.pop("http")
        assert content == {"bootstrap_servers": address, "pid": process.pid}
        # Each request has its own connection: the server may close an idle one while the next request arrives.
        limits = httpx.Limits(max_keepalive_connections=0)
        http = stack.enter_context(httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False, limits=limits))
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
