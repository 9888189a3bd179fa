"""Transactions: committed records are visible exactly once, and other records never."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import pytest
from effort import amount
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tools.broker_harness import BrokerHarness
from tools.durable_broker_harness import DurableBrokerHarness
from tools.producer import Producer, read_committed

from kwire import ErrorCode as E
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.records.control import control_records
from mockbroker.api import records as inside
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.release import RELEASES
from mockbroker.base.timers import TRANSACTIONAL_IDS
from mockbroker.topics.model import TRANSACTIONS_TOPIC
from mockbroker.transactions.state import EXHAUSTED, State

FLOWS = pytest.mark.parametrize("new", [False, True], ids=["old flow", "KIP-890"])
CHECK_INTERVAL = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000}


def ready(harness: BrokerHarness, name: str = "tx", **how: Any) -> Producer:
    producer = Producer(harness, name, **how)
    assert producer.init() == E.NONE
    return producer


def stable(harness: BrokerHarness, group: str = "g") -> dict[int, int | None]:
    """Return the stable offset of each partition of topic t; None while a transaction is pending."""
    topics = [OffsetFetchRequest.Topic(name="t", partition_indexes=[0, 1])]
    answer = harness.ask(OffsetFetchRequest(group_id=group, topics=topics, require_stable=True), 7)
    return {
        each.partition_index: None if each.error_code else each.committed_offset for each in answer.topics[0].partitions
    }


@FLOWS
def test_committed_and_aborted(new):
    harness = BrokerHarness()
    producer = ready(harness, new=new)
    for value, committed in ((b"a", True), (b"b", False), (b"c", True)):
        assert producer.produce(value) == E.NONE
        assert value not in read_committed(harness)
        assert producer.end(committed=committed) == E.NONE
    assert read_committed(harness) == [b"a", b"c"]
    assert read_committed(harness, limit=1) == [b"a", b"c"]


@FLOWS
def test_transactional_id_expires_a_week_after_its_last_use(new):
    harness = BrokerHarness()
    producer, other = ready(harness, new=new), ready(harness, "other", new=new)
    assert other.produce(b"open") == E.NONE
    harness.wait(3_600)
    assert (producer.produce(b"a"), producer.end(committed=True)) == (E.NONE, E.NONE)
    harness.wait(7 * 86_400 - 1)
    assert "tx" in harness.broker.transactions
    harness.wait(3_600)
    assert "tx" not in harness.broker.transactions
    assert producer.produce(b"b") != E.NONE
    harness.broker.load_transactions(harness.now)
    assert "tx" not in harness.broker.transactions
    assert producer.init() == E.NONE


@FLOWS
def test_records_from_inside(new):
    """The method records() returns all records, or only those that read_committed consumers see."""
    harness = BrokerHarness()
    producer, other = ready(harness, new=new), ready(harness, "other", new=new)
    for value, committed in ((b"a", True), (b"b", False)):
        producer.produce(value)
        other.produce(b"open")
        producer.end(committed=committed)
    assert inside_values(harness, committed=False) == [b"a", b"open", b"b", b"open"]
    assert inside_values(harness, committed=True) == [b"a"]
    other.end(committed=True)
    assert inside_values(harness, committed=True) == [b"a", b"open", b"open"]


def inside_values(harness: BrokerHarness, partition: int = 0, *, committed: bool) -> list[bytes | None]:
    return [record.value for record in inside.read(harness.broker, "t", partition, committed=committed)]


@FLOWS
def test_offsets_are_visible_after_the_commit(new):
    harness = BrokerHarness()
    producer = ready(harness, new=new)
    assert producer.commit("g", 5) == E.NONE
    assert stable(harness) == {0: None, 1: -1}
    producer.end(committed=True)
    assert stable(harness) == {0: 5, 1: -1}
    producer.commit("g", 9)
    producer.end(committed=False)
    assert stable(harness) == {0: 5, 1: -1}


def test_offset_committed_last_wins_between_transactions():
    harness = BrokerHarness()
    first, second = ready(harness, "first"), ready(harness, "second")
    first.commit("g", 1)
    second.commit("g", 2)
    second.end(committed=True)
    assert stable(harness)[0] is None
    first.end(committed=True)
    assert stable(harness)[0] == 2


@FLOWS
def test_later_producer_fences_the_earlier_one(new):
    harness = BrokerHarness()
    old = ready(harness, new=new)
    old.produce(b"lost")
    young = Producer(harness, "tx", new=new)
    assert young.init() == E.CONCURRENT_TRANSACTIONS
    assert young.init() == E.NONE
    assert old.produce(b"zombie") in (E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED)
    assert old.end(committed=True) in (E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED)
    young.produce(b"mine")
    young.end(committed=True)
    assert read_committed(harness) == [b"mine"]


REFUSED = (E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING)
ZOMBIE_REQUESTS = [
    pytest.param(lambda zombie: zombie.add(0), id="AddPartitionsToTxn"),
    pytest.param(lambda zombie: zombie.commit("g", 7), id="AddOffsetsToTxn and TxnOffsetCommit"),
    pytest.param(lambda zombie: zombie.hold("g", 7), id="TxnOffsetCommit"),
    pytest.param(lambda zombie: zombie.produce(b"zombie"), id="AddPartitionsToTxn and Produce"),
    pytest.param(lambda zombie: zombie.send(b"zombie", sequence=0), id="Produce"),
    pytest.param(lambda zombie: zombie.end(committed=True), id="EndTxn, commit"),
    pytest.param(lambda zombie: zombie.end(committed=False), id="EndTxn, abort"),
]


def is_empty(young: Any) -> None:
    """Leave the producer without a transaction."""


def has_a_transaction(young: Any) -> None:
    assert young.produce(b"mine") == E.NONE
    assert young.commit("g", 5) == E.NONE


def has_aborted(young: Any) -> None:
    has_a_transaction(young)
    assert young.end(committed=False) == E.NONE


def has_committed(young: Any) -> None:
    has_a_transaction(young)
    assert young.end(committed=True) == E.NONE


@FLOWS
@pytest.mark.parametrize("request_of", ZOMBIE_REQUESTS)
@pytest.mark.parametrize("state", [is_empty, has_a_transaction, has_aborted, has_committed], ids=lambda s: s.__name__)
def test_zombie_of_the_epoch_before_is_refused(new, request_of, state):
    """The id had no open transaction at the InitProducerId, so the epoch was incremented without a marker."""
    harness = BrokerHarness()
    zombie, young = ready(harness, new=new), Producer(harness, "tx", new=new)
    assert young.init() == E.NONE
    assert (young.producer_id, young.epoch) == (zombie.producer_id, zombie.epoch + 1)
    state(young)
    assert request_of(zombie) in REFUSED
    if state is has_a_transaction:
        assert young.end(committed=True) == E.NONE
    mine = [b"mine"] if state in (has_a_transaction, has_committed) else []
    assert read_committed(harness) == mine
    assert stable(harness)[0] == (5 if mine else -1)
    assert young.produce(b"later") == E.NONE, "the zombie has not fenced its successor"


@FLOWS
@pytest.mark.parametrize("state", [is_empty, has_aborted, has_committed], ids=lambda s: s.__name__)
def test_zombie_of_the_epoch_before_does_not_get_the_next_one(new, state):
    harness = BrokerHarness()
    zombie, young = ready(harness, new=new), Producer(harness, "tx", new=new)
    assert young.init() == E.NONE
    state(young)
    assert zombie.init(known=True) == E.PRODUCER_FENCED
    assert young.produce(b"later") == E.NONE


@FLOWS
def test_init_of_an_older_epoch_aborts_before_it_is_fenced(new):
    """Kafka checks the epoch only after it has aborted the open transaction, and then rejects the zombie as well."""
    harness = BrokerHarness()
    zombie, young = ready(harness, new=new), Producer(harness, "tx", new=new)
    assert young.init() == E.NONE
    has_a_transaction(young)
    assert zombie.init(known=True) == E.CONCURRENT_TRANSACTIONS
    assert zombie.init(known=True) == E.PRODUCER_FENCED
    assert young.end(committed=True) in (*REFUSED, E.INVALID_TXN_STATE)
    assert read_committed(harness) == []


@FLOWS
@pytest.mark.parametrize("request_of", ZOMBIE_REQUESTS)
def test_fenced_producer_stays_fenced_after_a_restart(new, request_of):
    """Epochs are in the transaction log, so a restarted broker rejects the same producers."""
    harness = DurableBrokerHarness()
    zombie, young = ready(harness, new=new), Producer(harness, "tx", new=new)
    assert young.init() == E.NONE
    harness.restart()
    assert request_of(zombie) in REFUSED
    assert young.produce(b"mine") == E.NONE
    harness.restart()
    assert request_of(zombie) in REFUSED
    assert young.end(committed=True) == E.NONE
    assert read_committed(harness) == [b"mine"]


@FLOWS
def test_transaction_is_aborted_after_its_timeout(new):
    harness = BrokerHarness(config=CHECK_INTERVAL)
    producer = ready(harness, new=new, timeout_ms=5_500)
    producer.produce(b"late")
    producer.commit("g", 1)
    harness.wait(5.9)  # the coordinator checks the timeouts once a second
    assert harness.broker.transactions["tx"].state is State.ONGOING
    harness.wait(0.2)
    assert harness.broker.transactions["tx"].state is State.COMPLETE_ABORT
    assert stable(harness)[0] == -1
    assert producer.produce(b"later") in (E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED)
    assert producer.init(known=True) == E.NONE
    producer.produce(b"again")
    producer.end(committed=True)
    assert read_committed(harness) == [b"again"]


def test_timeout_starts_with_each_transaction():
    harness = BrokerHarness(config=CHECK_INTERVAL)
    producer = ready(harness, timeout_ms=2_000)
    producer.produce(b"a")
    harness.wait(1.5)
    producer.end(committed=True)
    harness.wait(1.0)
    producer.produce(b"b")
    harness.wait(1.5)
    assert producer.end(committed=True) == E.NONE
    assert read_committed(harness) == [b"a", b"b"]


@FLOWS
def test_concurrent_transactions_until_markers_are_written(new):
    harness = BrokerHarness(config={"mockbroker.transaction.completion.ms": 200})
    producer = ready(harness, new=new)
    producer.produce(b"a")
    assert producer.end(committed=True) == E.NONE
    assert read_committed(harness) == []
    assert producer.produce(b"b") == E.CONCURRENT_TRANSACTIONS
    assert producer.init() == E.CONCURRENT_TRANSACTIONS
    harness.wait(0.2)
    assert read_committed(harness) == [b"a"]
    assert producer.produce(b"b") == E.NONE
    producer.end(committed=True)
    harness.wait(0.2)
    assert read_committed(harness) == [b"a", b"b"]


@FLOWS
def test_transaction_ends_after_its_topic_was_deleted(new):
    harness = BrokerHarness(topics={"t": 1, "u": 1})
    producer = ready(harness, new=new)
    producer.produce(b"a")
    harness.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 4)
    assert producer.end(committed=True) == E.NONE
    assert harness.broker.transactions["tx"].state is State.COMPLETE_COMMIT


def test_exhausted_epochs_at_end_txn_bring_a_new_producer_id():
    harness = BrokerHarness()
    producer = ready(harness, new=True)
    txn = harness.broker.transactions["tx"]
    txn.epoch = producer.epoch = EXHAUSTED
    first = producer.producer_id
    producer.produce(b"a")
    assert producer.end(committed=True) == E.NONE
    assert (producer.producer_id != first, producer.epoch) == (True, 0)
    producer.produce(b"b")
    assert producer.end(committed=True) == E.NONE
    assert read_committed(harness) == [b"a", b"b"]


def test_retry_of_the_end_txn_that_exhausted_the_epochs():
    harness = BrokerHarness()
    producer = ready(harness, new=True)
    harness.broker.transactions["tx"].epoch = producer.epoch = EXHAUSTED
    producer.produce(b"a")
    before = producer.producer_id, producer.epoch
    producer.end(committed=True)
    after = producer.producer_id, producer.epoch
    producer.producer_id, producer.epoch = before
    assert producer.end(committed=True) == E.NONE
    assert (producer.producer_id, producer.epoch) == after


def test_exhausted_epochs_at_init_bring_a_new_producer_id():
    harness = BrokerHarness()
    producer = ready(harness)
    first = producer.producer_id
    harness.broker.transactions["tx"].epoch = EXHAUSTED
    assert producer.init() == E.NONE
    assert (producer.producer_id != first, producer.epoch) == (True, 0)


def test_init_by_the_owner_of_an_open_transaction_aborts_it():
    """The owner continues with the epoch of the abort, and may retry the request."""
    harness = BrokerHarness()
    producer = ready(harness)
    producer.produce(b"a")
    assert producer.init(known=True) == E.CONCURRENT_TRANSACTIONS
    reported = producer.producer_id, producer.epoch
    for _ in range(2):
        producer.producer_id, producer.epoch = reported
        assert producer.init(known=True) == E.NONE
        assert producer.epoch == 1


@pytest.mark.parametrize(("committed", "error"), [(False, E.NONE), (True, E.INVALID_TXN_STATE)])
def test_fenced_producer_may_retry_an_abort(committed, error):
    """KIP-890: a fenced producer gets NONE for an abort, because its transaction has been aborted."""
    harness = BrokerHarness()
    producer = ready(harness, new=True)
    producer.produce(b"a")
    assert Producer(harness, "tx").init() == E.CONCURRENT_TRANSACTIONS
    assert producer.end(committed=committed) == error


def test_lowest_verified_sequence_must_be_appended_first():
    harness = BrokerHarness()
    producer = ready(harness)
    assert [producer.send(b"v", sequence=0), producer.add(0)] == [E.INVALID_TXN_STATE, E.NONE]
    results = [producer.send(b"v", sequence=sequence) for sequence in (2, 0, 1)]
    assert results == [E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.NONE, E.NONE]


def test_writes_are_not_verified_without_the_setting():
    """Without transaction.partition.verification.enable a write may begin a transaction that no coordinator ends."""
    harness = BrokerHarness(config={"transaction.partition.verification.enable": False})
    producer = ready(harness)
    assert [producer.send(b"v"), producer.hold("g", 1)] == [E.NONE, E.NONE]
    assert producer.end(committed=False) == E.INVALID_TXN_STATE
    [opened] = harness.broker.cluster.topics["t"].partitions[0].producers.open()
    assert opened.producer_id == producer.producer_id
    assert stable(harness)[0] is None


def test_newer_producers_add_partitions_without_verification():
    harness = BrokerHarness(config={"transaction.partition.verification.enable": False})
    producer = ready(harness, new=True)
    assert [producer.send(b"v"), producer.end(committed=True)] == [E.NONE, E.NONE]


# --- operations in any order ----------------------------------------------------------------------------------------

PRODUCER_INDEX = st.integers(0, 2)
PARTITION = st.integers(0, 1)
OPEN = {E.NONE}


class Transactions(RuleBasedStateMachine):
    """Three producers with two transactional ids and two flows write to two partitions and fence each other.

    ``open`` has the records of each producer's open transaction; ``seen`` those of acknowledged commits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.harness = BrokerHarness(config=CHECK_INTERVAL)
        flows = [("x", False), ("x", True), ("y", True)]
        self.producers = [Producer(self.harness, name, new=new, timeout_ms=3_000) for name, new in flows]
        self.open: dict[int, Counter[tuple[int, bytes]]] = {who: Counter() for who in range(3)}
        self.offsets: dict[int, int] = {}
        self.seen: Counter[tuple[int, bytes]] = Counter()
        self.group = -1
        self.values = count()

    @rule(who=PRODUCER_INDEX, known=st.booleans())
    def init(self, who: int, *, known: bool) -> None:
        if self.producers[who].init(known=known and self.producers[who].producer_id >= 0) == E.NONE:
            self._forget(who)

    @rule(who=PRODUCER_INDEX, partition=PARTITION)
    def produce(self, who: int, partition: int) -> None:
        if self.producers[who].producer_id < 0:  # as in Kafka, a leader accepts records of producers without an id
            return
        value = b"%d" % next(self.values)
        if self.producers[who].produce(value, partition) == E.NONE:
            self.open[who][partition, value] += 1

    @rule(who=PRODUCER_INDEX)
    def commit_offset(self, who: int) -> None:
        offset = next(self.values)
        if self.producers[who].commit("g", offset) == E.NONE:
            self.offsets[who] = offset

    @rule(who=PRODUCER_INDEX, committed=st.booleans(), lost=st.booleans())
    def end(self, who: int, *, committed: bool, lost: bool) -> None:
        """End the transaction. ``lost``: the response is lost and the client retries."""
        producer = self.producers[who]
        before = producer.producer_id, producer.epoch, dict(producer.sequences)
        error = producer.end(committed=committed)
        if error == E.NONE and lost and (self.open[who] or who in self.offsets):
            producer.producer_id, producer.epoch, producer.sequences = before
            assert producer.end(committed=committed) == E.NONE
        if error == E.NONE:
            if committed:
                self.seen += self.open[who]
                self.group = max(self.group, self.offsets.get(who, -1))
            self._forget(who)

    @rule(seconds=st.sampled_from([0.5, 2.0, 5.0]))
    def wait(self, seconds: float) -> None:
        self.harness.wait(seconds)

    @invariant()
    def only_committed_records_are_visible(self) -> None:
        assert self._found() <= self.seen  # records after an open transaction are not visible yet

    @invariant()
    def records_api_returns_the_same(self) -> None:
        for partition in (0, 1):
            assert inside_values(self.harness, partition, committed=True) == read_committed(self.harness, partition)

    def teardown(self) -> None:
        """Check that all transactions have ended and all committed records are visible."""
        self.harness.wait(10.0)
        assert self._found() == self.seen

    def _found(self) -> Counter[tuple[int, bytes]]:
        return Counter((partition, value) for partition in (0, 1) for value in read_committed(self.harness, partition))

    @invariant()
    def offsets_are_committed_whole(self) -> None:
        topics = [OffsetFetchRequest.Topic(name="t", partition_indexes=[0])]
        answer = self.harness.ask(OffsetFetchRequest(group_id="g", topics=topics), 7)
        assert answer.topics[0].partitions[0].committed_offset == self.group

    def _forget(self, who: int) -> None:
        self.open[who] = Counter()
        self.offsets.pop(who, None)


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=amount(50, 150), stateful_step_count=40, deadline=None)


