from __future__ import annotations

import pytest
import trio
from confluent_kafka import Consumer

from kwire import encode_request, encode_response
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from mockbroker import run_cluster
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.observer import Connection, Exchange, Moment
from mockbroker.recording.recorder import Frame
from mockbroker.recording.topic import ADDRESS, RecordingTopic, headers_of

AT = Moment(1.0, 1_700_000_000.5)
REQUEST = encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id=1)
RESPONSE = encode_response(HeartbeatResponse(), 4, correlation_id=1)
PATIENCE = 20.0


def record_heartbeats(recording: RecordingTopic) -> None:
    """Two connections with one heartbeat each."""
    for number in (1, 2):
        connection = Connection(number, Address("127.0.0.1", number), 0, Address("real", 9), Address("127.0.0.1", 7))
        recording.recorder.opened(connection, AT)
        exchange = Exchange(connection, 12, 4, 1, AT, REQUEST, REQUEST, AT, RESPONSE, RESPONSE)
        recording.recorder.requested(exchange)
        recording.recorder.answered(exchange)
        recording.recorder.closed(connection, AT)


def test_each_frame_is_a_record_with_headers() -> None:
    with run_cluster(topics={"frames": 3}) as cluster:
        recording = RecordingTopic(cluster.bootstrap_servers, "frames", "run")

        async def record() -> None:
            async with recording.running():
                record_heartbeats(recording)

        trio.run(record)
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["frames"])
        records = consumer.consume(4, PATIENCE)
        consumer.close()
    found = sorted((record.key(), record.offset(), record.value(), record.timestamp()[1]) for record in records)
    time_ms = 1_700_000_000_500
    assert [(key, value, time) for key, _, value, time in found] == [
        (b"run-1", REQUEST, time_ms),
        (b"run-1", RESPONSE, time_ms),
        (b"run-2", REQUEST, time_ms),
        (b"run-2", RESPONSE, time_ms),
    ]
    headers = dict(next(record for record in records if record.value() == RESPONSE).headers() or ())
    assert (headers["direction"], headers["api_key"], headers["api_version"]) == (b"response", b"12", b"4")


def test_headers_are_the_fields_of_a_frame_log() -> None:
    frame = Frame(1, True, REQUEST, 1_700_000_000_500_000, 12, 4)
    assert headers_of(frame, "run-1", "127.0.0.1:1", "127.0.0.1:7") == [
        ("time_us", "1700000000500000"),
        ("connection", "run-1"),
        ("client", "127.0.0.1:1"),
        ("broker", "127.0.0.1:7"),
        ("direction", "request"),
        ("api_key", "12"),
        ("api_version", "4"),
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("kafka://127.0.0.1:9092/frames", ("127.0.0.1:9092", "frames")),
        ("kafka://broker:9092/", None),
        ("kafka://broker/frames", None),
        ("kafka://broker:9092/fra/mes", None),
    ],
)
def test_an_address_has_host_port_and_topic(text: str, parts: tuple[str, str] | None) -> None:
    match = ADDRESS.fullmatch(text)
    assert (match and (match["servers"], match["topic"])) == parts
