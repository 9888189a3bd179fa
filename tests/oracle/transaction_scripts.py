"""Conversations about transactions, which record.py records; each function is one conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio
from consumer import Consumer, consumer_script, create
from prober import SHARE, Client, Prober
from script import NEW, script
from transaction import Producer, ends, offsets, producers, read

from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.messages.list_transactions import ListTransactionsRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_delete import OffsetDeleteRequest
from kwire.messages.write_txn_markers import WriteTxnMarkersRequest
from mockbroker.lab.conform.asker import open_asker

SOON_OVER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
UNCOMMITTED = 0
FOR_EVER = str(2**63 - 1)


async def begin(p: Prober, topic: str = "", partitions: int = 2, **how: object) -> tuple[Producer, str]:
    """Return an initialized producer, and the name of a new topic."""
    topic = topic or f"t-{p.scenario}"
    # The timestamps of records are years before those of markers. Without segment.ms, the leader would roll the segment
    # before a marker, and a Fetch would end there.
    await create(p, topic, partitions, segment_ms=FOR_EVER, retention_ms="-1")
    a = Producer(p=p, **how)  # type: ignore[arg-type]
    async with open_asker(p.host, p.port) as asker:  # the first request creates __transaction_state
        request = FindCoordinatorRequest(key=a.name, key_type=1)
        while (await asker.ask(request, 3, FindCoordinatorResponse)).error_code:
            await trio.sleep(0.1)
        init = InitProducerIdRequest(transactional_id=f"{a.name}-before", transaction_timeout_ms=1000)
        while (await asker.ask(init, 4, InitProducerIdResponse)).error_code:
            await trio.sleep(0.1)
    await p.wait(300)
    await p.ask("A", request, 3)
    await a.init()
    return a, topic


# --- ids and epochs -----------------------------------------------------------------------------------------------


@script()
async def txn_init(p: Prober) -> None:
    """InitProducerId: valid and invalid fields, and an epoch that advances with each request."""
    a, _ = await begin(p)
    await a.init()
    await a.init(version=0)
    await a.init(version=5 if p.release == NEW else 4)
    await a.init(transactional_id="")
    await a.init(transaction_timeout_ms=0)
    await a.init(transaction_timeout_ms=-1)
    await a.init(transaction_timeout_ms=900_001)
    await a.init(transaction_timeout_ms=900_000)
    await a.init(transactional_id=None, transaction_timeout_ms=0)


@script()
async def txn_init_again(p: Prober) -> None:
    """InitProducerId v3+ with the producer id and epoch of the producer: an epoch bump, the same request twice, and an
    epoch that is too old."""
    a, _ = await begin(p)
    first, old = a.producer_id, a.epoch
    await a.init(producer_id=first, producer_epoch=old)
    await a.init(producer_id=first, producer_epoch=old)
    await a.init(producer_id=first, producer_epoch=a.epoch)
    await a.init(producer_id=first, producer_epoch=old)
    await a.init(producer_id=first, producer_epoch=99)
    await a.init(producer_id=first + 1000, producer_epoch=a.epoch)
    await a.init(producer_id=first, producer_epoch=-1)
    await a.init(producer_id=-1, producer_epoch=a.epoch)
    await a.describe()


@script()
async def txn_init_with_an_id_that_is_new(p: Prober) -> None:
    """InitProducerId with a producer id and epoch for a transactional id that has not been used."""
    a, _ = await begin(p)
    b = Producer(p=p, conn="B", name=f"{a.name}-b")
    await b.init(producer_id=a.producer_id + 1000, producer_epoch=5)
    await b.init(transactional_id=None, producer_id=a.producer_id, producer_epoch=a.epoch)


@script()
async def txn_fenced_by_another(p: Prober) -> None:
    """A second producer with the same transactional id during an open transaction: the transaction is aborted first,
    then the second producer gets a new epoch."""
    a, topic = await begin(p)
    await a.add((topic, [0]))
    await a.produce(topic)
    b = Producer(p=p, conn="B", name=a.name)
    await b.init()
    await p.wait(300)
    await a.describe()
    await b.init()
    await a.describe()
    await a.produce(topic)
    await a.produce(topic, version=11)
    for version in (0, 1, 2, 3):
        await a.add((topic, [0]), version=version)
        await a.add_group(version=version)
        await a.end(True, version=version)
        await a.commit(7, version=version)
    await a.add_group(version=4)
    await a.end(True, version=4)
    await a.commit(7, version=4)
    await a.init(producer_id=a.producer_id, producer_epoch=a.epoch)
    await read(p, topic)
    await producers(p, topic)


# --- partitions and records in a transaction ----------------------------------------------------------------------


@script()
async def txn_add_partitions(p: Prober) -> None:
    """AddPartitionsToTxn: it adds all partitions or none; wrong transactional ids, producer ids and epochs; partitions
    that are already in the transaction."""
    a, topic = await begin(p)
    await a.add((topic, [0]), transactional_id="")
    await a.add((topic, [0]), transactional_id="nobody")
    await a.add((topic, [0]), producer_id=a.producer_id + 1000)
    await a.add((topic, [0]), producer_epoch=a.epoch + 1)
    await a.add((topic, [0, 7]), ("not-there", [0]))
    await a.describe()
    await a.add()
    await a.describe()
    await a.add((topic, [0]))
    await a.describe()
    await a.add((topic, [0]))
    await a.add((topic, [0, 1]), ("probe", [2]))
    await a.describe()
    await a.add(("__consumer_offsets", [0]))
    await a.end(False)
    await a.describe()
    await a.describe("nobody", "")


@script()
async def txn_verify(p: Prober) -> None:
    """AddPartitionsToTxn v4 and v5, which brokers send to verify a transaction."""
    a, topic = await begin(p)

    async def ask(version: int, *, verify: bool, which: tuple[int, ...], **changes: object) -> None:
        one = AddPartitionsToTxnRequest.Transaction(
            **{
                "transactional_id": a.name,
                "producer_id": a.producer_id,
                "producer_epoch": a.epoch,
                "verify_only": verify,
                "topics": [Topic(name=topic, partitions=list(which))],
                **changes,
            }
        )
        await p.ask("B", AddPartitionsToTxnRequest(transactions=[one]), version)

    for version in (4, 5):
        await ask(version, verify=True, which=(0,))
        await ask(version, verify=False, which=(0,))
        await ask(version, verify=True, which=(0, 1))
        await ask(version, verify=True, which=(0,), producer_epoch=a.epoch + 1)
        await ask(version, verify=True, which=(0,), producer_id=a.producer_id + 1000)
        await ask(version, verify=True, which=(0,), transactional_id="nobody")
        await ask(version, verify=False, which=(0, 9))
        await a.end(True)
        await ask(version, verify=True, which=(0,))


@script()
async def txn_produce(p: Prober) -> None:
    """Produce in a transaction, and the requests that it refuses."""
    a, topic = await begin(p)
    for version in (3, 9, 10, 11):
        await a.produce(topic, version=version)
    await a.add((topic, [0]))
    await a.produce(topic, 0, b"a", b"b")
    await a.produce(topic, 1)
    await a.produce(topic, 0, transactional=False)
    await a.produce(topic, 0, transactional_id=None)
    await a.produce(topic, 0, transactional_id="nobody")
    await a.produce(topic, 0, epoch=a.epoch + 1, sequence=0)
    await a.produce(topic, 0, producer_id=a.producer_id + 1000, sequence=0)
    await a.produce(topic, 0, producer_id=-1, epoch=-1, sequence=-1)
    await a.produce(topic, 0, sequence=0)
    await a.produce(topic, 0, sequence=5)
    await a.produce(topic, 0, b"c")
    await producers(p, topic, 0, 1, 9)
    await a.end(True)
    await producers(p, topic, 0, 1)
    await a.produce(topic, 0, b"d")
    await a.add((topic, [0]))
    await a.produce(topic, 0, b"d")
    await a.end(False)
    await read(p, topic)
    await read(p, topic, isolation=UNCOMMITTED)


@script()
async def txn_read_committed(p: Prober) -> None:
    """Fetch during two interleaved transactions: the last stable offset, aborted transactions and control batches."""
    a, topic = await begin(p)
    b = Producer(p=p, conn="B", name=f"{a.name}-b")
    await b.init()
    await a.produce(
        topic, 0, b"plain", transactional=False, transactional_id=None, producer_id=-1, epoch=-1, sequence=-1
    )
    for who, value in ((a, b"a1"), (b, b"b1"), (a, b"a2")):
        await who.add((topic, [0]))
        await who.produce(topic, 0, value)
    for isolation in (0, 1):
        await read(p, topic, isolation=isolation)
        await ends(p, topic, isolation=isolation)
    await b.end(False)
    await read(p, topic)
    await ends(p, topic)
    await a.end(True)
    for offset in (0, 1, 2, 3, 4, 5, 6, 7):
        await read(p, topic, offset)
    await ends(p, topic)
    await a.add((topic, [0]))
    await a.produce(topic, 0, b"a3")
    await a.end(False)
    await read(p, topic)
    await read(p, topic, isolation=UNCOMMITTED)


@script()
async def txn_end(p: Prober) -> None:
    """EndTxn in every state of the transaction, and from wrong producers."""
    a, topic = await begin(p)
    await a.end(True)
    await a.end(False)
    await a.add((topic, [0]))
    await a.end(True, transactional_id="")
    await a.end(True, transactional_id="nobody")
    await a.end(True, producer_id=a.producer_id + 1000)
    await a.end(True, producer_epoch=a.epoch + 1)
    await a.end(True, producer_epoch=a.epoch - 1)
    await a.end(True)
    await a.describe()
    await a.end(True)
    await a.end(False)
    await a.add((topic, [0]))
    await a.end(False)
    await a.end(False)
    await a.end(True)
    await a.describe()
    await read(p, topic)


@script(releases=(NEW,))
async def txn_kip890(p: Prober) -> None:
    """Transactions V2 (KIP-890): Produce adds partitions, each EndTxn returns a new epoch, and EndTxn can be
    retried."""
    a, topic = await begin(p, new=True)
    await a.produce(topic, 0, b"a")
    await a.describe()
    await a.produce(topic, 1, b"b", version=13)
    first = a.epoch
    await a.end(True)
    await a.describe()
    await a.end(True, producer_epoch=first)
    await a.end(False, producer_epoch=first)
    await a.produce(topic, 0, b"c", epoch=first, sequence=1)
    await a.produce(topic, 0, b"c", sequence=1)
    await a.produce(topic, 0, b"c")
    second = a.epoch
    await a.end(False)
    await a.end(False, producer_epoch=second)
    await a.end(True, producer_epoch=second)
    await a.end(False)
    await a.end(True)
    await a.describe()
    await read(p, topic)
    await read(p, topic, isolation=UNCOMMITTED)
    await producers(p, topic, 0, 1)


@script(releases=(NEW,))
async def txn_kip890_nothing_done(p: Prober) -> None:
    """Transactions V2: EndTxn of transactions without partitions and offsets."""
    a, _ = await begin(p, new=True)
    await a.end(True)
    await a.end(False)
    await a.end(False)
    await a.end(True)
    await a.describe()


@script(releases=(NEW,))
async def txn_kip890_produce(p: Prober) -> None:
    """Transactions V2: requests that Produce v12 refuses."""
    a, topic = await begin(p, new=True)
    await a.produce(topic, 0, transactional_id="nobody")
    await a.produce(topic, 0, epoch=a.epoch + 1)
    await a.produce(topic, 0, producer_id=a.producer_id + 1000)
    await a.produce(topic, 0, sequence=3)
    await a.describe()
    await a.produce(topic, 0)
    await a.produce(topic, 0, sequence=0)
    await a.produce(topic, 0, transactional=False)
    await a.end(True)
    await a.produce(topic, 0, sequence=1)
    await a.produce(topic, 0)
    await a.init()
    await p.wait(300)
    await a.init()
    await a.describe()


@script(releases=(NEW,))
async def txn_markers_by_clients(p: Prober) -> None:
    """A client produces a control batch, with transactions V1 and V2, before and after its first other batch."""
    a, topic = await begin(p, new=True)
    await a.produce(topic, 0, control=True)
    await a.describe()
    await a.produce(topic, 0)
    await a.produce(topic, 0, control=True)
    await a.produce(topic, 0, control=True, transactional=False)
    await a.end(True)
    a.new = False
    await a.add((topic, [0, 1]))
    await a.produce(topic, 1, control=True)
    await a.produce(topic, 0)
    await a.produce(topic, 0, control=True)
    await a.produce(topic, 0, transactional_id="")
    await a.end(True)
    await read(p, topic)
    await producers(p, topic, 0, 1)


@script(releases=(NEW,))
async def txn_kip890_fenced_end(p: Prober) -> None:
    """EndTxn with transactions V2 by a fenced producer whose epoch is one below that of the transaction, which uses V1
    or V2."""
    a, topic = await begin(p, new=True)
    for new in (False, True):
        a.new = new
        fenced = a.epoch
        await a.init()
        if not new:
            await a.add((topic, [0]))
        await a.produce(topic, 0)
        a.new = True
        for committed in (True, False):
            await a.end(committed, producer_epoch=fenced)
        a.new = new
        await a.end(True)
        a.new = True
        for committed in (True, False):
            await a.end(committed, producer_epoch=fenced)
        await a.describe()
        await a.init()
        for committed in (True, False):
            await a.end(committed, producer_epoch=fenced + 1)


@script(releases=(NEW,))
async def txn_kip890_both_flows(p: Prober) -> None:
    """One producer alternates between transactions V1 and V2."""
    a, topic = await begin(p)
    await a.add((topic, [0]))
    await a.produce(topic)
    a.new = True
    await a.end(True)
    await a.produce(topic)
    await a.describe()
    a.new = False
    await a.end(True)
    await a.describe()
    await a.add((topic, [0]))
    await a.produce(topic)
    await a.end(False)
    await a.describe()
    await read(p, topic)


# --- offsets in a transaction -------------------------------------------------------------------------------------


@script()
async def txn_offsets(p: Prober) -> None:
    """Offsets in a transaction are visible only after its commit; an offset that is committed outside of it in the
    meantime stays."""
    a, _ = await begin(p)
    await a.commit(5)
    await a.commit(5, version=4)
    await a.add_group()
    await a.commit(5)
    await a.describe()
    for stable in (False, True):
        await offsets(p, stable=stable)
        await offsets(p, stable=stable, everything=True)
    await p.ask("D", DescribeGroupsRequest(groups=[p.group]), 5)
    await a.end(True)
    await offsets(p, stable=True)
    await a.add_group()
    await a.commit(6)
    plain = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=9, committed_metadata="plain")
    topic = OffsetCommitRequest.Topic(name="probe", partitions=[plain])
    await p.ask("B", OffsetCommitRequest(group_id=p.group, topics=[topic]), 8)
    await offsets(p, stable=False)
    await offsets(p, stable=True)
    await a.end(True)
    await offsets(p, stable=True)
    await a.add_group()
    await a.commit(10)
    await a.commit(11)
    await a.commit(1, partition=1)
    await a.end(False)
    await offsets(p, stable=True)


@script()
async def txn_offsets_of_members(p: Prober) -> None:
    """TxnOffsetCommit with the generation, member id and instance id of a group member (KIP-447)."""
    a, _ = await begin(p)
    c = Client(p=p, conn="C")
    await c.stable()
    await a.add_group()
    who = {"generation_id": c.generation, "member_id": c.member_id}
    await a.commit(1)
    await a.commit(2, **who)
    await a.commit(3, **(who | {"generation_id": c.generation + 1}))
    await a.commit(3, **(who | {"generation_id": c.generation - 1}))
    await a.commit(3, **(who | {"member_id": "nobody"}))
    await a.commit(3, **(who | {"group_instance_id": "nobody"}))
    await a.commit(3, generation_id=c.generation)
    await a.commit(3, member_id=c.member_id)
    await a.commit(3, version=2)
    await a.commit(4, group_id="")
    await a.commit(4, topic="not-there")
    await a.commit(4, partition=99)
    await a.commit(4, group_id=f"{p.group}-new", generation_id=3, member_id="m")
    await a.add_group(f"{p.group}-new")
    await a.commit(4, group_id=f"{p.group}-new", generation_id=3, member_id="m")
    await a.commit(4, group_id=f"{p.group}-new")
    await a.end(True)
    await offsets(p, stable=True)
    await offsets(p, stable=True, group=f"{p.group}-new")


@consumer_script()
async def txn_offsets_of_consumers(p: Prober) -> None:
    """TxnOffsetCommit for members of a consumer group, and for a group with a classic member."""
    a, _ = await begin(p)
    c = Consumer(p=p, conn="C")
    await c.join()
    await a.add_group()
    who = {"generation_id": c.epoch, "member_id": c.member_id}
    for version in (3, 4):
        await a.commit(1, version=version, **who)
        await a.commit(2, version=version, **(who | {"generation_id": c.epoch + 1}))
        await a.commit(2, version=version, **(who | {"generation_id": c.epoch - 1}))
        await a.commit(2, version=version, **(who | {"member_id": "nobody"}))
        await a.commit(2, version=version, **(who | {"group_instance_id": "nobody"}))
        await a.commit(2, version=version, generation_id=c.epoch)
        await a.commit(2, version=version, member_id=c.member_id)
    await a.commit(3, version=2)
    await a.commit(3)
    d = Client(p=p, conn="D2")
    await d.enter()
    await a.commit(4, generation_id=d.generation, member_id=d.member_id)
    await a.commit(4, generation_id=d.generation + 1, member_id=d.member_id)
    await a.end(True)
    await offsets(p, stable=True)
    await c.leave()


@script()
async def txn_offsets_while_rebalancing(p: Prober) -> None:
    """TxnOffsetCommit between JoinGroup and SyncGroup."""
    a, _ = await begin(p)
    await a.add_group()
    c = Client(p=p, conn="C")
    await c.enter()
    await a.commit(1, generation_id=c.generation, member_id=c.member_id)
    await a.commit(2)
    await c.synced({c.member_id: SHARE})
    await a.commit(3, generation_id=c.generation, member_id=c.member_id)
    await a.end(True)
    await offsets(p, stable=True)


@script()
async def txn_offsets_are_deleted(p: Prober) -> None:
    """OffsetDelete and DeleteGroups while offsets are pending in a transaction."""
    a, _ = await begin(p)
    await a.add_group()
    await a.commit(5)
    await a.commit(6, partition=1)
    one = OffsetDeleteRequest.Topic.Partition(partition_index=0)
    await p.ask(
        "B",
        OffsetDeleteRequest(group_id=p.group, topics=[OffsetDeleteRequest.Topic(name="probe", partitions=[one])]),
        0,
    )
    await offsets(p, stable=True)
    await a.end(True)
    await offsets(p, stable=True)
    await a.add_group()
    await a.commit(7)
    await p.ask("B", DeleteGroupsRequest(groups_names=[p.group]), 2)
    await offsets(p, stable=True)
    await a.end(True)
    await offsets(p, stable=True)


@script(releases=(NEW,))
async def txn_kip890_offsets(p: Prober) -> None:
    """Transactions V2: TxnOffsetCommit v5 adds the group to the transaction."""
    a, _ = await begin(p, new=True)
    await a.commit(5, transactional_id="nobody")
    await a.commit(5, producer_epoch=a.epoch + 1)
    await a.commit(5, producer_id=a.producer_id + 1000)
    await a.commit(5)
    await a.describe()
    await offsets(p, stable=True)
    await a.end(True)
    await offsets(p, stable=True)
    await a.commit(6)
    await a.end(False)
    await offsets(p, stable=True)
    await a.commit(7, topic="not-there")
    await a.commit(7, generation_id=3, member_id="m")
    await a.describe()


# --- time ---------------------------------------------------------------------------------------------------------


@script(SOON_OVER)
async def txn_timeout(p: Prober) -> None:
    """A transaction that exceeds its timeout is aborted, and its producer is fenced."""
    a, topic = await begin(p, timeout_ms=1000)
    await a.add((topic, [0]))
    await a.produce(topic)
    await a.add_group()
    await a.commit(5)
    await p.wait(2500)
    await a.describe()
    await a.produce(topic)
    await a.add((topic, [0]))
    await a.end(True)
    await a.commit(6)
    await offsets(p, stable=True)
    await read(p, topic)
    await a.init(producer_id=a.producer_id, producer_epoch=a.epoch)
    await a.init()
    await a.describe()


@script(SOON_OVER, releases=(NEW,))
async def txn_kip890_timeout(p: Prober) -> None:
    """Transactions V2: a transaction exceeds its timeout."""
    a, topic = await begin(p, new=True, timeout_ms=1000)
    await a.produce(topic)
    await p.wait(2500)
    await a.describe()
    await a.produce(topic)
    await a.end(True)
    await a.end(False)
    await read(p, topic)
    await a.init(producer_id=a.producer_id, producer_epoch=a.epoch)
    await a.init()
    await a.describe()


# --- requests of admin clients ------------------------------------------------------------------------------------


@script()
async def txn_listed(p: Prober) -> None:
    """ListTransactions filters by state, producer id and duration."""
    a, topic = await begin(p)
    b = Producer(p=p, conn="B", name=f"{a.name}-b")
    await b.init()
    await a.add((topic, [0]))
    newest = 2 if p.release == NEW else 1
    ours: dict[str, Any] = {"producer_id_filters": [a.producer_id, b.producer_id]}
    for states in ([], ["Ongoing"], ["Empty", "Ongoing"], ["Nonsense", "Empty"], ["ongoing"], ["Dead"]):
        await p.ask("L", ListTransactionsRequest(state_filters=states, **ours), 0)
    await p.ask("L", ListTransactionsRequest(producer_id_filters=[b.producer_id]), 0)
    await p.wait(100)
    for duration in (-1, 0, 50, 100_000):
        await p.ask("L", ListTransactionsRequest(duration_filter=duration, **ours), 1)
    if newest >= 2:
        for pattern in (None, "", ".*-b.*", "tx-", "(("):
            await p.ask("L", ListTransactionsRequest(transactional_id_pattern=pattern, **ours), 2)
    await a.end(True)
    await p.ask("L", ListTransactionsRequest(**ours), 0)


def marker_of(a: Producer, topic: str, indexes: Sequence[int], epoch: int, **fields: Any) -> WriteTxnMarkersRequest:
    """Return a request with one marker for partitions of a topic.

    Args:
        a: the producer whose transaction ends.
        topic: the topic.
        indexes: the partitions.
        epoch: producer epoch of the marker.
        fields: further fields of the marker.
    """
    where = WriteTxnMarkersRequest.Marker.Topic(name=topic, partition_indexes=list(indexes))
    marker = WriteTxnMarkersRequest.Marker(producer_id=a.producer_id, producer_epoch=epoch, topics=[where], **fields)
    return WriteTxnMarkersRequest(markers=[marker])


@script()
async def txn_markers_by_hand(p: Prober) -> None:
    """WriteTxnMarkers of an admin ends a hanging transaction."""
    a, topic = await begin(p)
    await a.add((topic, [0]))
    await a.produce(topic)

    async def write(epoch: int, *, committed: bool, coordinator_epoch: int, which: tuple[int, ...] = (0,)) -> None:
        fields = {"transaction_result": committed, "coordinator_epoch": coordinator_epoch}
        await p.ask("B", marker_of(a, topic, which, epoch, **fields), 1)

    await write(a.epoch - 1, committed=False, coordinator_epoch=0)
    await write(a.epoch, committed=False, coordinator_epoch=0, which=(9,))
    await write(a.epoch, committed=False, coordinator_epoch=3)
    await producers(p, topic)
    await read(p, topic)
    await write(a.epoch, committed=True, coordinator_epoch=2)
    await a.produce(topic)
    await a.end(False)
    await read(p, topic)
    await producers(p, topic)


@script(releases=(NEW,))
async def txn_markers_of_versions(p: Prober) -> None:
    """WriteTxnMarkers v2: the epochs that a marker may have depend on the transaction version (KIP-1228)."""
    a, topic = await begin(p, partitions=3)
    await a.init()
    await a.add((topic, [0, 1, 2]))

    async def write(index: int, epoch: int, *, committed: bool = False, coordinator_epoch: int = 3) -> None:
        fields = {"transaction_result": committed, "coordinator_epoch": coordinator_epoch, "transaction_version": index}
        await p.ask("B", marker_of(a, topic, [index], epoch, **fields), 2)

    for index in range(3):
        await a.produce(topic, index, b"open")
        await write(index, a.epoch - 1)
        await write(index, a.epoch)
        await read(p, topic, partition=index)
        await read(p, topic, partition=index, isolation=UNCOMMITTED)
        await write(index, a.epoch + 1, committed=True)
        await write(index, a.epoch + 1)
        await write(index, a.epoch + 1, coordinator_epoch=2)
        await write(index, a.epoch + 3, coordinator_epoch=3)
        await read(p, topic, partition=index)
        await read(p, topic, partition=index, isolation=UNCOMMITTED)
    await producers(p, topic, 0, 1, 2)


@script()
async def idempotent_producers(p: Prober) -> None:
    """Sequence numbers of a producer without transactions, and DescribeProducers of its partitions."""
    a, topic = await begin(p)
    await a.init(transactional_id=None)
    plain = {"transactional": False, "transactional_id": None}
    await a.produce(topic, 0, b"a", b"b", **plain)
    await a.produce(topic, 0, b"a", b"b", sequence=0, **plain)
    await a.produce(topic, 0, sequence=9, **plain)
    await a.produce(topic, 0, epoch=a.epoch + 1, sequence=4, **plain)
    await a.produce(topic, 0, epoch=a.epoch + 1, sequence=0, **plain)
    await a.produce(topic, 0, epoch=a.epoch, sequence=2, **plain)
    await a.produce(topic, 1, sequence=7, **plain)
    await producers(p, topic, 0, 1)
