"""ShareAcknowledge: sessions, errors of partitions, and pending fetches of other members that it completes."""

from __future__ import annotations

from uuid import UUID

import pytest
from tools.share_harness import ACCEPT, REJECT, RELEASE, RENEW, ShareHarness, Sharer, acquired

from kwire import ErrorCode
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest
from mockbroker.topics.model import NO_LEADER


@pytest.fixture
def h() -> ShareHarness:
    result = ShareHarness()
    result.produce(4)
    return result


def test_acknowledged_records_are_stored(h):
    a = Sharer(h=h)
    a.fetch(0)
    assert a.acknowledge((0, 1, [ACCEPT]), (2, 2, [REJECT])).error_code == ErrorCode.NONE
    state = h.stored()
    assert ([tuple(batch) for batch in state.batches], state.complete_count) == ([(0, 1, 2, 1), (2, 2, 4, 1)], 3)


def test_sessions_are_checked(h):
    a = Sharer(h=h)
    assert a.acknowledge(share_session_epoch=0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert a.acknowledge(share_session_epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert a.acknowledge(member_id="").error_code == ErrorCode.INVALID_REQUEST
    a.fetch(0)
    assert a.acknowledge(share_session_epoch=7).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert a.acknowledge((0, 3, [ACCEPT]), share_session_epoch=-1).error_code == ErrorCode.NONE
    a.epoch = 2
    assert a.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


INVALID = [
    ("range", [(3, 2, [ACCEPT])]),
    ("order", [(2, 3, [ACCEPT]), (1, 1, [ACCEPT])]),
    ("no type", [(0, 1, [])]),
    ("types for fewer offsets", [(0, 2, [ACCEPT, ACCEPT])]),
    ("unknown type", [(0, 1, [5])]),
    ("negative type", [(0, 1, [-1])]),
    ("renewal in a usual request", [(0, 1, [RENEW])]),
]


@pytest.mark.parametrize("batches", [case[1] for case in INVALID], ids=[case[0] for case in INVALID])
def test_invalid_batches_are_an_invalid_request(h, batches):
    a = Sharer(h=h)
    a.fetch(0)
    assert a.acknowledge(*batches).error_code == ErrorCode.INVALID_REQUEST
    assert a.acknowledge((0, 3, [ACCEPT])).error_code == ErrorCode.NONE


def test_unknown_partitions(h):
    a = Sharer(h=h)
    a.fetch(0)
    assert a.acknowledge((0, 0, [ACCEPT]), index=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    kind = ShareAcknowledgeRequest.Topic.Partition
    batch = kind.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])
    topic = ShareAcknowledgeRequest.Topic(
        topic_id=UUID(int=99), partitions=[kind(partition_index=0, acknowledgement_batches=[batch])]
    )
    assert a.acknowledge(topics=[topic]).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_released_records_complete_a_waiting_fetch(h):
    a, b = Sharer(h=h), Sharer(h=h, name="b")
    a.fetch(0)
    waiting = b.send(0, max_wait_ms=5_000)
    assert waiting.parked
    a.acknowledge((1, 2, [RELEASE]))
    assert acquired(waiting.answer) == [(1, 2, 2)]


def test_renewed_locks_end_later(h):
    a, b = Sharer(h=h), Sharer(h=h, name="b")
    a.fetch(0)
    h.wait(20)
    assert a.acknowledge((0, 1, [RENEW]), is_renew_ack=True).error_code == ErrorCode.NONE
    h.wait(15)
    assert b.acquire(0) == [(2, 3, 2)]
    h.wait(15)
    assert b.acquire() == [(0, 1, 2)]


def test_without_coordinator_nothing_is_acknowledged(h):
    a = Sharer(h=h)
    a.fetch(0)
    log = h.broker.share_state_topic().partition_of(h.key().coordinator_key)
    log.leader = NO_LEADER
    result = a.acknowledge((0, 3, [ACCEPT]))
    assert result.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert result.error_message == "Error in write state RPC. The coordinator is not available."
    log.leader = 0
    assert a.acknowledge((0, 3, [ACCEPT])).error_code == ErrorCode.NONE


def test_altered_start_offset_fences_the_leader(h):
    a = Sharer(h=h)
    a.fetch(0)
    h.broker.share_states.initialize(h.key(), 2, 1, h.now)
    result = a.acknowledge((0, 3, [ACCEPT]))
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (0, 0)
    assert a.acquire() == [(1, 3, 1)]


def test_no_batches_get_no_response(h):
    a = Sharer(h=h)
    a.fetch(0)
    assert a.acknowledge().responses == []
