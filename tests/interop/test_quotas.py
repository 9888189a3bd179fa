"""Client quotas that the Java admin client sets, and clients that are throttled."""

from __future__ import annotations

from typing import Any

import pytest
from interop import programs
from interop.stage import LIMIT, MARKS, need_client

from mockbroker import run_cluster

pytestmark = MARKS
RATE = 10_000  # bytes per second
SHORT = {"quota.window.num": 2}  # rates are measured over about a second


@pytest.mark.clients("java", "confluent-kafka")
def test_producer_and_consumer_are_throttled() -> None:
    need_client("confluent-kafka")
    from confluent_kafka import Consumer, Producer, TopicPartition

    admin, throttled = programs.asked("java"), list[tuple[str, float]]()

    def client(kind: Any, client_id: str, **more: Any) -> Any:
        def note(event: Any) -> None:
            throttled.append((client_id, event.throttle_time))

        servers = {"bootstrap.servers": cluster.bootstrap_servers, "client.id": client_id}
        return kind({**servers, "throttle_cb": note, **more})

    with run_cluster(topics={"orders": 1}, config=SHORT) as cluster:
        for key in ("producer_byte_rate", "consumer_byte_rate"):
            admin.ask("set_quota", bootstrap=cluster.bootstrap_servers, client_id="slow", key=key, value=RATE)
        quotas = {"producer_byte_rate": RATE, "consumer_byte_rate": RATE}
        assert admin.ask("quotas", bootstrap=cluster.bootstrap_servers) == {"slow": quotas}

        def produce(client_id: str, size: int) -> None:
            producer = client(Producer, client_id)
            producer.produce("orders", bytes(size))
            assert producer.flush(LIMIT) == 0

        for client_id, size in (("fast", 6_000), ("fast", 6_001), ("slow", 12_000)):
            produce(client_id, size)
        ((throttled_client, seconds),) = throttled
        assert throttled_client == "slow"
        assert 0.2 < seconds < 0.3  # 12,000 bytes and the rest of the request, in the window of 1 s

        throttled.clear()
        consumer = client(Consumer, "slow", **{"group.id": "g", "fetch.wait.max.ms": 50})
        consumer.assign([TopicPartition("orders", 0, 0)])
        assert [len(consumer.poll(LIMIT).value()) for _ in range(2)] == [6_000, 6_001]
        consumer.close()
        responses = [request.response for request in cluster.requests("Fetch")]
        assert any(response and response.throttle_time_ms and not response.responses for response in responses)