# --- events -------------------------------------------------------------------------------------------------------


def happened(harness: BrokerHarness) -> list[tuple[str, int, str]]:
    """Return kind, producer epoch and reason of each event about the transactional id tx."""
    events = [event for event in harness.journal.events if event.transactional_id == "tx"]
    assert not [event for event in events if event.group or event.member_id or event.producer_id == -1]
    return [(event.event.value, event.producer_epoch, event.reason) for event in events]


@pytest.mark.parametrize("kind", ["commit", "abort"])
@FLOWS
def test_events_of_a_transaction(new, kind):
    harness = BrokerHarness()
    producer = ready(harness, new=new)
    assert happened(harness) == []
    producer.produce(b"a")
    producer.produce(b"b", partition=1)
    assert happened(harness) == [("txn_begin", 0, "")]
    producer.end(committed=kind == "commit")
    epoch = 1 if new else 0  # KIP-890: the end of a transaction increments the epoch
    assert happened(harness)[1:] == [("txn_prepare", epoch, kind), (f"txn_{kind}", epoch, "")]


def test_offsets_are_committed_between_the_events_of_the_end():
    harness = BrokerHarness()
    producer = ready(harness)
    producer.commit("g", 5)
    producer.end(committed=True)
    kinds = [(event.event.value, event.group) for event in harness.journal.events]
    assert kinds == [("txn_begin", ""), ("txn_prepare", ""), ("commit", "g"), ("txn_commit", "")]


