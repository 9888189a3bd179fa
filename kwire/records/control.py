"""Control records: what brokers themselves write into a log, in batches of their own, which consumers skip.

The key says what a record is; the value of ABORT and COMMIT is the marker that ends a transaction. The other types
belong to the log of the controllers. Source: org.apache.kafka.common.record.ControlRecordType, EndTxnMarker.json.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from kwire.blobs import decode_stored, encode_stored
from kwire.errors import DecodeError
from kwire.records.batch import Batch, build_batch
from kwire.records.record import Record
from kwire.schema import Int16, Int32, data


class ControlType(IntEnum):
    """Kafka's names of the types that there are so far."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@data(versions="0", flexible="none")
class ControlRecordKey:
    """Stands behind an int16 with its version, as in all control records; ``type`` may be newer than ControlType."""

    type: int = Int16()


@data(versions="0", flexible="none")
class EndTxnMarker:
    """The value of ABORT and COMMIT, behind an int16 with its version."""

    coordinator_epoch: int = Int32()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord:
    """``marker``: of ABORT and COMMIT, None for other types; ``value``: the bytes of whatever the type has."""

    offset: int
    timestamp: int
    type: int
    marker: EndTxnMarker | None = None
    value: bytes | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Kafka's name of the type, or its number."""
        return ControlType(self.type).name if self.type in tuple(ControlType) else str(self.type)


def control_records(batch: Batch) -> Iterator[ControlRecord]:
    """The records of a control batch. Raises: DecodeError; ValueError if it is not a control batch."""
    if not batch.control:
        raise ValueError("not a control batch")
    return map(read_control_record, batch.records())


def read_control_record(record: Record) -> ControlRecord:
    """What one record of a control batch says. Raises: DecodeError."""
    if record.key is None:
        raise DecodeError("a control record without a key", message="ControlRecordKey")
    key, _ = decode_stored(ControlRecordKey, record.key)
    marker = None
    if key.type in (ControlType.ABORT, ControlType.COMMIT):
        if record.value is None:
            raise DecodeError("a marker without a value", message="EndTxnMarker")
        marker, _ = decode_stored(EndTxnMarker, record.value)
    return ControlRecord(
        offset=record.offset, timestamp=record.timestamp, type=key.type, marker=marker, value=record.value
    )


def build_marker(
    type: ControlType,  # noqa: A002
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a transaction of a producer in one partition.

    ``timestamp``: milliseconds since 1970. Raises: EncodeError; ValueError if ``type`` is not ABORT or COMMIT.
    """
    if type not in (ControlType.ABORT, ControlType.COMMIT):
        raise ValueError(f"{type.name} does not end a transaction")
    record = Record(
        timestamp=timestamp,
        key=encode_stored(ControlRecordKey(type=type), 0),
        value=encode_stored(EndTxnMarker(coordinator_epoch=coordinator_epoch), 0),
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
