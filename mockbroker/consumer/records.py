"""What a consumer hands out, and how it is taken out of fetched bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kwire.errors import DecodeError
from kwire.messages.fetch import FetchResponse
from kwire.records import Batch, Record, read
from kwire.records.control import ControlType, control_records
from mockbroker.consumer.errors import CorruptRecord
from mockbroker.consumer.metadata import TopicPartition


@dataclass(slots=True, kw_only=True, eq=False)
class ConsumerRecord(Record):
    """A record with where it stood. ``leader_epoch``: of the leader that wrote it, -1 if the log does not say."""

    topic: str = ""
    partition: int = -1
    leader_epoch: int = -1


class Reader:
    """Reads the records of one answer from ``offset`` on, some at a time. ``next_offset``: behind what was taken.

    Records before the offset are passed over, and so is what goes backwards; control records and, if ``committed``,
    those of aborted transactions.
    """

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        line: FetchResponse.Topic.Partition,
        *,
        committed: bool,
        check_crcs: bool,
    ) -> None:
        self.partition, self.next_offset, self.epoch = partition, offset, -1
        self._line, self._committed, self._check_crcs = line, committed, check_crcs
        aborted = line.aborted_transactions or []
        self._aborted = sorted(((one.first_offset, one.producer_id) for one in aborted), reverse=True)
        self._aborting: set[int] = set()
        self._records = self._read()
        self._held: ConsumerRecord | None = None

    def take(self, most: int) -> list[ConsumerRecord]:
        """Up to so many records; fewer only at the end. Raises: CorruptRecord, once what came before it is taken."""
        some: list[ConsumerRecord] = []
        append, records = some.append, self._records
        try:
            while most > len(some):
                for record in records:
                    append(record)
                    if len(some) == most:
                        break
                else:
                    break
        except DecodeError as error:
            if not some:
                self._records = iter(())
                raise CorruptRecord(self.partition, self.next_offset, str(error)) from error
            self._records = _raising(error)
        if some:
            last = some[-1]
            if last.offset >= self.next_offset:
                self.next_offset, self.epoch = last.offset + 1, last.leader_epoch
        return some

    def _read(self) -> Iterator[ConsumerRecord]:
        topic, number = self.partition
        at = self.next_offset
        for batch in read(self._line.records):
            if batch.last_offset < at:
                continue
            if batch.last_offset >= self._line.high_watermark >= 0:
                told = f"up to offset {batch.last_offset}, the high watermark is {self._line.high_watermark}"
                raise DecodeError(f"records {told}", message="RecordBatch", offset=batch.position)
            if not isinstance(batch, Batch):
                for old in batch.records(verify_crc=self._check_crcs):
                    if old.offset >= at:
                        at = old.offset + 1
                        yield ConsumerRecord(
                            offset=old.offset,
                            timestamp=old.timestamp,
                            key=old.key,
                            value=old.value,
                            topic=topic,
                            partition=number,
                        )
                self._passed(at, -1)
                continue
            epoch = batch.leader_epoch
            if batch.control or (self._committed and self._is_aborted(batch)):
                if batch.control:
                    self._end_transaction(batch)
            else:
                for record in batch.records_as(ConsumerRecord, verify_crc=self._check_crcs):
                    offset = record.offset
                    if offset < at:
                        continue
                    at = offset + 1
                    record.topic, record.partition, record.leader_epoch = topic, number, epoch
                    yield record
            at = batch.last_offset + 1
            self._passed(at, epoch)

    def _passed(self, at: int, epoch: int) -> None:
        """Everything before ``at`` was taken: the generator goes on only when somebody wants the next record."""
        self.next_offset, self.epoch = max(self.next_offset, at), epoch

    def _is_aborted(self, batch: Batch) -> bool:
        while self._aborted and self._aborted[-1][0] <= batch.last_offset:
            self._aborting.add(self._aborted.pop()[1])
        return batch.transactional and batch.producer_id in self._aborting

    def _end_transaction(self, batch: Batch) -> None:
        if batch.producer_id in self._aborting and any(c.type == ControlType.ABORT for c in control_records(batch)):
            self._aborting.discard(batch.producer_id)


def _raising(error: DecodeError) -> Iterator[ConsumerRecord]:
    raise error
    yield  # makes it a generator: the error comes when the next record is asked for