def test_events_of_delayed_markers():
    harness = BrokerHarness(config={"mockbroker.transaction.completion.ms": 1_000})
    producer = ready(harness)
    producer.produce(b"a")
    producer.end(committed=True)
    assert [kind for kind, _, _ in happened(harness)] == ["txn_begin", "txn_prepare"]
    harness.wait(1.0)
    assert happened(harness)[2:] == [("txn_commit", 0, "")]
    assert harness.journal.events[-1].time_ms == 1_000


def test_events_of_a_transaction_that_times_out():
    harness = BrokerHarness(config=CHECK_INTERVAL)
    producer = ready(harness, timeout_ms=2_000)
    producer.produce(b"a")
    harness.wait(5.0)
    assert happened(harness)[1:] == [
        ("txn_expire", 0, "open for more than 2 s"),
        ("txn_prepare", 1, "abort"),
        ("txn_abort", 1, ""),
    ]
    producer.init()  # the timeout has fenced the epoch already
    assert len(happened(harness)) == 4


@pytest.mark.parametrize("open_transaction", [False, True], ids=["no transaction", "open transaction"])
def test_events_of_a_fenced_producer(open_transaction):
    harness = BrokerHarness()
    old, young = ready(harness), Producer(harness, "tx")
    if open_transaction:
        old.produce(b"a")
    while young.init():
        pass  # answered with CONCURRENT_TRANSACTIONS
    fence = ("txn_fence", 0, "InitProducerId of another producer")
    if open_transaction:
        assert happened(harness)[1:] == [fence, ("txn_prepare", 1, "abort"), ("txn_abort", 1, "")]
    else:
        assert happened(harness) == [fence]


