"""A transactional producer, for scripts; and requests of other clients about its transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from consumer import topic_id
from prober import Prober

from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from kwire.messages.describe_producers import DescribeProducersRequest
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.records import Record, build_batch

COMMITTED = 1
WRITTEN_AT = 1_700_000_000_000  # milliseconds since 1970; the same in each recording
BY_ID = 13  # the first version of Produce and Fetch with topic ids


def batch(*values: bytes, producer_id: int = -1, epoch: int = -1, sequence: int = -1, **how: bool) -> bytes:
    """Return a batch with these values. ``how``: whether it is transactional, or a control batch."""
    records = [Record(timestamp=WRITTEN_AT, value=value) for value in values]
    return build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **how)


@dataclass(slots=True, kw_only=True)
class Producer:
    """A transactional producer. ``new``: with KIP-890: a new epoch after each transaction, no AddPartitionsToTxn."""

    p: Prober
    conn: str = "A"
    name: str = ""
    new: bool = False
    timeout_ms: int = 20_000
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = self.name or f"tx-{self.p.scenario}"
        self.p.names[self.name] = f"$txn:{self.conn}"

    async def init(self, version: int = 4, **changes: Any) -> Any:
        request = InitProducerIdRequest(
            **{"transactional_id": self.name, "transaction_timeout_ms": self.timeout_ms, **changes}
        )
        answer = await self.p.ask(self.conn, request, version)
        if not answer.error_code:
            self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        return answer

    async def add(self, *topics: tuple[str, Sequence[int]], version: int = 3, **changes: Any) -> Any:
        fields: dict[str, Any] = {"transactional_id": self.name, "producer_id": self.producer_id}
        fields |= (
            {"producer_epoch": self.epoch}
            | changes
            | {"topics": [Topic(name=name, partitions=list(which)) for name, which in topics]}
        )
        request = AddPartitionsToTxnRequest(**{f"v3_and_below_{name}": value for name, value in fields.items()})
        return await self.p.ask(self.conn, request, version)

    async def produce(
        self,
        topic: str,
        partition: int = 0,
        *values: bytes,
        version: int = 0,
        transactional: bool = True,
        control: bool = False,
        producer_id: int | None = None,
        epoch: int | None = None,
        sequence: int | None = None,
        **changes: Any,
    ) -> Any:
        values = values or (b"v",)
        due = self.sequences.get((topic, partition), 0) if sequence is None else sequence
        records = batch(
            *values,
            producer_id=self.producer_id if producer_id is None else producer_id,
            epoch=self.epoch if epoch is None else epoch,
            sequence=due,
            transactional=transactional,
            control=control,
        )
        version = version or (12 if self.new else 9)
        named = {"topic_id": topic_id(self.p, topic)} if version >= BY_ID else {"name": topic}
        data = ProduceRequest.Topic.Partition(index=partition, records=records)
        request = ProduceRequest(
            **{
                "transactional_id": self.name,
                "acks": -1,
                "timeout_ms": 5000,
                "topic_data": [ProduceRequest.Topic(**named, partition_data=[data])],
                **changes,
            }
        )
        answer = await self.p.ask(self.conn, request, version)
        if not answer.responses[0].partition_responses[0].error_code:
            self.sequences[topic, partition] = due + len(values)
        return answer

    async def produce_records(self, topic: str, *records: Record) -> Any:
        """Produce records with keys and timestamps to partition 0."""
        due = self.sequences.get((topic, 0), 0)
        encoded = build_batch(
            records, producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=due, transactional=True
        )
        data = ProduceRequest.Topic.Partition(index=0, records=encoded)
        topics = [ProduceRequest.Topic(name=topic, partition_data=[data])]
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=5000, topic_data=topics)
        answer = await self.p.ask(self.conn, request, 9)
        self.sequences[topic, 0] = due + len(records)
        return answer

    async def end(self, committed: bool, version: int = 0, **changes: Any) -> Any:
        """Commit or abort the transaction, and wait until the markers are written."""
        version = version or (5 if self.new else 3)
        request = EndTxnRequest(
            **{
                "transactional_id": self.name,
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "committed": committed,
                **changes,
            }
        )
        answer = await self.p.ask(self.conn, request, version)
        if version >= 5 and not answer.error_code and "producer_epoch" not in changes:
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self.sequences = {}
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        await self.p.wait(300)
        return answer

    async def add_group(self, group: str = "", version: int = 3, **changes: Any) -> Any:
        request = AddOffsetsToTxnRequest(
            **{
                "transactional_id": self.name,
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "group_id": group or self.p.group,
                **changes,
            }
        )
        return await self.p.ask(self.conn, request, version)

    async def commit(
        self, offset: int, topic: str = "probe", partition: int = 0, version: int = 0, **changes: Any
    ) -> Any:
        """Send TxnOffsetCommit for one partition."""
        version = version or (5 if self.new else 3)
        place = TxnOffsetCommitRequest.Topic.Partition(
            partition_index=partition, committed_offset=offset, committed_metadata="in txn"
        )
        request = TxnOffsetCommitRequest(
            **{
                "transactional_id": self.name,
                "group_id": self.p.group,
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "topics": [TxnOffsetCommitRequest.Topic(name=topic, partitions=[place])],
                **changes,
            }
        )
        return await self.p.ask(self.conn, request, version)

    async def describe(self, *names: str) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=list(names or [self.name]))
        return await self.p.ask("D", request, 0)


async def read(p: Prober, topic: str, offset: int = 0, *, isolation: int = COMMITTED, partition: int = 0) -> Any:
    """Send a Fetch that does not wait for records."""
    wanted = FetchRequest.Topic.Partition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=isolation,
        topics=[FetchRequest.Topic(topic=topic, partitions=[wanted])],
    )
    return await p.ask("F", request, 11)


async def ends(p: Prober, topic: str, *, isolation: int = COMMITTED, partition: int = 0) -> Any:
    """Send ListOffsets for the latest offset."""
    wanted = ListOffsetsRequest.Topic.Partition(partition_index=partition, timestamp=-1)
    requested = ListOffsetsRequest.Topic(name=topic, partitions=[wanted])
    return await p.ask("F", ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[requested]), 5)


async def offsets(p: Prober, *, stable: bool, everything: bool = False, group: str = "") -> Any:
    """Send OffsetFetch for partitions 0 and 1 of probe, or for all committed offsets."""
    named = [OffsetFetchRequest.Topic(name="probe", partition_indexes=[0, 1])]
    request = OffsetFetchRequest(group_id=group or p.group, topics=None if everything else named, require_stable=stable)
    return await p.ask("F", request, 7)


async def producers(p: Prober, topic: str, *partitions: int) -> Any:
    wanted = DescribeProducersRequest.Topic(name=topic, partition_indexes=list(partitions or [0]))
    return await p.ask("D", DescribeProducersRequest(topics=[wanted]), 0)
