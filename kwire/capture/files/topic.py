"""Recordings in topics of a Kafka cluster, as ``mockbroker proxy --record kafka://HOST:PORT/TOPIC`` writes them.

The value of a record is a frame. The record headers contain the connection, client, broker, direction and time of the
frame. All frames of a connection are in one partition, in order. A partition is read like a frame log: its path is the
address of the partition, and positions are offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kwire.capture.files.blocks import Damage
from kwire.capture.files.framelog import LoggedFrame
from kwire.capture.limits import MAX_TIME_US
from kwire.topic_address import PARTITION_ADDRESS, TOPIC_ADDRESS, partition_address

TEXTS = ("connection", "client", "broker", "direction", "time_us")  # headers of a record
TOKEN_END = 4_102_444_800.0  # seconds since 1970 (the year 2100); only the cluster checks the end of a token
TIMEOUT = 30.0  # seconds until a cluster that does not answer is an error
CONFIG: Mapping[str, Any] = {
    "group.id": "kwire",  # librdkafka requires it; no group is joined
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
    "log_level": 0,  # errors are raised
}


def logged_record(value: bytes | None, headers: Mapping[str, bytes | None], offset: int) -> LoggedFrame:
    """Return the frame in a record.

    Args:
        value: value of the record.
        headers: headers of the record.
        offset: offset of the record.

    Raises: Damage if the record is not that of a recording.
    """
    try:
        connection, client, broker, direction, time_us = ((headers[name] or b"").decode() for name in TEXTS)
        time = int(time_us)
        if value is None or direction not in ("request", "response") or not -MAX_TIME_US < time < MAX_TIME_US:
            raise ValueError
    except (KeyError, ValueError) as error:
        raise Damage(offset, "not a record of a recording") from error
    return LoggedFrame(time, connection, client, broker, direction == "request", value, offset)


def partitions(address: str) -> list[str]:
    """Return the paths of the partitions of a topic.

    ``address``: address of the topic. Raises: OSError if the cluster does not answer, or has no such topic.
    """
    found = TOPIC_ADDRESS.fullmatch(address)
    assert found is not None
    with _connected(address, found["servers"], found["config"]) as (_, consumer):
        topic = consumer.list_topics(found["topic"], timeout=TIMEOUT).topics[found["topic"]]
    if topic.error is not None:
        raise OSError(0, topic.error.str(), address)
    return [partition_address(address, number) for number in sorted(topic.partitions)]


def records(path: str) -> Iterator[tuple[int, bytes | None, dict[str, bytes | None]]]:
    """Yield offset, value and headers of the records of a partition, up to its present end.

    ``path``: path of the partition. Raises: OSError if the cluster does not answer.
    """
    found = PARTITION_ADDRESS.fullmatch(path)
    assert found is not None
    with _connected(path, found["servers"], found["config"]) as (kafka, consumer):
        place = kafka.TopicPartition(found["topic"], int(found["partition"]))
        begin, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT)
        place.offset = begin
        consumer.assign([place])
        while begin < end:
            record = consumer.poll(TIMEOUT)
            if record is None:
                raise OSError(0, f"the cluster sends no record at offset {begin}", path)
            if record.error() is not None and record.error().code() != kafka.KafkaError._PARTITION_EOF:
                raise OSError(0, record.error().str(), path)
            if record.error() is not None or record.offset() >= end:  # the records before the end were deleted
                return
            begin = record.offset() + 1
            yield record.offset(), record.value(), dict(record.headers() or ())


@contextmanager
def _connected(path: str, servers: str, config: str | None) -> Iterator[tuple[Any, Any]]:
    """Yield the module confluent_kafka and a consumer of a cluster, which is closed afterwards.

    Args:
        path: address of the topic or the partition, for errors.
        servers: addresses of brokers.
        config: file with properties of a Kafka client; None to connect without TLS and SASL.

    Raises: OSError if confluent-kafka is not installed, if the file cannot be used, or if a call of the consumer fails.
    """
    try:
        import confluent_kafka as kafka
    except ImportError as error:
        raise OSError(0, "confluent-kafka is missing: pip install 'kwire[topic]'", path) from error
    try:
        consumer = kafka.Consumer({**CONFIG, "bootstrap.servers": servers, **_security(path, config)})
    except kafka.KafkaException as error:
        raise OSError(0, f"{config}: {error.args[0].str()}", path) from error
    with closing(consumer):
        try:
            yield kafka, consumer
        except kafka.KafkaException as error:
            raise OSError(0, f"the cluster does not answer: {error.args[0].str()}", path) from error


def _security(path: str, config: str | None) -> dict[str, Any]:
    """Return the properties of librdkafka for TLS and SASL; none without a file.

    Args:
        path: address of the topic or the partition, for errors.
        config: file with properties of a Kafka client.

    Raises: OSError if the file cannot be read or is not valid.
    """
    if config is None:
        return {}
    from kwire.client_properties import ClientProperties, PropertyError  # on demand: few topics need it

    try:
        properties = ClientProperties.read(config)
    except PropertyError as error:
        raise OSError(0, f"{config}: {error}", path) from error
    found: dict[str, Any] = {**properties.of_librdkafka()}
    if properties.credentials is not None and (file := properties.credentials.token_file) is not None:
        found["oauth_cb"] = partial(_token, file)
    return found


def _token(file: Path, _config: str) -> tuple[str, float]:
    """Return the token in a file, and TOKEN_END."""
    return file.read_text(encoding="utf-8").strip(), TOKEN_END