def test_producer_that_continues_is_not_fenced():
    """The producer sends InitProducerId with its producer id and epoch (KIP-360), as after an error."""
    harness = BrokerHarness()
    producer = ready(harness)
    assert producer.init(known=True) == E.NONE
    assert happened(harness) == []


def test_rejected_requests_are_no_events():
    harness = BrokerHarness()
    old = ready(harness)
    ready(harness)
    before = happened(harness)
    assert old.produce(b"a") != E.NONE
    assert old.end(committed=True) != E.NONE
    assert happened(harness) == before


def test_transactional_id_expires_at_the_exact_time():
    check = {"transaction.remove.expired.transaction.cleanup.interval.ms": 1_000}
    harness = BrokerHarness(config=CHECK_INTERVAL | check | {"transactional.id.expiration.ms": 10_000})
    ready(harness)
    harness.wait(9.999)
    assert "tx" in harness.broker.transactions
    harness.wait(0.001)
    assert "tx" not in harness.broker.transactions


def test_loaded_transactional_ids_expire_too():
    harness = BrokerHarness(config={"transactional.id.expiration.ms": 10_000})
    ready(harness)
    harness.broker.load_transactions(harness.now)
    harness.wait(3_700)
    assert "tx" not in harness.broker.transactions


def test_fenced_producer_of_an_expired_id_is_forgotten():
    """After the expiration, a new producer with the same id can fence a producer again."""
    harness = BrokerHarness(config={"transactional.id.expiration.ms": 10_000})
    old = ready(harness)
    old.produce(b"a")
    assert Producer(harness, "tx").init() == E.CONCURRENT_TRANSACTIONS
    harness.wait(3_700)
    assert "tx" not in harness.broker.transactions
    assert not harness.broker.transactions._fenced
    ready(harness)
    harness.wait(1)
    before = fences(harness)
    ready(harness)
    assert fences(harness) == before + 1


