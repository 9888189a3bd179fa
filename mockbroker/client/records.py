"""The records that a consumer returns, and the reader of these records in a Fetch response."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kwire.errors import CrcError, DecodeError
from kwire.lazy_dataclass import dataclass
from kwire.messages.fetch import FetchResponse
from kwire.records import Batch, Record, RecordSet, read
from kwire.records.control import ControlType, read_control_record
from mockbroker.client.errors import CorruptRecord
from mockbroker.client.metadata import TopicPartition


@dataclass(slots=True, kw_only=True, eq=False)
class ConsumerRecord(Record):
    """A record with its topic and partition.

    Attributes:
        topic: Topic name.
        partition: Partition number.
        leader_epoch: Epoch of the leader that wrote the record; -1 if the log does not contain the epoch.
    """

    topic: str = ""
    partition: int = -1
    leader_epoch: int = -1


class RecordReader:
    """A reader of the records of one partition in a Fetch response, in portions.

    The reader skips records before ``offset``, records whose offset does not increase, control records and, with
    ``read_committed``, records of aborted transactions. The reader stops at the high watermark in the response. A
    broker reads the high watermark before the records (Partition.readRecords of Kafka), so the response may contain
    records after the high watermark.

    Args:
        partition: Topic and partition number.
        offset: Offset of the first record to read.
        data: The part of the Fetch response for the partition.
        read_committed: Whether to skip records of aborted transactions.
        check_crcs: Whether to check the CRCs of the batches.

    Attributes:
        partition: Topic and partition number.
        next_offset: Offset after the last record read.
        epoch: Leader epoch of the last record read; -1 if unknown.
    """

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        data: FetchResponse.Topic.Partition,
        *,
        read_committed: bool,
        check_crcs: bool,
    ) -> None:
        self.partition, self.next_offset, self.epoch = partition, offset, -1
        self._data, self._read_committed, self._check_crcs = data, read_committed, check_crcs
        aborted = data.aborted_transactions or []
        self._aborted = sorted(((one.first_offset, one.producer_id) for one in aborted), reverse=True)
        self._open_aborted: set[int] = set()
        self._limit = 0
        self._portions = self._read()
        self._error: DecodeError | None = None

    def next_records(self, max_records: int) -> list[ConsumerRecord]:
        """Return up to ``max_records`` records, fewer only at the end of the response or before a corrupt record.

        Raises: CorruptRecord if the first remaining record is corrupt.
        """
        records: list[ConsumerRecord] = []
        try:
            while len(records) < max_records:
                self._limit = max_records - len(records)
                portion = next(self._portions, None)
                if portion is None:
                    break
                records += portion
        except DecodeError as error:
            self._error = error
        if self._error is not None and not records:
            raise CorruptRecord(self.partition, self.next_offset, str(self._error)) from self._error
        return records

    @property
    def corrupt(self) -> bool:
        """Whether the next record of the response is corrupt."""
        return self._error is not None

    def _read(self) -> Iterator[list[ConsumerRecord]]:
        """Yield the records of the response in lists of up to ``_limit`` records.

        The records of a list are from one batch. No record is decoded in advance.

        Raises: DecodeError for a corrupt batch or record, after the records before it were yielded.
        """
        complete = False
        for batch in read(self._data.records):
            complete = True
            self._check(batch)
            if batch.last_offset < self.next_offset:
                continue
            if batch.last_offset >= self._data.high_watermark >= 0:
                return
            if not isinstance(batch, Batch):
                yield from self._in_order(map(self._from_legacy, batch.records(verify_crc=self._check_crcs)), -1)
            elif batch.control:
                self._end_transaction(batch)
            elif not (self._read_committed and self._is_aborted(batch)):
                yield from self._in_order(batch.records_as(ConsumerRecord, verify_crc=False), batch.leader_epoch)
            self.next_offset = max(self.next_offset, batch.last_offset + 1)
            self.epoch = batch.leader_epoch if isinstance(batch, Batch) else -1
        if not complete and self._data.records:
            raise DecodeError(
                "the Fetch response has no complete record batch, although it is not empty", message="RecordBatch"
            )

    def _in_order(self, records: Iterator[ConsumerRecord], epoch: int) -> Iterator[list[ConsumerRecord]]:
        """Yield the records of a batch in lists; records whose offset does not increase are left out.

        Args:
            records: The records of the batch.
            epoch: Leader epoch of the batch.

        Raises: DecodeError for a corrupt record, after the records before it were yielded.
        """
        topic, number = self.partition
        error: DecodeError | None = None
        while error is None:
            portion: list[ConsumerRecord] = []
            try:
                portion.extend(islice(records, self._limit))
            except DecodeError as raised:
                error = raised
            if not portion:
                break
            at = self.next_offset
            repeated = False
            for record in portion:
                if record.offset < at:
                    repeated = True
                    record.partition = -1
                    continue
                at = record.offset + 1
                record.topic, record.partition, record.leader_epoch = topic, number, epoch
            self.next_offset, self.epoch = at, epoch
            yield [record for record in portion if record.partition >= 0] if repeated else portion
        if error is not None:
            raise error

    @staticmethod
    def _from_legacy(old: Record) -> ConsumerRecord:
        return ConsumerRecord(offset=old.offset, timestamp=old.timestamp, key=old.key, value=old.value)

    def _check(self, batch: RecordSet) -> None:
        """Check the CRC of a batch, unless ``check_crcs`` is False. Raises: CrcError if the CRC is wrong.

        The CRC of a skipped batch is checked too, because the last offset of the batch determines the next offset.
        """
        if self._check_crcs and not batch.crc_is_right():
            raise CrcError(
                "the CRC in the batch header does not match the batch", message="RecordBatch", offset=batch.position
            )

    def _start_aborted(self, last_offset: int) -> None:
        """Begin to skip the records of the aborted transactions that start at or before ``last_offset``."""
        while self._aborted and self._aborted[-1][0] <= last_offset:
            self._open_aborted.add(self._aborted.pop()[1])

    def _is_aborted(self, batch: Batch) -> bool:
        self._start_aborted(batch.last_offset)
        return batch.transactional and batch.producer_id in self._open_aborted

    def _end_transaction(self, batch: Batch) -> None:
        self._start_aborted(batch.last_offset)  # also transactions whose records were all skipped
        if batch.producer_id in self._open_aborted:
            types = {read_control_record(record).type for record in batch.records(verify_crc=False)}
            if ControlType.ABORT in types:
                self._open_aborted.discard(batch.producer_id)
