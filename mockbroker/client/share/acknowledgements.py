"""The acknowledgements of a share consumer: their types, and the batches that requests contain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import IntEnum
from typing import TypeAlias

from kwire.lazy_dataclass import dataclass
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.records import ConsumerRecord


class AcknowledgeType(IntEnum):
    """The type of an acknowledgement, with its number in the protocol. Source: Kafka's AcknowledgeType."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


Types: TypeAlias = dict[int, AcknowledgeType]  # acknowledgements of a partition, by offset


@dataclass(slots=True, kw_only=True, eq=False)
class ShareRecord(ConsumerRecord):
    """A record that a share consumer has acquired.

    Attributes:
        delivery_count: Number of deliveries of the record, this one included.
    """

    delivery_count: int = 1


@dataclass(frozen=True, slots=True)
class AckBatch:
    """Consecutive offsets with their acknowledgements.

    Attributes:
        first: first offset.
        last: last offset.
        types: the type of each offset; only one type if all offsets have the same type.
    """

    first: int
    last: int
    types: tuple[AcknowledgeType, ...]


def batches_of(types: Mapping[int, AcknowledgeType]) -> list[AckBatch]:
    """Return the acknowledgements of a partition as batches of consecutive offsets.

    ``types``: offset -> type.
    """
    batches: list[AckBatch] = []
    run: list[int] = []
    for offset in sorted(types):
        if run and offset != run[-1] + 1:
            batches.append(_batch(run, types))
            run = []
        run.append(offset)
    if run:
        batches.append(_batch(run, types))
    return batches


def _batch(offsets: list[int], types: Mapping[int, AcknowledgeType]) -> AckBatch:
    given = tuple(types[offset] for offset in offsets)
    return AckBatch(offsets[0], offsets[-1], given[:1] if len(set(given)) == 1 else given)


@dataclass(slots=True)
class Delivery:
    """Records of one partition that were acquired from one broker.

    Attributes:
        node_id: The broker.
        partition: Topic and partition number.
        records: The records.
        gaps: Acquired offsets without a record.
        types: The acknowledgements so far, by offset.
        open: Offsets whose records must still be acknowledged.
    """

    node_id: int
    partition: TopicPartition
    records: list[ShareRecord]
    gaps: list[int]
    types: Types = field(default_factory=dict)
    open: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Mark all records as not acknowledged yet, and the gaps as acknowledged."""
        self.open = {record.offset for record in self.records}
        self.types = dict.fromkeys(self.gaps, AcknowledgeType.GAP)

    def acknowledge(self, offsets: Iterable[int], kind: AcknowledgeType) -> None:
        """Set the acknowledgement type of records. A record with the type RENEW must be acknowledged again later.

        Args:
            offsets: Offsets of the records.
            kind: The type.
        """
        for offset in offsets:
            self.types[offset] = kind
            if kind is not AcknowledgeType.RENEW:
                self.open.discard(offset)

    def take_types(self) -> Types:
        """Remove and return the acknowledgements that have not been sent yet."""
        types, self.types = self.types, {}
        return types