def fences(harness: BrokerHarness) -> int:
    return [kind for kind, _, _ in happened(harness)].count("txn_fence")


@FLOWS
def test_timeout_ends_at_the_exact_time(new):
    harness = BrokerHarness(config=CHECK_INTERVAL)
    producer = ready(harness, new=new, timeout_ms=5_000)
    producer.produce(b"late")
    harness.wait(4.999)
    assert harness.broker.transactions["tx"].state is State.ONGOING
    harness.wait(0.001)
    assert harness.broker.transactions["tx"].state is State.COMPLETE_ABORT


@pytest.mark.parametrize("committed", [True, False])
def test_markers_are_written_after_the_log_was_loaded(committed):
    """The coordinator crashed between the decision and the markers; the next coordinator writes the markers."""
    harness = BrokerHarness(config={"mockbroker.transaction.completion.ms": 60_000})
    producer = ready(harness)
    producer.produce(b"a")
    producer.end(committed=committed)
    assert read_committed(harness) == []
    harness.broker.load_transactions(harness.now)
    harness.wait(0.0)
    assert read_committed(harness) == ([b"a"] if committed else [])
    assert harness.broker.transactions["tx"].state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


def test_fenced_marker_keeps_a_transaction_prepared():
    harness = BrokerHarness()
    producer = ready(harness)
    producer.produce(b"a")
    partition = harness.broker.cluster.topics["t"].partitions[0]
    txn = harness.broker.transactions["tx"]
    newer = txn.identity._replace(epoch=txn.epoch + 5)
    harness.broker.transactions.write_marker(partition, newer, committed=True, coordinator_epoch=99, now=0.0)
    ended = harness.broker.transactions.end("tx", txn.identity, committed=True, kip890=False, now=0.0)
    assert (txn.state, ended.appended) == (State.PREPARE_COMMIT, [])


