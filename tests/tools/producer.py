"""A transactional producer and a reader of committed records, in a broker harness."""

from __future__ import annotations

from typing import Any

from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.records import Record, build_batch
from kwire.records.batch import batches
from kwire.records.control import ControlType, control_records


class Producer:
    """A transactional producer of topic ``t``. ``new``: True for the flow of KIP-890. Methods return the error code."""

    def __init__(self, harness: BrokerHarness, name: str, *, new: bool = False, timeout_ms: int = 60_000) -> None:
        self.harness = harness
        self.name = name
        self.new = new
        self.timeout_ms = timeout_ms
        self.producer_id = self.epoch = -1
        self.sequences: dict[int, int] = {}

    @property
    def identity(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.producer_id, "producer_epoch": self.epoch}

    def init(self, *, known: bool = False, version: int = 4) -> E:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=self.timeout_ms)
        if known:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        answer = self.harness.ask(request, version)
        if not answer.error_code:
            self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        return E(answer.error_code)

    def add(self, *partitions: int) -> E:
        """Send AddPartitionsToTxn, which the flow of KIP-890 does not need."""
        fields = self.identity | {"topics": [Topic(name="t", partitions=list(partitions))]}
        request = AddPartitionsToTxnRequest(**{f"v3_and_below_{name}": value for name, value in fields.items()})
        topics = self.harness.ask(request, 3).results_by_topic_v3_and_below
        return E(topics[0].results_by_partition[0].partition_error_code)

    def produce(self, value: bytes, partition: int = 0) -> E:
        if not self.new and (error := self.add(partition)):
            return error
        return self.send(value, partition)

    def send(self, value: bytes, partition: int = 0, *, sequence: int | None = None) -> E:
        """Send Produce without AddPartitionsToTxn. ``sequence``: sequence number; None for the next one."""
        due = self.sequences.get(partition, 0) if sequence is None else sequence
        records = build_batch(
            [Record(value=value)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=due,
            transactional=True,
        )
        data = ProduceRequest.Topic.Partition(index=partition, records=records)
        topic = ProduceRequest.Topic(name="t", partition_data=[data])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=1000, topic_data=[topic])
        answer = self.harness.ask(request, 12 if self.new else 9).responses[0].partition_responses[0]
        if not answer.error_code:
            self.sequences[partition] = due + 1
        return E(answer.error_code)

    def commit(self, group: str, offset: int, partition: int = 0) -> E:
        """Send TxnOffsetCommit, in the old flow after AddOffsetsToTxn."""
        if not self.new:
            added = self.harness.ask(AddOffsetsToTxnRequest(**self.identity, group_id=group), 3).error_code
            if added:
                return E(added)
        return self.hold(group, offset, partition)

    def hold(self, group: str, offset: int, partition: int = 0) -> E:
        """Send TxnOffsetCommit without AddOffsetsToTxn."""
        kind = TxnOffsetCommitRequest.Topic
        place = kind.Partition(partition_index=partition, committed_offset=offset)
        request = TxnOffsetCommitRequest(**self.identity, group_id=group, topics=[kind(name="t", partitions=[place])])
        return E(self.harness.ask(request, 5 if self.new else 3).topics[0].partitions[0].error_code)

    def end(self, *, committed: bool) -> E:
        answer = self.harness.ask(EndTxnRequest(**self.identity, committed=committed), 5 if self.new else 3)
        if self.new and not answer.error_code:
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self.sequences = {}
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return E(answer.error_code)


def read_committed(harness: BrokerHarness, partition: int = 0, *, limit: int = 1 << 20) -> list[bytes | None]:
    """Return the values that a read_committed consumer delivers. ``limit``: maximum bytes of each Fetch."""
    values: list[bytes | None] = []
    offset = 0
    while True:
        wanted = FetchRequest.Topic.Partition(partition=partition, fetch_offset=offset, partition_max_bytes=limit)
        topics = [FetchRequest.Topic(topic="t", partitions=[wanted])]
        answer = harness.ask(FetchRequest(isolation_level=1, topics=topics), 11).responses[0].partitions[0]
        assert answer.error_code == E.NONE
        if not answer.records:
            assert offset == answer.last_stable_offset
            return values
        aborted = sorted(answer.aborted_transactions, key=lambda each: each.first_offset)
        skipped: set[int] = set()
        for batch in batches(answer.records):
            assert batch.base_offset < answer.last_stable_offset
            while aborted and aborted[0].first_offset <= batch.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            if batch.control:
                (marker,) = control_records(batch)
                if marker.type == ControlType.ABORT:
                    skipped.discard(batch.producer_id)
            elif not (batch.transactional and batch.producer_id in skipped):
                values += [record.value for record in batch.records()]
            offset = batch.last_offset + 1
