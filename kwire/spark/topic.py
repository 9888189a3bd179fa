"""Frames in a topic of a Kafka cluster, as ``mockbroker proxy --record kafka://HOST:PORT/TOPIC`` writes them.

Spark's Kafka connector reads the topic, in a batch query or a streaming query. The value of a record is a frame. The
record headers contain the connection, client, broker, direction and time of the frame. All frames of a connection are
in one partition, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kwire.capture.limits import MAX_TIME_US
from kwire.lazy_dataclass import dataclass
from kwire.recording.topic_address import TOPIC_ADDRESS
from kwire.spark.following import log_key
from kwire.spark.source import REFERENCES, SPARK_TYPES

COLUMNS = ("value", "partition", "offset", "headers")
TEXTS = ("connection", "client", "broker", "direction", "time_us")  # headers of a record
SCHEMA = ", ".join(f"{field.name} {SPARK_TYPES[field.type]}" for field in REFERENCES)


def is_topic(path: str) -> bool:
    """Return whether a path is the address of a topic: ``kafka://HOST:PORT[,HOST:PORT...]/TOPIC``."""
    return TOPIC_ADDRESS.fullmatch(path) is not None


@dataclass(frozen=True, slots=True)
class PartitionNames(Sequence[str]):
    """The names of a topic's partitions, used in place of file paths: the index is the partition number.

    The name of a partition is the address of the topic, ``/`` and the partition number. The length of the sequence is
    always 2**31 - 1, because the number of partitions is not known.

    Attributes:
        address: address of the topic, see ``is_topic``.
    """

    address: str

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> list[str]: ...
    def __getitem__(self, number: int | slice) -> str | list[str]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        return f"{self.address}/{number}"

    def __len__(self) -> int:
        return 2**31 - 1  # the real number is not needed


def references(spark: SparkSession, address: str, *, stream: bool = False) -> DataFrame:
    """Return the frames of a topic, from the first record on, with the columns REFERENCES of ``kwire.spark.source``.

    Args:
        spark: Spark session with the Kafka connector.
        address: address of the topic, see ``is_topic``.
        stream: True for a streaming DataFrame.
    """
    found = TOPIC_ADDRESS.fullmatch(address)
    assert found is not None
    options = {
        "kafka.bootstrap.servers": found["servers"],
        "subscribe": found["topic"],
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    reader = spark.readStream if stream else spark.read
    records = reader.format("kafka").options(**options).load().select(*COLUMNS)

    def converted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield rows(batch, address)

    return records.mapInArrow(converted, SCHEMA)


def rows(records: pa.RecordBatch, address: str) -> pa.RecordBatch:
    """Convert records to rows with the columns REFERENCES of ``kwire.spark.source``.

    A record without the headers that ``mockbroker proxy`` writes becomes a row with text in the column ``problem``.

    Args:
        records: records, with the columns COLUMNS.
        address: address of the topic, see ``is_topic``.
    """
    columns = (records.column(name).to_pylist() for name in COLUMNS)
    found = [
        _row(value, headers or [], partition, offset)
        for value, partition, offset, headers in zip(*columns, strict=True)
    ]
    names = PartitionNames(address)
    return pa.RecordBatch.from_pylist([row | {"path": names[row["file"]]} for row in found], schema=REFERENCES)


def _row(value: bytes | None, headers: Sequence[Mapping[str, Any]], partition: int, offset: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(REFERENCES.names)
    row |= {"connection": b"", "file": partition, "position": offset, "number": 0}
    try:
        texts = {one["key"]: one["value"].decode() for one in headers}
        connection, client, broker, direction, time_us = (texts[name] for name in TEXTS)
        time = int(time_us)
        if value is None or direction not in ("request", "response") or not -MAX_TIME_US < time < MAX_TIME_US:
            raise ValueError
        return row | {
            "connection": log_key(connection, client, broker),
            "upward": direction == "request",
            "time_us": time,
            "start": offset,
            "captured": len(value),
            "size": len(value),
            "seq": 0,
            "ack": 0,
            "flags": 0,
            "payload": value,
        }
    except (KeyError, ValueError, AttributeError):
        return row | {"problem": f"offset {offset}: not a record of a recording"}