def test_open_transactions_do_not_expire():
    expiry = {
        "transactional.id.expiration.ms": 5_000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 1_000,
    }
    harness = BrokerHarness(config=expiry)
    ready(harness, timeout_ms=60_000).produce(b"open")
    harness.wait(30)
    assert harness.broker.transactions["tx"].state is State.ONGOING


def test_fenced_marker_leaves_offsets_pending():
    harness = BrokerHarness()
    producer = ready(harness)
    producer.commit("g", 5)
    transactions = harness.broker.transactions
    partition = harness.broker.cluster.topics["__consumer_offsets"].partition_of("g")
    older = transactions["tx"].identity._replace(epoch=-1)
    error, notes = transactions.write_marker(partition, older, committed=True, coordinator_epoch=0, now=0.0)
    assert (error != E.NONE, notes) == (True, [])
    assert stable(harness)[0] is None


def test_refused_producer_gets_no_identity():
    ended = BrokerHarness().broker.transactions.init("tx", 0, None, 0.0)
    assert (ended.error, ended.identity) == (E.INVALID_TRANSACTION_TIMEOUT, (-1, -1))


TIMEOUTS = [
    (0, E.INVALID_TRANSACTION_TIMEOUT),
    (1, E.NONE),
    (900_000, E.NONE),
    (900_001, E.INVALID_TRANSACTION_TIMEOUT),
]


@pytest.mark.parametrize(("timeout_ms", "error"), TIMEOUTS)
def test_transaction_timeout_has_limits(timeout_ms, error):
    """The timeout is greater than 0 and at most transaction.max.timeout.ms."""
    assert Producer(BrokerHarness(), "tx", timeout_ms=timeout_ms).init() == error


BUSY = E.COORDINATOR_LOAD_IN_PROGRESS  # an example of the error that a request passes as ``busy``
WRITES = [  # state, epoch relative to the owner's, partition, adds, abortable: error
    (State.ONGOING, 0, 0, False, True, E.NONE),
    (State.ONGOING, 0, 1, True, True, E.NONE),
    (State.ONGOING, -1, 0, False, True, E.INVALID_PRODUCER_EPOCH),
    (State.ONGOING, -1, 0, True, True, E.INVALID_PRODUCER_EPOCH),
    (State.ONGOING, 0, 1, False, True, E.TRANSACTION_ABORTABLE),
    (State.ONGOING, 0, 1, False, False, E.INVALID_TXN_STATE),
    (State.PREPARE_COMMIT, 0, 0, False, True, BUSY),
    (State.PREPARE_ABORT, 0, 0, True, True, E.CONCURRENT_TRANSACTIONS),
]


@pytest.mark.parametrize(("state", "epoch", "index", "adds", "abortable", "error"), WRITES)
def test_error_of_a_write_in_a_transaction(state, epoch, index, adds, abortable, error):
    """As in Kafka's ReplicaManager and GroupCoordinator, a zombie gets INVALID_PRODUCER_EPOCH."""
    harness = BrokerHarness()
    producer = ready(harness)
    producer.add(0)
    transactions = harness.broker.transactions
    txn = transactions["tx"]
    txn.state = state
    owner = txn.identity._replace(epoch=txn.epoch + epoch)
    place = ("t", index)
    assert transactions.write_error("tx", owner, place, 0.0, adds=adds, abortable=abortable, busy=BUSY) == error


def test_marker_of_a_data_partition_commits_no_offsets():
    """The data partition has the same index as a partition of __consumer_offsets."""
    harness = BrokerHarness()
    producer = ready(harness)
    producer.commit("g", 5)
    index = harness.broker.offsets_partition("g")[1]
    partition = harness.broker.cluster.create_topic("wide", [[0]] * (index + 1)).partitions[index]
    transactions = harness.broker.transactions
    transactions.write_marker(partition, transactions["tx"].identity, committed=True, coordinator_epoch=0, now=0.0)
    assert stable(harness)[0] is None


def test_marker_commits_offsets_of_its_own_partition():
    """Groups in other partitions of __consumer_offsets wait for the markers of their partitions."""
    harness = BrokerHarness()
    producer = ready(harness)
    for group in ("g", "h"):
        producer.commit(group, 5)
    topic = harness.broker.cluster.topics["__consumer_offsets"]
    assert topic.partition_of("g") is not topic.partition_of("h")
    transactions = harness.broker.transactions
    marker = transactions["tx"].identity
    transactions.write_marker(topic.partition_of("g"), marker, committed=True, coordinator_epoch=0, now=0.0)
    assert (stable(harness, "g")[0], stable(harness, "h")[0]) == (5, None)


def test_check_for_expired_ids_is_at_the_exact_time():
    check = {"transaction.remove.expired.transaction.cleanup.interval.ms": 1_000}
    harness = BrokerHarness(config=check | {"transactional.id.expiration.ms": 2_000_000})
    ready(harness)
    assert harness.broker.deadlines.at(TRANSACTIONAL_IDS) == 2_000.0


