"""Frames in a topic of a Kafka cluster, as ``mockbroker proxy --record kafka://HOST:PORT/TOPIC`` writes them.

Spark's Kafka connector reads the topic, in a batch query or a streaming query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kwire.capture.files.blocks import Damage
from kwire.capture.files.topic import logged_record
from kwire.client_properties import ClientProperties, PropertyError
from kwire.lazy_dataclass import dataclass
from kwire.spark.segment_references import REFERENCES, SPARK_TYPES, logged_row
from kwire.topic_address import TOPIC_ADDRESS, partition_address

COLUMNS = ("value", "partition", "offset", "headers")
SCHEMA = ", ".join(f"{field.name} {SPARK_TYPES[field.type]}" for field in REFERENCES)


@dataclass(frozen=True, slots=True)
class PartitionNames(Sequence[str]):
    """The names of a topic's partitions, used in place of file paths: the index is the partition number.

    The name of a partition is its address. The length of the sequence is always 2**31 - 1, because the number of
    partitions is not known.

    Attributes:
        address: address of the topic, see ``kwire.topic_address``.
    """

    address: str

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> list[str]: ...
    def __getitem__(self, number: int | slice) -> str | list[str]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        return partition_address(self.address, number)

    def __len__(self) -> int:
        return 2**31 - 1  # the real number is not needed


def references(spark: SparkSession, address: str, *, stream: bool = False) -> DataFrame:
    """Return the frames of a topic, from the first record on, with the columns REFERENCES of ``segment_references``.

    Args:
        spark: Spark session with the Kafka connector.
        address: address of the topic, see ``kwire.topic_address``.
        stream: True for a streaming DataFrame.

    Raises: OSError if the file with the properties of the client cannot be read or used.
    """
    reader = spark.readStream if stream else spark.read
    records = reader.format("kafka").options(**connector_options(address)).load().select(*COLUMNS)

    def converted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield rows(batch, address)

    return records.mapInArrow(converted, SCHEMA)


def connector_options(address: str) -> dict[str, str]:
    """Return the options of Spark's Kafka connector for a topic.

    ``address``: address of the topic, see ``kwire.topic_address``. Raises: OSError if the file with the properties of
    the client cannot be read or used.
    """
    found = TOPIC_ADDRESS.fullmatch(address)
    assert found is not None
    options = {
        "kafka.bootstrap.servers": found["servers"],
        "subscribe": found["topic"],
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    if (config := found["config"]) is not None:
        try:
            security = ClientProperties.read(config).of_java()
        except PropertyError as error:
            raise OSError(0, f"{config}: {error}", address) from error
        options |= {f"kafka.{name}": value for name, value in security.items()}
    return options


def rows(records: pa.RecordBatch, address: str) -> pa.RecordBatch:
    """Convert records to rows with the columns REFERENCES of ``segment_references``.

    A record without the headers that ``mockbroker proxy`` writes becomes a row with text in the column ``problem``.

    Args:
        records: records, with the columns COLUMNS.
        address: address of the topic, see ``kwire.topic_address``.
    """
    columns = (records.column(name).to_pylist() for name in COLUMNS)
    names = PartitionNames(address)
    found = [
        _row(value, headers or [], names[partition], partition, offset)
        for value, partition, offset, headers in zip(*columns, strict=True)
    ]
    return pa.RecordBatch.from_pylist(found, schema=REFERENCES)


def _row(
    value: bytes | None, headers: Sequence[Mapping[str, Any]], path: str, partition: int, offset: int
) -> dict[str, Any]:
    try:
        frame = logged_record(value, {one["key"]: one["value"] for one in headers}, offset)
    except Damage as damage:
        place = {"connection": b"", "path": path, "file": partition, "position": offset, "number": 0}
        return dict.fromkeys(REFERENCES.names) | place | {"problem": damage.reason}
    return logged_row(frame, path, partition, 0)
