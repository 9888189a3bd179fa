"""The share coordinator: initialize, read, write and delete states, and load them from the log."""

from __future__ import annotations

from itertools import count
from uuid import UUID

import pytest

from kwire import ErrorCode
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.share.state import ShareState, StateBatch, StateKey
from mockbroker.share.states import ShareStates, StateChange, StateSummary
from mockbroker.topics.model import NO_LEADER, SHARE_STATE_TOPIC, Node, Topic

ACKNOWLEDGED = 2


@pytest.fixture
def broker() -> Broker:
    numbers = count(1)
    settings = Settings(share_coordinator_snapshot_update_records_per_snapshot=3)
    return Broker([Node(0, "localhost", 9092)], settings, lambda: UUID(int=next(numbers)))


@pytest.fixture
def topic(broker: Broker) -> Topic:
    return broker.cluster.create_topic("orders", [[0], [0]])


@pytest.fixture
def key(topic: Topic) -> StateKey:
    return StateKey("g", topic.topic_id, 1)


def change(start: int = 5, *, leader_epoch: int = 0, state_epoch: int = 1, deliveries: int = 1) -> StateChange:
    batch = StateBatch(start, start + 2, ACKNOWLEDGED, deliveries)
    return StateChange(state_epoch, leader_epoch, start, 3, [batch])


def reloaded(broker: Broker, key: StateKey) -> ShareState | ErrorCode:
    """Return the state after the log of its partition was loaded again."""
    broker.share_states.load(broker.share_state_topic().partition_of(key.coordinator_key))
    return broker.share_states.read(key, 0, 0.0)


def test_topic_is_created_by_the_first_initialization(broker, key):
    assert SHARE_STATE_TOPIC not in broker.cluster.topics
    broker.share_states.initialize(key, 1, -1, 0.0)
    assert len(broker.cluster.topics[SHARE_STATE_TOPIC].partitions) == 50


def test_summary_of_an_initialized_partition(broker, key):
    states = broker.share_states
    assert states.summary(key) is None
    assert states.initialize(key, 1, -1, 0.0) == ErrorCode.NONE
    assert states.summary(key) == StateSummary(1, -1, 0, -1)
    states.write(key, change(), 0.0)
    assert states.summary(key) == StateSummary(1, 5, 0, 3)


def test_a_later_initialization_replaces_the_state(broker, key):
    states = broker.share_states
    states.initialize(key, 2, -1, 0.0)
    states.write(key, change(state_epoch=2), 0.0)
    assert states.initialize(key, 1, 0, 0.0) == ErrorCode.FENCED_STATE_EPOCH
    assert states.initialize(key, 3, 9, 0.0) == ErrorCode.NONE
    state = states.read(key, 0, 0.0)
    assert isinstance(state, ShareState)
    assert (state.start_offset, state.batches, state.snapshot_epoch) == (9, [], 1)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        (change(leader_epoch=1), ErrorCode.FENCED_LEADER_EPOCH),
        (change(state_epoch=0, leader_epoch=2), ErrorCode.FENCED_STATE_EPOCH),
        (change(leader_epoch=2), ErrorCode.NONE),
    ],
    ids=["leader epoch", "state epoch", "current"],
)
def test_writes_with_an_old_epoch_are_fenced(broker, key, changed, error):
    broker.share_states.initialize(key, 1, -1, 0.0)
    broker.share_states.read(key, 2, 0.0)
    assert broker.share_states.write(key, changed, 0.0) == error


def test_uninitialized_partition_is_an_invalid_request(broker, key):
    assert broker.share_states.read(key, 0, 0.0) == ErrorCode.INVALID_REQUEST
    assert broker.share_states.write(key, change(), 0.0) == ErrorCode.INVALID_REQUEST
    assert broker.share_states.delete(key, 0.0) == ErrorCode.NONE


def test_unknown_partition_is_not_initialized(broker, key):
    assert broker.share_states.initialize(key._replace(partition=2), 1, -1, 0.0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_without_leader_the_coordinator_is_not_available(broker, key):
    states: ShareStates = broker.share_states
    states.initialize(key, 1, -1, 0.0)
    broker.share_state_topic().partition_of(key.coordinator_key).leader = NO_LEADER
    assert states.write(key, change(), 0.0) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert states.initialize(key, 2, -1, 0.0) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert states.delete(key, 0.0) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_states_are_rebuilt_from_the_log(broker, key):
    broker.share_states.initialize(key, 1, -1, 0.0)
    for number in range(9):  # more updates than fit between two snapshots
        broker.share_states.write(key, change(number, deliveries=number % 3 + 1), 0.0)
    before = broker.share_states.read(key, 0, 0.0)
    assert isinstance(before, ShareState)
    assert before.snapshot_epoch == 2
    batches = before.batches
    after = reloaded(broker, key)
    assert isinstance(after, ShareState)
    assert after.batches == batches
    assert after == before


def test_batches_of_states_begin_with_sequence_0(broker, key):
    broker.share_states.initialize(key, 1, 5, 0.0)
    [batch] = broker.cluster.topics[SHARE_STATE_TOPIC].partition_of(key.coordinator_key).log.batches()
    assert (batch.producer_id, batch.base_sequence) == (-1, 0)


def test_deleted_states_are_not_rebuilt(broker, key, topic):
    for partition in (0, 1):
        broker.share_states.initialize(key._replace(partition=partition), 1, -1, 0.0)
    broker.share_states.delete_topics({topic.topic_id}, 0.0)
    assert list(broker.share_states.items()) == []
    assert reloaded(broker, key) == ErrorCode.INVALID_REQUEST


def test_leader_epoch_of_a_reader_is_durable(broker, key):
    broker.share_states.initialize(key, 1, -1, 0.0)
    broker.share_states.read(key, 4, 0.0)
    assert reloaded(broker, key) == ErrorCode.FENCED_LEADER_EPOCH


def test_records_before_the_oldest_snapshot_are_deleted(broker, key, monkeypatch):
    monkeypatch.setattr("mockbroker.share.states.FIRST_PRUNING", 4_000)
    cold = key._replace(partition=0, group_id="g12")
    states = broker.share_states
    states.initialize(key, 1, -1, 0.0)
    states.initialize(cold, 1, 7, 0.0)
    log = broker.share_state_topic().partition_of(key.coordinator_key).log
    for number in range(200):
        states.write(key, change(number), 0.0)
    assert log.start > 0
    assert log.size < 8_000
    state = reloaded(broker, key)
    assert isinstance(state, ShareState)
    assert state.start_offset == 199
    assert states.summary(cold) == StateSummary(1, 7, 0, -1)
