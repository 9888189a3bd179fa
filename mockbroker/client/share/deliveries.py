"""The records of a partition in a ShareFetch response."""

from __future__ import annotations

from dataclasses import fields

from kwire.messages.fetch import FetchResponse
from kwire.messages.share_fetch import ShareFetchResponse
from mockbroker.client.errors import ConsumerError, CorruptRecord
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.records import ConsumerRecord, RecordReader
from mockbroker.client.share.acknowledgements import AcknowledgeType, Delivery, ShareRecord

MAX_ACQUIRED = 1_000_000  # records of one partition in a response; a broker delivers a few thousand
PORTION = 1_000  # records that are decoded at a time

Data = ShareFetchResponse.Topic.Partition


def delivery_of(
    node_id: int, partition: TopicPartition, data: Data, *, check_crcs: bool
) -> tuple[Delivery, ConsumerError | None]:
    """Return the acquired records of a partition, and the error that a poll raises (None without an error).

    Offsets without a record are acknowledged as gaps. A corrupt batch and the records after it are rejected. If more
    than MAX_ACQUIRED records were acquired, the result has no records and an error.

    Args:
        node_id: The broker.
        partition: Topic and partition number.
        data: The partition in the response.
        check_crcs: Whether the checksums of batches are checked.
    """
    counts: dict[int, int] = {}  # delivery count by offset
    for acquired in data.acquired_records:
        if acquired.last_offset - acquired.first_offset >= MAX_ACQUIRED - len(counts):
            message = f"{partition[0]}-{partition[1]}: the response delivers more than {MAX_ACQUIRED} records at once"
            return Delivery(node_id, partition, [], []), ConsumerError(message)
        for offset in range(acquired.first_offset, acquired.last_offset + 1):
            counts[offset] = acquired.delivery_count
    records, error = _read(partition, min(counts, default=0), data, check_crcs=check_crcs)
    kept = [_share_record(record, counts[record.offset]) for record in records if record.offset in counts]
    read = {record.offset for record in kept}
    end = float("inf") if error is None else error.offset
    missing = [offset for offset in counts if offset not in read]
    delivery = Delivery(node_id, partition, kept, [offset for offset in missing if offset < end])
    delivery.types |= dict.fromkeys((offset for offset in missing if offset >= end), AcknowledgeType.REJECT)
    return delivery, error


def _read(
    partition: TopicPartition, first: int, data: Data, *, check_crcs: bool
) -> tuple[list[ConsumerRecord], CorruptRecord | None]:
    """Return the records before the first corrupt record, and the error of this record (None without a corrupt record).

    Args:
        partition: Topic and partition number.
        first: Offset of the first record to return.
        data: The partition in the response.
        check_crcs: Whether the checksums of batches are checked.
    """
    fetched = FetchResponse.Topic.Partition(records=data.records, high_watermark=-1)
    reader = RecordReader(partition, first, fetched, read_committed=False, check_crcs=check_crcs)
    records: list[ConsumerRecord] = []
    try:
        while portion := reader.next_records(PORTION):
            records += portion
    except CorruptRecord as error:
        return records, error
    return records, None


def _share_record(record: ConsumerRecord, delivery_count: int) -> ShareRecord:
    values = {each.name: getattr(record, each.name) for each in fields(record)}
    return ShareRecord(**values, delivery_count=delivery_count)