def test_only_expired_transactional_ids_are_removed():
    check = {"transaction.remove.expired.transaction.cleanup.interval.ms": 1_000}
    harness = BrokerHarness(config=check | {"transactional.id.expiration.ms": 10_000})
    ready(harness, "a")
    harness.wait(0.005)
    ready(harness, "b")
    harness.wait(4.995)
    ready(harness, "c")
    harness.wait(5.0)
    assert list(harness.broker.transactions) == ["b", "c"]
    assert harness.broker.deadlines.at(TRANSACTIONAL_IDS) == 11.0
    harness.wait(1.0)
    assert list(harness.broker.transactions) == ["c"]
    assert harness.broker.deadlines.at(TRANSACTIONAL_IDS) == 15.0


def test_transactional_ids_expire_after_a_restart():
    harness = DurableBrokerHarness(config={"transactional.id.expiration.ms": 10_000})
    ready(harness)
    harness.restart()
    assert list(harness.broker.transactions) == ["tx"]
    harness.wait(3_700)
    assert not harness.broker.transactions


def test_timeout_continues_after_a_restart():
    harness = DurableBrokerHarness(config=CHECK_INTERVAL)
    harness.wait(10.0)
    ready(harness, timeout_ms=5_000).produce(b"late")
    harness.wait(2.0)
    harness.restart()
    harness.wait(2.999)
    assert harness.broker.transactions["tx"].state is State.ONGOING
    harness.wait(0.001)
    assert harness.broker.transactions["tx"].state is State.COMPLETE_ABORT


def test_timeout_between_the_checks():
    harness = BrokerHarness(config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 10})
    ready(harness, timeout_ms=50_000).produce(b"late")
    harness.wait(49.98)
    assert harness.broker.transactions["tx"].state is State.ONGOING
    harness.wait(0.02)
    assert harness.broker.transactions["tx"].state is State.COMPLETE_ABORT


@pytest.mark.parametrize("delay_ms", [0, 1_000])
def test_end_with_the_last_epoch_returns_the_next_producer_id(delay_ms):
    """KIP-890: the next transaction begins with epoch 0, even while the markers are being written."""
    harness = BrokerHarness(config={"mockbroker.transaction.completion.ms": delay_ms})
    ready(harness, new=True)
    transactions = harness.broker.transactions
    txn = transactions["tx"]
    txn.epoch = EXHAUSTED
    transactions.add("tx", txn.identity, [("t", 0)], 0.0, kip890=True)
    ended = transactions.end("tx", txn.identity, committed=True, kip890=True, now=0.0)
    harness.wait(1.0)
    assert (ended.error, ended.identity) == (E.NONE, transactions["tx"].identity)
    assert (txn.producer_id != txn.previous_id, txn.epoch) == (True, 0)


@pytest.mark.parametrize("committed", [True, False])
def test_ended_transaction_leaves_no_pending_group(committed):
    harness = BrokerHarness()
    producer = ready(harness)
    for group in ("g", "h"):
        assert producer.commit(group, 5) == E.NONE
    assert harness.broker.offsets_partition("g") != harness.broker.offsets_partition("h")
    producer.end(committed=committed)
    assert harness.broker.transactions._pending_groups == {}
    assert stable(harness, "g") == stable(harness, "h") == {0: 5 if committed else -1, 1: -1}


def markers(harness: BrokerHarness) -> list[tuple[str, int]]:
    """Return type and coordinator epoch of each marker in partition t-0."""
    batches = harness.broker.cluster.topics["t"].partitions[0].log.batches()
    written = [record for batch in batches if batch.control for record in control_records(batch)]
    return [(record.name, record.marker.coordinator_epoch) for record in written if record.marker]


def test_markers_have_the_epoch_of_the_coordinator():
    """The epoch is the leader epoch of the partition in the transaction log, so an older coordinator is fenced."""
    harness = BrokerHarness()
    producer = ready(harness)
    harness.broker.cluster.topics[TRANSACTIONS_TOPIC].partition_of("tx").leader_epoch = 5
    producer.produce(b"a")
    partition = harness.broker.cluster.topics["t"].partitions[0]
    transactions = harness.broker.transactions
    ended = transactions.end("tx", transactions["tx"].identity, committed=True, kip890=False, now=0.0)
    assert ended.appended == [partition]
    assert markers(harness) == [("COMMIT", 5)]


def test_completed_transaction_is_completed_after_a_restart():
    harness = DurableBrokerHarness()
    producer = ready(harness)
    producer.produce(b"a")
    producer.end(committed=True)
    harness.restart()
    harness.wait(1.0)
    assert harness.broker.transactions["tx"].state is State.COMPLETE_COMMIT
    assert markers(harness) == [("COMMIT", 0)]


def large_transaction(harness: BrokerHarness) -> Producer:
    """Open a transaction with five partitions, on a broker that writes the markers of two partitions at once."""
    harness.broker.slice_size = 2
    producer = ready(harness)
    transactions = harness.broker.transactions
    assert (
        transactions.add("tx", transactions["tx"].identity, [("five", n) for n in range(5)], 0.0, kip890=False)
        == E.NONE
    )
    return producer


def marked(harness: BrokerHarness) -> list[bool]:
    """Return for each partition of topic five whether it contains a marker."""
    return [partition.log.end > 0 for partition in harness.broker.cluster.topics["five"].partitions]


