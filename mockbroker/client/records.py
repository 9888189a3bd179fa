"""What a consumer hands out, and how it is taken out of fetched bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from kwire.errors import CrcError, DecodeError
from kwire.messages.fetch import FetchResponse
from kwire.records import Batch, Record, RecordSet, read
from kwire.records.control import ControlType, read_control_record
from mockbroker.client.errors import CorruptRecord
from mockbroker.client.metadata import TopicPartition


@dataclass(slots=True, kw_only=True, eq=False)
class ConsumerRecord(Record):
    """A record with where it stood. ``leader_epoch``: of the leader that wrote it, -1 if the log does not say."""

    topic: str = ""
    partition: int = -1
    leader_epoch: int = -1


class Reader:
    """Reads the records of one answer from ``offset`` on, some at a time. ``next_offset``: behind what was taken.

    Records before the offset are passed over, and so is what goes backwards; control records and, if ``committed``,
    those of aborted transactions. What is not below the high watermark is left for another answer: a broker looks at
    the mark before it reads (Partition.readRecords of Kafka), so a little more may come.
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
        self._wanted = 0
        self._some = self._read()
        self._error: DecodeError | None = None

    def next_records(self, most: int) -> list[ConsumerRecord]:
        """Up to so many records; fewer only at the end. Raises: CorruptRecord, once what came before it is taken."""
        taken: list[ConsumerRecord] = []
        try:
            while len(taken) < most:
                self._wanted = most - len(taken)
                some = next(self._some, None)
                if some is None:
                    break
                taken += some
        except DecodeError as error:
            self._error = error
        if self._error is not None and not taken:
            raise CorruptRecord(self.partition, self.next_offset, str(self._error)) from self._error
        return taken

    @property
    def broken(self) -> bool:
        """True if what comes next cannot be read."""
        return self._error is not None

    def _read(self) -> Iterator[list[ConsumerRecord]]:
        """As many as are wanted, or those up to the end of a batch. It goes on only when somebody wants more."""
        whole = False
        for batch in read(self._line.records):
            whole = True
            self._check(batch)
            if batch.last_offset < self.next_offset:
                continue
            if batch.last_offset >= self._line.high_watermark >= 0:
                return
            if not isinstance(batch, Batch):
                yield from self._taken(map(self._of_old, batch.records(verify_crc=self._check_crcs)), -1)
            elif batch.control:
                self._end_transaction(batch)
            elif not (self._committed and self._is_aborted(batch)):
                yield from self._taken(batch.records_as(ConsumerRecord, verify_crc=False), batch.leader_epoch)
            self.next_offset = max(self.next_offset, batch.last_offset + 1)
            self.epoch = batch.leader_epoch if isinstance(batch, Batch) else -1
        if not whole and self._line.records:
            raise DecodeError("no whole batch in what came", message="RecordBatch")

    def _taken(self, records: Iterator[ConsumerRecord], epoch: int) -> Iterator[list[ConsumerRecord]]:
        """Those of one batch; the ones before a broken one come before its error."""
        topic, number = self.partition
        error: DecodeError | None = None
        while error is None:
            some: list[ConsumerRecord] = []
            try:
                some.extend(islice(records, self._wanted))
            except DecodeError as raised:
                error = raised
            if not some:
                break
            at = self.next_offset
            backwards = False
            for record in some:
                if record.offset < at:
                    backwards = True
                    record.partition = -1
                    continue
                at = record.offset + 1
                record.topic, record.partition, record.leader_epoch = topic, number, epoch
            self.next_offset, self.epoch = at, epoch
            yield [record for record in some if record.partition >= 0] if backwards else some
        if error is not None:
            raise error

    @staticmethod
    def _of_old(old: Record) -> ConsumerRecord:
        return ConsumerRecord(offset=old.offset, timestamp=old.timestamp, key=old.key, value=old.value)

    def _check(self, batch: RecordSet) -> None:
        """Also what is passed over: where it ends decides what is read next."""
        if self._check_crcs and not batch.crc_is_right():
            raise CrcError("the crc does not match the bytes", message="RecordBatch", offset=batch.position)

    def _begun(self, last_offset: int) -> None:
        """Transactions that began up to there and were aborted."""
        while self._aborted and self._aborted[-1][0] <= last_offset:
            self._aborting.add(self._aborted.pop()[1])

    def _is_aborted(self, batch: Batch) -> bool:
        self._begun(batch.last_offset)
        return batch.transactional and batch.producer_id in self._aborting

    def _end_transaction(self, batch: Batch) -> None:
        self._begun(batch.last_offset)  # also one whose records are all before the offset
        if batch.producer_id in self._aborting:
            types = {read_control_record(record).type for record in batch.records(verify_crc=False)}
            if ControlType.ABORT in types:
                self._aborting.discard(batch.producer_id)
