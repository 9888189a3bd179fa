"""ShareFetch: sessions, errors of partitions, limits, and acknowledgements in the same request."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.share_harness import ACCEPT, RELEASE, RENEW, ShareHarness, Sharer, acquired

from kwire import ErrorCode
from kwire.messages.share_fetch import ShareFetchRequest
from mockbroker.broker import failover
from mockbroker.share.acquire import AcquireMode


@pytest.fixture
def h() -> ShareHarness:
    return ShareHarness()


def partition_of(answer: Any) -> Any:
    (topic,) = answer.responses
    (partition,) = topic.partitions
    return partition


def test_records_are_acquired_by_one_member(h):
    h.produce(3)
    assert Sharer(h=h).acquire(0) == [(0, 2, 1)]
    assert Sharer(h=h, name="b").acquire(0) == []


def test_response_contains_whole_batches_of_acquired_records(h):
    h.produce(2, 2, 2)
    a = Sharer(h=h)
    records = partition_of(a.fetch(0, max_records=2)).records
    assert records == h.partition().log.stored()[0].data
    assert a.acquire(max_records=3) == [(2, 5, 1)]


@pytest.mark.parametrize("member_id", ["", None, "m" * 37], ids=["empty", "null", "long"])
def test_invalid_member_id_is_an_invalid_request(h, member_id):
    assert Sharer(h=h).fetch(0, member_id=member_id).error_code == ErrorCode.INVALID_REQUEST


def test_session_epochs(h):
    a = Sharer(h=h)
    assert a.fetch(0, share_session_epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert a.fetch(0, share_session_epoch=-1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    a.epoch = 0
    assert a.fetch(0).error_code == ErrorCode.NONE
    assert a.fetch(share_session_epoch=5).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert a.fetch(share_session_epoch=1).error_code == ErrorCode.NONE


def test_sessions_end_with_the_process_of_their_broker(h):
    a = Sharer(h=h)
    assert a.fetch(0).error_code == ErrorCode.NONE
    h.apply(failover.kill_broker(h.broker, 0, h.now, 9.0))
    h.apply(failover.start_broker(h.broker, 0, h.now))  # the cluster has not noticed the loss yet
    assert a.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_acknowledgements_need_a_session(h):
    h.produce(1)
    answer = Sharer(h=h).fetch(0, acknowledge=[(0, 0, [ACCEPT])])
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_session_remembers_its_partitions():
    h = ShareHarness({"t": 2})
    a = Sharer(h=h)
    a.fetch(0, 1)
    assert a.fetch().responses == []
    h.produce(1, index=1)
    assert a.acquire() == [(0, 0, 1)]
    h.produce(1, index=0)
    assert a.acquire(forget=[0]) == []


def test_partitions_of_a_session_are_read_in_turns():
    h = ShareHarness({"t": 2})
    h.produce(*[5] * 9, index=0)
    h.produce(*[5] * 9, index=1)
    a = Sharer(h=h)
    results = []
    for number in range(4):
        answer = a.fetch(*((0, 1) if not number else ()), max_records=5)
        results.append([p.partition_index for t in answer.responses for p in t.partitions if p.acquired_records])
    assert {tuple(each) for each in results} == {(0,), (1,)}


def test_last_request_releases_the_records(h):
    h.produce(3)
    a, b = Sharer(h=h), Sharer(h=h, name="b")
    a.fetch(0)
    assert b.acquire(0) == []
    a.fetch(0, acknowledge=[(0, 0, [ACCEPT])], share_session_epoch=-1)
    assert b.acquire() == [(1, 2, 2)]
    assert a.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_acknowledgement_and_fetch_in_one_request(h):
    h.produce(2, 2)
    a = Sharer(h=h)
    a.fetch(0, max_records=2)
    answer = a.fetch(0, acknowledge=[(0, 1, [RELEASE])], max_records=2)
    assert acquired(answer) == [(0, 1, 2)]
    answer = a.fetch(0, acknowledge=[(0, 1, [ACCEPT])], max_records=2)
    assert acquired(answer) == [(2, 3, 1)]
    partition = partition_of(a.fetch(0, acknowledge=[(9, 9, [ACCEPT])]))
    assert (partition.error_code, partition.acknowledge_error_code) == (0, ErrorCode.INVALID_REQUEST)
    assert partition.acknowledge_error_message == (
        "Batch record not found. The first offset in request is past acquired records."
    )


def test_renewal_fetches_no_records(h):
    h.produce(1)
    a = Sharer(h=h)
    a.fetch(0)
    renewal = {"acknowledge": [(0, 0, [RENEW])], "is_renew_ack": True}
    assert a.fetch(0, **renewal).error_code == ErrorCode.INVALID_REQUEST
    a.epoch -= 1
    h.produce(1)
    h.wait(20)
    answer = a.fetch(0, **renewal, max_bytes=0, min_bytes=0, max_records=0)
    assert acquired(answer) == []
    h.wait(25)
    assert a.acquire() == [(1, 1, 1)], "offset 0 is still locked"


def test_unknown_topic_id_fails_the_whole_response(h):
    topic = ShareFetchRequest.Topic(
        topic_id=UUID(int=99), partitions=[ShareFetchRequest.Topic.Partition(partition_index=0)]
    )
    assert Sharer(h=h).fetch(topics=[topic]).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_errors_of_partitions():
    h = ShareHarness({"t": 2}, brokers=2)
    a = Sharer(h=h, node=0)
    other = next(index for index in (0, 1) if h.leader("t", index) != 0)
    partition = partition_of(a.fetch(other))
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (1, 0)
    assert partition_of(a.fetch(7, forget=[other])).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_response_names_the_address_of_the_leader():
    h = ShareHarness({"t": 2}, brokers=2)
    other = next(index for index in (0, 1) if h.leader("t", index) != 0)
    (endpoint,) = Sharer(h=h, node=0).fetch(other).node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (1, "127.0.0.1", 9_001)


def test_unknown_acquire_mode_is_a_server_error(h):
    answer = Sharer(h=h).fetch(0, share_acquire_mode=7)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_record_limit(h):
    h.produce(5)
    a = Sharer(h=h)
    assert a.acquire(0, max_records=2, share_acquire_mode=AcquireMode.RECORD_LIMIT) == [(0, 1, 1)]
    assert a.acquire(max_records=9, share_acquire_mode=AcquireMode.RECORD_LIMIT) == [(2, 4, 1)]


def test_max_bytes_limits_the_records(h):
    h.produce(1, 1, 1)
    size = len(h.partition().log.stored()[0].data)
    a = Sharer(h=h)
    assert a.acquire(0, max_bytes=2 * size) == [(0, 1, 1)]
    assert a.acquire(max_bytes=1) == [(2, 2, 1)], "the first batch whatever its size"
    assert a.acquire(max_bytes=0) == []


def test_a_new_leader_continues_from_the_stored_state():
    h = ShareHarness({"t": 1}, brokers=1)
    h.produce(4)
    a = Sharer(h=h)
    a.fetch(0)
    a.acknowledge((0, 0, [ACCEPT]), (2, 2, [RELEASE]))
    partition = h.partition()
    h.broker.share_partitions.unload_partition(h.topic_id("t"), 0)
    h.broker.cluster.set_leader(partition, partition.leader)
    b = Sharer(h=h, name="b")
    assert b.acquire(0) == [(1, 1, 1), (2, 2, 2), (3, 3, 1)]


def test_a_broker_that_loses_a_partition_forgets_it():
    h = ShareHarness({"t": 1}, brokers=2)
    partition = h.partition()
    partition.replicas = [0, 1]
    old, new = partition.leader, 1 - partition.leader
    h.produce(2)
    a = Sharer(h=h, node=old)
    assert a.acquire(0) == [(0, 1, 1)]
    h.apply(failover.move_leader(h.broker, partition, new, h.now))
    assert a.fetch().responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert a.acknowledge((0, 1, [ACCEPT])).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    b = Sharer(h=h, name="b", node=new)
    assert b.acquire(0) == [(0, 1, 1)]
    assert h.stored().leader_epoch == 1


def test_a_killed_broker_loses_its_sessions():
    h = ShareHarness({"t": 1}, brokers=2)
    h.partition().replicas = [0, 1]
    old = h.partition().leader
    h.produce(2)
    a = Sharer(h=h, node=old)
    a.fetch(0)
    h.apply(failover.kill_broker(h.broker, old, h.now, noticed_after=0.0))
    assert len(h.broker.share_sessions(old)) == 0
    h.disconnect(a.session[0])
    assert Sharer(h=h, name="b", node=1 - old).acquire(0) == [(0, 1, 1)]


def test_deleted_records_move_the_start_offset(h):
    h.produce(2, 2)
    h.partition().log.delete_before(3)
    a = Sharer(h=h)
    assert a.acquire(0) == []
    assert a.acquire() == [(3, 3, 1)]


def test_deleted_topic_deletes_the_states(h):
    h.produce(1)
    Sharer(h=h).fetch(0)
    topic = h.broker.cluster.topics["t"]
    h.broker.delete_topics([topic])
    h.apply([])
    assert list(h.broker.share_states.items()) == []
    assert h.broker.share_partitions.loaded == {}
