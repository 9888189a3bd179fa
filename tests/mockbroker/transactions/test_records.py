"""The records of transactional ids: the state rebuilt from them, and the values of Kafka's TransactionLog."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tools.broker_harness import WALL, BrokerHarness
from tools.producer import Producer

from kwire import ErrorCode as E
from kwire.blobs import decode_record, encode_stored
from kwire.blobs.transaction_state import TransactionLogKey, TransactionLogValue
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.records.batch import Batch, Record, build_batch, read_batch
from mockbroker.base.release import RELEASES
from mockbroker.groups.records import compaction
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.topics.model import TRANSACTIONS_TOPIC
from mockbroker.transactions import records
from mockbroker.transactions.state import NO_PRODUCER, Identity, State, Transaction

CLOCK = WallClock(WALL)
ONGOING = Transaction(
    transactional_id="tx",
    producer_id=7,
    epoch=3,
    previous_id=6,
    timeout_ms=60_000,
    state=State.ONGOING,
    partitions={("t", 0), ("t", 1), ("u", 2)},
    next_id=9,
    kip890=True,
    started=5.0,
    updated=8.0,
)


def value_of(txn: Transaction) -> TransactionLogValue:
    value = records._value(txn, CLOCK)
    value.transaction_last_update_timestamp_ms = CLOCK.to_ms(txn.updated)
    return value


def batch(*pairs: tuple[bytes | None, bytes | None], control: bool = False) -> Batch:
    return read_batch(build_batch([Record(key=key, value=value) for key, value in pairs], control=control))


def pair(txn: Transaction) -> tuple[bytes, bytes]:
    return key(txn.transactional_id), encode_stored(value_of(txn), 1)


def key(transactional_id: str) -> bytes:
    return encode_stored(TransactionLogKey(transactional_id=transactional_id), 0)


WRITTEN = [
    ONGOING,
    replace(ONGOING, state=State.PREPARE_COMMIT, marker=Identity(7, 3)),
    replace(ONGOING, state=State.PREPARE_ABORT, marker=Identity(7, 3)),
    replace(ONGOING, state=State.COMPLETE_COMMIT, partitions=set()),
    replace(ONGOING, state=State.COMPLETE_ABORT, partitions=set(), next_id=None),
    replace(ONGOING, state=State.EMPTY, partitions=set(), started=None, kip890=False, previous_id=NO_PRODUCER),
]


@pytest.mark.parametrize("txn", WRITTEN, ids=lambda txn: txn.state)
def test_what_is_written_is_rebuilt(txn: Transaction):
    assert records.rebuilt([batch(pair(txn))], CLOCK) == [txn]


FIELDS = [  # transactional id, field, its value in Kafka's record
    (ONGOING, "transaction_status", 1),
    (ONGOING, "client_transaction_version", 2),
    (replace(ONGOING, kip890=False), "client_transaction_version", 0),
    (ONGOING, "next_producer_id", 9),
    (replace(ONGOING, next_id=None), "next_producer_id", -1),
    (ONGOING, "transaction_start_timestamp_ms", round((WALL + 5) * 1000)),
    (replace(ONGOING, started=None), "transaction_start_timestamp_ms", -1),
    (replace(ONGOING, state=State.EMPTY), "transaction_partitions", None),
    (replace(ONGOING, state=State.COMPLETE_ABORT, partitions=set()), "transaction_partitions", []),
]


@pytest.mark.parametrize(("txn", "name", "expected"), FIELDS)
def test_values_of_a_record(txn: Transaction, name: str, expected: Any):
    assert getattr(value_of(txn), name) == expected


@pytest.mark.parametrize("fields", [{"next_id": 0}, {"started": -WALL}, {"started": 0.001 - WALL}], ids=str)
def test_zero_is_a_producer_id_and_a_time(fields: dict[str, Any]):
    """Only -1 means that a record has no producer id or no time."""
    txn = replace(ONGOING, **fields)
    assert records.rebuilt([batch(pair(txn))], WallClock(WALL)) == [txn]


def test_version_one_does_not_bump_the_epoch():
    old = value_of(ONGOING)
    old.client_transaction_version = 1
    (txn,) = records.rebuilt([batch((key("tx"), encode_stored(old, 1)))], CLOCK)
    assert not txn.kip890


def test_the_last_record_of_an_id_counts():
    other = replace(ONGOING, transactional_id="other")
    later = replace(ONGOING, epoch=4)
    marker = batch((b"\0\0\0\1", b"\0\0\0\0\0\0"), control=True)
    batches = [batch(pair(ONGOING)), marker, batch(pair(other), pair(later))]
    assert records.rebuilt(batches, CLOCK) == [other, later]
    assert records.rebuilt([*batches, batch((key("other"), None))], CLOCK) == [later], "a tombstone"


def test_unknown_records_are_skipped():
    unknown = (b"\0\x63" + key("tx")[2:], b"")
    strange = value_of(replace(ONGOING, transactional_id="strange"))
    strange.transaction_status = len(records.STATES)
    strange_pair = (key("strange"), encode_stored(strange, 1))
    assert records.rebuilt([batch(unknown, strange_pair, pair(ONGOING))], CLOCK) == [ONGOING]


def log(harness: BrokerHarness) -> list[tuple[str, TransactionLogValue | None]]:
    partition = harness.broker.cluster.topics[TRANSACTIONS_TOPIC].partition_of("tx")
    results = [record for stored in partition.log.batches() for record in stored.records()]
    pairs = [decode_record(TRANSACTIONS_TOPIC, record.key, record.value) for record in results]
    return [(key.transactional_id, value) for key, value in pairs]  # type: ignore[union-attr,misc]


def test_records_have_the_time_of_the_change():
    harness = BrokerHarness()
    producer = Producer(harness, "tx")
    assert producer.init() == E.NONE
    harness.wait(60)
    assert producer.produce(b"a") == E.NONE
    times = [value.transaction_last_update_timestamp_ms for _, value in log(harness) if value is not None]
    assert times == [round(WALL * 1000), round((WALL + 60) * 1000)]


@pytest.mark.parametrize(
    ("new", "ended", "versions"),
    [
        pytest.param(True, True, [0, 2, 2, 2, 2], id="new client"),
        pytest.param(False, True, [0, 0, 0, 0, 0], id="old client"),
        pytest.param(False, False, [0, 0, 2, 2, 2], id="abort by the coordinator"),
    ],
)
def test_records_have_the_version_of_the_client(new: bool, ended: bool, versions: list[int]):
    """The records are those of Empty, Ongoing, Prepare, Complete, and Empty after another InitProducerId."""
    harness = BrokerHarness()
    producer = Producer(harness, "tx", new=new)
    assert [producer.init(), producer.produce(b"a")] == [E.NONE, E.NONE]
    if ended:
        assert producer.end(committed=True) == E.NONE
    else:
        assert Producer(harness, "tx").init() == E.CONCURRENT_TRANSACTIONS
    assert Producer(harness, "tx").init() == E.NONE
    assert [value.client_transaction_version for _, value in log(harness) if value is not None] == versions


def test_records_of_older_releases_have_no_version_of_the_client():
    harness = BrokerHarness(release=RELEASES["3.9"])
    producer = Producer(harness, "tx")
    producer.init()
    identity = Identity(producer.producer_id, producer.epoch)
    assert harness.broker.transactions.add("tx", identity, [("t", 0)], harness.now, kip890=True) == E.NONE
    assert [value.client_transaction_version for _, value in log(harness) if value is not None] == [0, 0]


def keeper(harness: BrokerHarness) -> records.TransactionKeeper:
    harness.ask(FindCoordinatorRequest(coordinator_keys=["tx"], key_type=1), 4)  # creates the transaction log
    return records.TransactionKeeper(harness.broker.cluster, CLOCK, 1)


def test_only_changes_are_written():
    writer = keeper(BrokerHarness())
    assert writer.write(ONGOING, 1.0) is not None
    assert [writer.write(ONGOING, now) for now in (1.0, 2.0)] == [None, None]
    assert writer.write(replace(ONGOING, epoch=4), 2.0) is not None
    assert writer.write(ONGOING, 2.0) is not None


def test_loaded_ids_are_written_after_a_change():
    writer = keeper(BrokerHarness())
    writer.adopt(ONGOING)
    assert writer.write(ONGOING, 1.0) is None
    assert writer.write(replace(ONGOING, epoch=4), 1.0) is not None


def test_erased_id_needs_no_memory():
    writer = keeper(BrokerHarness())
    assert writer.write(ONGOING, 1.0) is not None
    writer.erase("tx", 1.0)
    assert not writer._written
    assert writer.write(ONGOING, 1.0) is not None, "the tombstone has removed the record"


@pytest.mark.parametrize("tombstones", [False, True])
def test_transaction_log_is_compacted(tombstones: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compaction, "FIRST_COMPACTION", 2_000)
    harness = BrokerHarness()
    writer = keeper(harness)
    for number in range(100):
        if tombstones:
            writer.erase("tx", 1.0)
        else:
            writer.write(replace(ONGOING, producer_id=number), 1.0)
    partition = harness.broker.cluster.topics[TRANSACTIONS_TOPIC].partition_of("tx")
    assert partition.log.size <= 4_000
    assert records.rebuilt(partition.log.batches(), CLOCK) == (
        [] if tombstones else [replace(ONGOING, producer_id=99, updated=1.0)]
    )


def test_unchanged_ids_are_not_written_again():
    harness = BrokerHarness()
    producer = Producer(harness, "tx")
    producer.init()
    producer.produce(b"a")
    count = len(log(harness))
    producer.produce(b"b")
    assert len(log(harness)) == count
    harness.broker.load_transactions(harness.now)
    producer.produce(b"c")
    assert len(log(harness)) == count, "also after loading"
