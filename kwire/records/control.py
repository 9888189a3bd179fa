"""Control records: markers and metadata that brokers append in separate batches. Consumers skip them.

The key contains the type of the record. The value of a record of type ABORT or COMMIT is the marker that ends a
transaction. All other types occur only in the metadata log of the controllers. Source:
org.apache.kafka.common.record.ControlRecordType.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import IntEnum

from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.control_records import (
    ControlRecordKey,
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kwire.errors import DecodeError
from kwire.lazy_dataclass import dataclass
from kwire.records.batch import Batch, build_batch
from kwire.records.record import Record


class ControlType(IntEnum):
    """The type of a control record, as in the key of the record. The names are Kafka's."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


VALUES: Mapping[int, type] = {
    ControlType.ABORT: EndTxnMarker,
    ControlType.COMMIT: EndTxnMarker,
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord:
    """A decoded control record.

    Attributes:
        offset: offset of the record in the partition.
        timestamp: milliseconds since 1970.
        type: number of the type, as in the key; a ControlType if the number is known.
        message: decoded value; None for a type that ControlType does not contain.
        value: encoded value.
    """

    offset: int
    timestamp: int
    type: int
    message: object | None = None
    value: bytes | None = field(default=None, repr=False)

    @property
    def marker(self) -> EndTxnMarker | None:
        """The end-transaction marker of an ABORT or COMMIT record; None for all other types."""
        return self.message if isinstance(self.message, EndTxnMarker) else None

    @property
    def name(self) -> str:
        """Kafka's name of the type; the number as text if the type is unknown."""
        return ControlType(self.type).name if self.type in tuple(ControlType) else str(self.type)


def control_records(batch: Batch) -> Iterator[ControlRecord]:
    """Yield the decoded records of a control batch.

    Raises: DecodeError if a record is invalid; ValueError if ``batch`` is not a control batch.
    """
    if not batch.control:
        raise ValueError(f"the batch at offset {batch.base_offset} is not a control batch: check batch.control first")
    return map(read_control_record, batch.records())


def read_control_record(record: Record) -> ControlRecord:
    """Decode one record of a control batch. Raises: DecodeError if its key or value is missing or invalid."""
    if record.key is None:
        raise DecodeError("the control record has no key, so its type is unknown", message="ControlRecordKey")
    key, _ = decode_stored(ControlRecordKey, record.key)
    message: object | None = None
    if key.type in VALUES:
        if record.value is None:
            raise DecodeError(
                f"a control record of type {key.type} needs a value, but the value is null",
                message=VALUES[key.type].__name__,
            )
        message = decode_stored(VALUES[key.type], record.value)[0]
    return ControlRecord(
        offset=record.offset, timestamp=record.timestamp, type=key.type, message=message, value=record.value
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
    """Return the bytes of the control batch that ends a transaction in one partition.

    Args:
        type: ABORT or COMMIT.
        producer_id: id of the transactional producer.
        producer_epoch: epoch of the producer.
        coordinator_epoch: epoch of the transaction coordinator.
        timestamp: milliseconds since 1970.
        base_offset: offset of the marker in the partition.
        leader_epoch: leader epoch of the partition; -1 if unknown.

    Raises: EncodeError if a number does not fit into its field; ValueError if ``type`` is not ABORT or COMMIT.
    """
    if type not in (ControlType.ABORT, ControlType.COMMIT):
        name = type.name if isinstance(type, ControlType) else repr(type)
        raise ValueError(f"{name} does not end a transaction: use ABORT or COMMIT")
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