@pytest.mark.parametrize("committed", [True, False])
def test_markers_are_written_in_slices(committed):
    harness = BrokerHarness(topics={"t": 2, "five": 5})
    large_transaction(harness)
    transactions, txn = harness.broker.transactions, harness.broker.transactions["tx"]
    prepared = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
    ended = transactions.end("tx", txn.identity, committed=committed, kip890=False, now=0.0)
    steps = [(len(ended.appended), txn.state)]
    while harness.router.deadline() <= 0.0:
        harness.router.tick(0.0)
        steps.append((sum(marked(harness)), txn.state))
    complete = State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT
    assert steps == [(2, prepared), (4, prepared), (5, complete)]
    ends = [event.event for event in harness.journal.events if event.event.endswith(("commit", "abort"))]
    assert ends == [EventKind.TXN_COMMIT if committed else EventKind.TXN_ABORT]


def test_transaction_is_prepared_until_its_last_marker():
    """As in Kafka, the next transaction can begin after the last marker."""
    harness = BrokerHarness(topics={"t": 2, "five": 5})
    large_transaction(harness)
    transactions, txn = harness.broker.transactions, harness.broker.transactions["tx"]
    transactions.end("tx", txn.identity, committed=True, kip890=False, now=0.0)
    assert transactions.add("tx", txn.identity, [("t", 0)], 0.0, kip890=False) == E.CONCURRENT_TRANSACTIONS
    harness.wait(0.0)
    assert transactions.add("tx", txn.identity, [("t", 0)], 0.0, kip890=False) == E.NONE


def test_fenced_marker_keeps_only_its_partition():
    harness = BrokerHarness(topics={"t": 2, "five": 5})
    large_transaction(harness)
    transactions, txn = harness.broker.transactions, harness.broker.transactions["tx"]
    newer = txn.identity._replace(epoch=txn.epoch + 5)
    fenced = harness.broker.cluster.topics["five"].partitions[1]
    transactions.write_marker(fenced, newer, committed=True, coordinator_epoch=99, now=0.0)
    transactions.end("tx", txn.identity, committed=True, kip890=False, now=0.0)
    harness.wait(0.0)
    assert (txn.state, txn.partitions, marked(harness)) == (State.PREPARE_COMMIT, {("five", 1)}, [True] * 5)


def test_markers_are_completed_after_a_restart():
    harness = DurableBrokerHarness(topics={"t": 2, "five": 5})
    large_transaction(harness)
    transactions = harness.broker.transactions
    transactions.end("tx", transactions["tx"].identity, committed=True, kip890=False, now=0.0)
    harness.restart()
    harness.wait(1.0)
    assert (harness.broker.transactions["tx"].state, marked(harness)) == (State.COMPLETE_COMMIT, [True] * 5)


def test_loaded_transaction_gets_all_markers():
    harness = BrokerHarness(topics={"t": 2, "five": 5})
    large_transaction(harness)
    transactions = harness.broker.transactions
    transactions.end("tx", transactions["tx"].identity, committed=True, kip890=False, now=0.0)
    harness.broker.load_transactions(harness.now)
    harness.wait(0.0)
    assert (transactions["tx"].state, marked(harness)) == (State.COMPLETE_COMMIT, [True] * 5)


def test_deleted_topic_gets_no_marker():
    """The other partitions of the transaction get their markers."""
    harness = BrokerHarness()
    deleted = harness.broker.cluster.create_topic("a", [[0]])
    producer = ready(harness)
    transactions = harness.broker.transactions
    assert transactions.add("tx", transactions["tx"].identity, [("a", 0)], 0.0, kip890=True) == E.NONE
    producer.produce(b"kept")
    harness.broker.delete_topics([deleted])
    assert producer.end(committed=True) == E.NONE
    assert read_committed(harness) == [b"kept"]


def test_number_of_transactional_ids_is_limited():
    harness = BrokerHarness(config={"mockbroker.max.transactional.ids": 2})
    ready(harness, "a")
    ready(harness, "b")
    ended = harness.broker.transactions.init("c", 1_000, None, harness.now)
    assert ended.error == E.POLICY_VIOLATION
    assert sorted(harness.broker.transactions) == ["a", "b"]
    assert Producer(harness, "a").init() == E.NONE


def test_each_producer_fences_the_one_before():
    harness = BrokerHarness()
    for number in range(4):
        ready(harness)
        assert fences(harness) == number


@pytest.mark.parametrize("release", ["3.9", "4.2"])
def test_start_of_the_last_transaction_after_init(release):
    """Since 4.0, a transactional id with a new producer epoch has no transaction start time."""
    harness = BrokerHarness(release=RELEASES[release])
    harness.wait(3.0)
    producer = ready(harness)
    producer.produce(b"a")
    producer.end(committed=True)
    assert harness.broker.transactions["tx"].started == 3.0
    ready(harness)
    assert harness.broker.transactions["tx"].started == (None if release == "4.2" else 3.0)


def test_transaction_without_partitions_begins():
    """Kafka's TransactionCoordinator answers without a change only if the transaction is already ongoing."""
    harness = BrokerHarness()
    ready(harness)
    transactions = harness.broker.transactions
    assert transactions.add("tx", transactions["tx"].identity, [], harness.now, kip890=True) == E.NONE
    assert transactions["tx"].state is State.ONGOING
