"""The fetcher: requests to the leaders, and which responses are used."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.fake_logs import FakeLogCluster, FetchedPartition, Log, offsets

from kwire.errorcodes import ErrorCode as E
from kwire.messages.fetch import FetchResponse
from kwire.records import Record, build_batch
from kwire.records.control import ControlType, build_marker
from mockbroker.client.errors import (
    AuthorizationFailed,
    BrokerError,
    CorruptRecord,
    LogTruncated,
    NoOffset,
    UnsupportedVersion,
)
from mockbroker.client.fetching import Fetcher

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
VERSIONS = range(4, 19)


def fetching(leaders: Any = None, *, records: int = 10, batch: int = 5, **how: Any) -> FakeLogCluster:
    """Return a cluster whose logs have records, with the first fetches in flight."""
    cluster = FakeLogCluster({T0: 0} if leaders is None else leaders, **how)
    for log in cluster.logs.values():
        for _ in range(records // batch):
            log.add(batch)
    assert cluster.poll_records() == []
    return cluster


def read_and_hold_validations(cluster: FakeLogCluster) -> None:
    """Read all 20 records of two partitions, and hold back the responses to later OffsetForLeaderEpoch requests."""
    for request in cluster.fetches:
        cluster.answer_rightly(request)
    assert len(cluster.poll_records()) == 20
    for request in cluster.fetches:
        cluster.answer_rightly(request)
    cluster.hold("OffsetForLeaderEpoch")


def only(cluster: FakeLogCluster) -> Any:
    (request,) = cluster.fetches
    return request


def lines(answer: FetchResponse) -> list[FetchedPartition]:
    return [line for topic in answer.responses for line in topic.partitions]


def fetch_with(cluster: FakeLogCluster, request: Any, **fields: Any) -> FetchResponse:
    """Return the correct response with these fields of its partitions changed."""
    answer = cluster.fetch(request)
    for line in lines(answer):
        for name, value in fields.items():
            setattr(line, name, value)
    return answer


def failing(cluster: FakeLogCluster, request: Any, code: int, **fields: Any) -> FetchResponse:
    return fetch_with(cluster, request, error_code=code, records=b"", high_watermark=-1, **fields)


# Requests


def test_one_request_for_each_leader():
    """The leaders of ten partitions on three nodes get three requests, each with all partitions of its leader."""
    cluster = fetching({("t", n): n % 3 for n in range(10)})
    partitions_by_node = {
        request.node: sorted(n for _, n in cluster.fetch_offsets(request)) for request in cluster.fetches
    }
    assert partitions_by_node == {0: [0, 3, 6, 9], 1: [1, 4, 7], 2: [2, 5, 8]}


def test_one_fetch_in_flight_to_each_node():
    cluster = fetching({T0: 0, T1: 0, T2: 1})
    assert len(cluster.fetches) == 2
    cluster.engine.assign([T0, T1, T2])
    for _ in range(3):
        cluster.seek(T0, 3)
        cluster.poll_records()
        assert sorted(request.node for request in cluster.fetches) == [0, 1]
    cluster.answer_rightly(next(request for request in cluster.fetches if request.node == 1))
    cluster.poll_records()
    assert sorted(request.node for request in cluster.fetches) == [0, 1], "a new fetch to the node that responded"


def test_the_next_request_is_sent_before_the_poll_returns():
    cluster = fetching()
    cluster.answer_rightly(only(cluster))
    assert offsets(cluster.poll_records()) == list(range(10))
    assert cluster.fetch_offsets(only(cluster)) == {T0: 10}


def test_fetch_request_fields():
    cluster = fetching(
        fetch_min_bytes=7,
        fetch_max_wait=0.25,
        fetch_max_bytes=999,
        max_partition_fetch_bytes=99,
        client_rack="r",
        isolation_level="read_committed",
    )
    body = only(cluster).body
    assert (body.min_bytes, body.max_wait_ms, body.max_bytes, body.rack_id, body.isolation_level) == (
        7,
        250,
        999,
        "r",
        1,
    )
    (line,) = body.topics[0].partitions
    assert (line.partition_max_bytes, line.log_start_offset, line.current_leader_epoch) == (99, -1, 0)
    assert "500" not in repr(body), "max_poll_records is not sent"


@pytest.mark.parametrize("version", VERSIONS)
def test_fetch_request_by_version(version):
    """Requests have topic names up to v12, ids from v13, sessions from v7. All versions return the same records."""
    cluster = fetching({T0: 0, ("u", 1): 0, ("u", 0): 0}, served={"Fetch": (4, version)})
    places = []
    for _ in range(3):
        request = only(cluster)
        assert request.version == version
        assert all(bool(topic.topic) is (version < 13) for topic in request.body.topics)
        cluster.answer_rightly(request)
        places += [(r.topic, r.partition, r.offset) for r in cluster.poll_records()]
    assert sorted(places) == [(t, p, o) for t, p in ((("t"), 0), ("u", 0), ("u", 1)) for o in range(10)]
    assert (only(cluster).body.session_epoch > 0) is (version >= 7)


def test_topics_without_ids_are_fetched_by_name():
    cluster = fetching(ids=False)
    assert only(cluster).version == 12


def test_no_position_or_no_leader_means_no_fetch():
    cluster = FakeLogCluster({T0: 0, T1: 0, T2: 1})
    cluster.leaders[T1] = -1
    cluster.hold("ListOffsets")
    cluster.poll_records()
    assert cluster.fetches == []
    (at,) = (request for request in cluster.pending() if request.node == 0)
    cluster.answer_rightly(at)
    cluster.poll_records()
    assert cluster.fetch_offsets(only(cluster)) == {T0: 0}, "T1 has no leader, T2 no position"
    cluster.seek(T1, 5)
    cluster.poll_records()
    assert cluster.fetch_offsets(only(cluster)) == {T0: 0}
    cluster.answers |= {"Fetch": cluster.fetch, "ListOffsets": cluster.list_offsets}
    cluster.answer_all()
    before = len(cluster.of("Metadata"))
    cluster.wait(0.5)
    assert len(cluster.of("Metadata")) > before, "the leader is looked up"
    cluster.leaders[T1] = 1
    cluster.wait(3.0)
    cluster.hold("Fetch")
    cluster.poll_records()
    assert {request.node: cluster.fetch_offsets(request) for request in cluster.fetches}[1] == {T1: 5, T2: 0}


def test_fetchable_partitions():
    """All assigned partitions are fetchable, except paused ones and those with buffered records."""
    cluster = fetching({("t", n): n % 2 for n in range(6)})
    cluster.positions.of(("t", 4)).paused = True
    assert set(cluster.fetcher.fetchable()) == {("t", n) for n in (0, 1, 2, 3, 5)}
    cluster.answer_rightly(next(request for request in cluster.fetches if request.node == 0))
    assert cluster.fetcher.buffered == {("t", n) for n in (0, 2, 4)}
    assert set(cluster.fetcher.fetchable()) == {("t", n) for n in (1, 3, 5)}
    assert offsets(cluster.poll_records(13)) == [*range(10), *range(3)]
    assert cluster.fetcher.buffered == {("t", n) for n in (2, 4)}, (
        "partition 0 was returned, 2 is being returned, 4 is paused"
    )
    assert set(cluster.fetcher.fetchable()) == {("t", n) for n in (0, 1, 3, 5)}


# Records


def test_max_poll_records_cuts():
    cluster = fetching(records=1200, batch=100)
    cluster.answer_rightly(only(cluster))
    polls = [cluster.poll_records() for _ in range(3)]
    assert [len(some) for some in polls] == [500, 500, 200]
    assert [record.offset for some in polls for record in some] == list(range(1200))


def test_records_come_by_partition_in_the_order_of_responses():
    cluster = fetching({T0: 0, T1: 1, T2: 2})
    by_node = {request.node: request for request in cluster.fetches}
    for node in (2, 0, 1):
        cluster.answer_rightly(by_node[node])
    assert [record.partition for record in cluster.poll_records()] == [2] * 10 + [0] * 10 + [1] * 10


def test_response_for_a_revoked_partition_is_dropped():
    cluster = fetching({T0: 0, T1: 1})
    cluster.answer_all()
    assert offsets(cluster.poll_records(3)) == [0, 1, 2]
    cluster.positions.assign([T1])
    assert [(record.partition, record.offset) for record in cluster.poll_records()] == [(1, n) for n in range(10)]


def test_response_for_a_reassigned_partition_is_dropped():
    """After the partition was revoked and assigned again, another member may have read its records in the meantime."""
    cluster = fetching()
    cluster.positions.assign([])
    cluster.positions.assign([T0])
    cluster.seek(T0, 0)
    cluster.answer_rightly(only(cluster))
    assert cluster.poll_records() == []
    cluster.answer_rightly(only(cluster))
    assert offsets(cluster.poll_records()) == list(range(10))


def test_records_of_a_paused_partition_are_kept():
    cluster = fetching({T0: 0, T1: 1})
    cluster.answer_all()
    assert offsets(cluster.poll_records(3)) == [0, 1, 2]
    cluster.positions.of(T0).paused = True
    assert [record.partition for record in cluster.poll_records()] == [1] * 10
    assert cluster.poll_records() == []
    cluster.positions.of(T0).paused = False
    request = len(cluster.of("Fetch"))
    assert [(record.partition, record.offset) for record in cluster.poll_records()] == [(0, n) for n in range(3, 10)]
    assert all(T0 not in cluster.fetch_offsets(each) for each in cluster.of("Fetch")[:request][2:]), (
        "it was not fetched again"
    )


@pytest.mark.parametrize("to", [0, 2, 7, 4])
def test_seek_drops_records_of_other_offsets(to):
    """The seek happens before the response, while it is buffered, or while its records are returned."""
    right = list(range(to, 10))
    before = fetching()
    before.seek(T0, to)
    before.answer_rightly(only(before))
    waits = fetching()
    waits.answer_rightly(only(waits))
    waits.seek(T0, to)
    begun = fetching()
    begun.answer_rightly(only(begun))
    assert offsets(begun.poll_records(4)) == [0, 1, 2, 3]
    begun.seek(T0, to)
    for cluster, fits in ((before, 0), (waits, 0), (begun, 4)):
        assert offsets(cluster.poll_records()) == (right if to == fits else []), "it continues at its position"
        if to != fits:
            assert read_all(cluster) == right


def test_records_before_the_position_are_skipped():
    cluster = fetching()
    cluster.answer_rightly(only(cluster))
    cluster.poll_records()
    cluster.seek(T0, 3)
    cluster.answer_rightly(only(cluster))
    cluster.poll_records()
    cluster.answer_rightly(only(cluster))
    assert offsets(cluster.poll_records()) == [3, 4, 5, 6, 7, 8, 9]


def test_first_batch_may_exceed_every_limit():
    cluster = FakeLogCluster({T0: 0}, max_partition_fetch_bytes=10, fetch_max_bytes=10)
    cluster.logs[T0].add(100)
    cluster.logs[T0].add(1)
    cluster.poll_records()
    cluster.answer_rightly(only(cluster))
    assert offsets(cluster.poll_records()) == list(range(100))
    cluster.answer_rightly(only(cluster))
    assert offsets(cluster.poll_records()) == [100]


def test_empty_response_does_not_move_the_position():
    cluster = fetching(records=0)
    for _ in range(3):
        cluster.answer_rightly(only(cluster))
        assert (cluster.poll_records(), cluster.position(T0)) == ([], 0)
    cluster.logs[T0].add(2)
    cluster.answer_rightly(only(cluster))
    assert offsets(cluster.poll_records()) == [0, 1]


def test_positions_have_high_watermark_and_lag():
    cluster = fetching(isolation_level="read_committed")
    log = cluster.logs[T0]
    log.stable, log.start = 5, 0
    cluster.answer_rightly(only(cluster))
    cluster.poll_records(2)
    position = cluster.positions.of(T0)
    assert (position.high_watermark, position.last_stable_offset, position.log_start_offset) == (10, 5, 0)


def test_latency_and_throttle_time_are_recorded():
    cluster = fetching()
    fetcher = cluster.fetcher
    assert (fetcher.responses, fetcher.dropped, fetcher.latency, fetcher.throttled_ms) == (0, 0, 0.0, 0)
    request = only(cluster)
    answer = cluster.fetch(request)
    answer.throttle_time_ms = 70
    cluster.engine.clock.now += 0.25
    cluster.answer(request, answer)
    assert (fetcher.responses, fetcher.dropped, fetcher.throttled_ms) == (1, 0, 70)
    assert fetcher.latency == pytest.approx(0.25)


# Transactions, gaps and corrupt batches


def test_read_committed_skips_aborted_records():
    """Aborted records are never returned, even if a response ends or begins inside a transaction."""
    tx = {"producer_epoch": 0, "base_sequence": 0, "transactional": True, "producer_id": 7}
    for limit in (1, 1 << 20):
        cluster = FakeLogCluster({T0: 0}, isolation_level="read_committed", max_partition_fetch_bytes=limit)
        log = cluster.logs[T0]
        for kind in (ControlType.ABORT, ControlType.COMMIT, ControlType.ABORT, ControlType.COMMIT):
            first = log.add(3, **tx)
            if kind is ControlType.ABORT:
                log.aborted.append((7, first, log.end))
            log.append(build_marker(kind, producer_id=7, producer_epoch=0, timestamp=1, base_offset=log.end))
        returned = []
        cluster.poll_records()
        for _ in range(10):
            cluster.answer_rightly(only(cluster))
            returned += offsets(cluster.poll_records())
        assert returned == [4, 5, 6, 12, 13, 14]
        assert cluster.position(T0) == log.end == 16, "after the markers"


def test_gaps_of_compaction_are_skipped():
    cluster = FakeLogCluster({T0: 0})
    log = cluster.logs[T0]
    some = [Record(offset=n, value=b"") for n in (3, 7)]
    log.append(build_batch(some, keep_offsets=True, base_offset=0, last_offset=9))
    log.append(build_batch([], base_offset=10, last_offset=19))
    log.append(build_batch([Record(offset=25, value=b"")], keep_offsets=True))
    cluster.poll_records()
    cluster.answer_rightly(only(cluster))
    assert (offsets(cluster.poll_records()), cluster.position(T0)) == ([3, 7, 25], 26)


def corrupt(log: Log, number: int) -> None:
    first, last, epoch, data = log.batches[number]
    log.batches[number] = (first, last, epoch, data[:-1] + bytes([data[-1] ^ 1]))


def test_corrupt_batch_is_raised_until_a_seek():
    """The records before the corrupt batch are returned, then each poll raises the error until a seek."""
    cluster = fetching(records=15)
    corrupt(cluster.logs[T0], 1)
    cluster.answer_rightly(only(cluster))
    assert offsets(cluster.poll_records()) == [0, 1, 2, 3, 4]
    for _ in range(3):
        with pytest.raises(CorruptRecord, match="t-0 at offset 5"):
            cluster.poll_records()
        assert cluster.position(T0) == 5
        cluster.poll_records()
        cluster.answer_rightly(only(cluster))
    cluster.seek(T0, 10)
    cluster.poll_records()
    cluster.answer_rightly(only(cluster))
    assert offsets(cluster.poll_records()) == [10, 11, 12, 13, 14]


def test_partition_error_is_raised_after_records_of_another():
    cluster = fetching({T0: 0, T1: 0})
    corrupt(cluster.logs[T1], 0)
    cluster.answer_rightly(only(cluster))
    assert [record.partition for record in cluster.poll_records()] == [0] * 10
    with pytest.raises(CorruptRecord):
        cluster.poll_records()


@pytest.mark.parametrize("how", ["seek", "revoke"])
def test_error_is_dropped_after_a_seek(how):
    """The error was about an offset that is no longer fetched."""
    cluster = fetching({T0: 0, T1: 0})
    corrupt(cluster.logs[T1], 0)
    cluster.answer_rightly(only(cluster))
    assert len(cluster.poll_records()) == 10
    if how == "seek":
        cluster.seek(T1, 5)
    else:
        cluster.engine.assign([T0])
    assert cluster.poll_records() == []


def test_records_after_the_high_watermark_come_later():
    cluster = fetching()
    request = only(cluster)
    cluster.answer(request, fetch_with(cluster, request, high_watermark=5))
    assert (offsets(cluster.poll_records()), cluster.position(T0)) == ([0, 1, 2, 3, 4], 5)
    cluster.poll_records()
    request = only(cluster)
    cluster.answer(request, fetch_with(cluster, request, high_watermark=5))
    before = len(cluster.of("Fetch"))
    assert (cluster.poll_records(), cluster.poll_records()) == ([], [])
    assert len(cluster.of("Fetch")) == before, "not at once again"
    cluster.wait(0.2)
    cluster.poll_records()
    cluster.answer_rightly(only(cluster))
    assert offsets(cluster.poll_records()) == [5, 6, 7, 8, 9]


# Errors


@pytest.mark.parametrize("version", [4, 12, 18])
@pytest.mark.parametrize(
    "code",
    [
        E.NOT_LEADER_OR_FOLLOWER,
        E.REPLICA_NOT_AVAILABLE,
        E.KAFKA_STORAGE_ERROR,
        E.FENCED_LEADER_EPOCH,
        E.OFFSET_NOT_AVAILABLE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_ID,
        E.INCONSISTENT_TOPIC_ID,
        E.UNKNOWN_LEADER_EPOCH,
        E.UNKNOWN_SERVER_ERROR,
    ],
)
def test_retriable_partition_errors_back_off(code, version):
    """The position does not change. The partition is fetched again after a backoff, from its leader at that time."""
    cluster = fetching({T0: 0, T1: 0}, served={"Fetch": (4, version)})
    request, before = only(cluster), len(cluster.of("Metadata"))
    answer = cluster.fetch(request)
    bad = next(line for line in lines(answer) if line.partition_index == 0)
    bad.error_code, bad.records = code, b""
    cluster.answer(request, answer)
    assert [(record.partition) for record in cluster.poll_records()] == [1] * 10
    assert cluster.position(T0) == 0
    assert cluster.fetch_offsets(only(cluster)) == {T1: 10}, "the other partition continues at once"
    cluster.wait(0.3)
    again = code not in (E.UNKNOWN_LEADER_EPOCH, E.UNKNOWN_SERVER_ERROR)
    assert (len(cluster.of("Metadata")) > before) is again
    cluster.answer_rightly(only(cluster))
    cluster.poll_records()
    cluster.answer_rightly(only(cluster))
    assert [(record.partition, record.offset) for record in cluster.poll_records()] == [(0, n) for n in range(10)]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (E.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed),
        (E.CORRUPT_MESSAGE, BrokerError),
        (E.INVALID_REQUEST, BrokerError),
    ],
)
def test_fatal_partition_errors_are_raised(code, error):
    cluster = fetching()
    for _ in range(2):
        request = only(cluster)
        cluster.answer(request, failing(cluster, request, code))
        with pytest.raises(error, match=code.name):
            cluster.poll_records()
        assert cluster.position(T0) == 0
        cluster.poll_records()


@pytest.mark.parametrize(("policy", "at"), [("earliest", 3), ("latest", 10)])
def test_offset_out_of_range_applies_auto_offset_reset(policy, at):
    cluster = fetching(auto_offset_reset=policy)
    cluster.logs[T0].start = 3
    cluster.seek(T0, 99)
    cluster.answer_rightly(only(cluster))
    cluster.poll_records()
    cluster.answer_rightly(only(cluster))
    cluster.poll_records()
    cluster.poll_records()
    assert cluster.position(T0) == at
    assert cluster.fetch_offsets(only(cluster)) == {T0: at}


def test_offset_out_of_range_without_a_reset_raises():
    cluster = FakeLogCluster({T0: 0}, auto_offset_reset="none")
    cluster.seek(T0, 7)
    cluster.poll_records()
    for _ in range(2):
        cluster.answer_rightly(only(cluster))
        with pytest.raises(NoOffset, match=r"out of range.*t-0 at 7") as raised:
            cluster.poll_records()
        assert (raised.value.partitions, cluster.position(T0)) == ({T0: 7}, 7)
        cluster.poll_records()


def test_offset_out_of_range_after_a_seek_is_ignored():
    cluster = FakeLogCluster({T0: 0}, auto_offset_reset="none")
    cluster.logs[T0].add(5)
    cluster.seek(T0, 70)
    cluster.poll_records()
    cluster.seek(T0, 2)
    cluster.answer_rightly(only(cluster))
    assert (cluster.poll_records(), cluster.position(T0)) == ([], 2)


def test_lost_connection_is_retried_after_a_backoff():
    """The fetch is retried after a backoff, without an error to the user."""
    cluster = fetching({T0: 0, T1: 1})
    cluster.hang_up(0)
    assert cluster.poll_records() == []
    assert [request.node for request in cluster.fetches] == [1]
    cluster.wait(0.5)
    cluster.poll_records()
    assert sorted(request.node for request in cluster.fetches) == [0, 1]
    cluster.answer_all()
    assert len(cluster.poll_records()) == 20


def test_next_deadline_is_the_first_backoff_that_ends():
    fetcher = FakeLogCluster({T0: 0}).fetcher
    fetcher._node_retry_at[0] = 0.1
    fetcher._partition_backoff[T0] = 0.5, 1
    assert fetcher.next_deadline() == 0.1
    fetcher._node_retry_at[0] = 0.7
    assert fetcher.next_deadline() == 0.5
    fetcher._partition_backoff[T1] = 0.6, 1
    assert fetcher.next_deadline() == 0.5


def test_fetch_times_out():
    cluster = fetching(request_timeout=2.0, fetch_max_wait=0.5)
    cluster.wait(2.4)
    assert len(cluster.fetches) == 1
    cluster.wait(1.0)
    cluster.poll_records()
    (request,) = cluster.fetches
    assert len(cluster.of("Fetch")) == 2
    cluster.answer_rightly(request)
    assert len(cluster.poll_records()) == 10


def test_fetches_go_to_the_new_leader():
    cluster = fetching({T0: 0, T1: 1})
    cluster.leaders[T0] = 1
    request = next(each for each in cluster.fetches if each.node == 0)
    cluster.answer(request, failing(cluster, request, E.NOT_LEADER_OR_FOLLOWER))
    cluster.poll_records()
    cluster.answer_all()
    assert [record.partition for record in cluster.poll_records()] == [1] * 10
    cluster.wait(0.3)
    cluster.poll_records()
    cluster.answer_all()
    cluster.poll_records()
    cluster.answer_all()
    assert [(record.partition, record.offset) for record in cluster.poll_records()] == [(0, n) for n in range(10)]
    assert {request.node for request in cluster.of("Fetch")[2:]} == {1}


@pytest.mark.parametrize("version", [12, 15, 18])
def test_an_answer_that_names_the_new_leader(version):
    """KIP-951: the consumer fetches from the new leader at once, without a Metadata request."""
    cluster = fetching({T0: 0, T1: 1}, served={"Fetch": (4, version)})
    request = next(each for each in cluster.fetches if each.node == 0)
    other = next(each for each in cluster.fetches if each.node == 1)
    before = len(cluster.of("Metadata"))
    cluster.leaders[T0], cluster.leader_epochs[T0] = 1, 1
    cluster.answer_rightly(other)
    leader = FetchedPartition.Leader(leader_id=1, leader_epoch=1)
    cluster.answer(request, failing(cluster, request, E.NOT_LEADER_OR_FOLLOWER, current_leader=leader))
    assert [record.partition for record in cluster.poll_records()] == [1] * 10
    assert [(each.node, cluster.fetch_offsets(each)) for each in cluster.fetches] == [(1, {T0: 0, T1: 10})]
    assert only(cluster).body.topics[0].partitions[0].current_leader_epoch == 1
    assert len(cluster.of("Metadata")) == before


@pytest.mark.parametrize(("leader_id", "epoch"), [(1, 0), (1, -1), (9, 5), (-1, 7)])
def test_an_answer_that_names_no_newer_leader(leader_id, epoch):
    """If the response has an old epoch or an unknown node, the consumer refreshes its metadata."""
    cluster = fetching({T0: 0, T1: 1})
    request = next(each for each in cluster.fetches if each.node == 0)
    before = len(cluster.of("Metadata"))
    leader = FetchedPartition.Leader(leader_id=leader_id, leader_epoch=epoch)
    cluster.answer(request, failing(cluster, request, E.NOT_LEADER_OR_FOLLOWER, current_leader=leader))
    cluster.poll_records()
    assert cluster.engine.metadata.leader(T0).node_id == 0
    cluster.wait(0.3)
    assert len(cluster.of("Metadata")) == before + 1


# A nearer replica (KIP-392)


def with_preferred_replica(cluster: FakeLogCluster) -> None:
    """Answer the fetch with node 1 as the preferred replica."""
    request = only(cluster)
    cluster.answer(request, fetch_with(cluster, request, preferred_read_replica=1, records=b""))
    assert cluster.poll_records() == []


def test_fetches_go_to_the_preferred_replica():
    cluster = fetching({T0: 0, T1: 1}, metadata_max_age=60.0, client_rack="r1")
    cluster.engine.assign([T0])
    cluster.answer_all()
    cluster.poll_records()
    cluster.seek(T0, 0)
    cluster.answer_all()
    cluster.poll_records()
    with_preferred_replica(cluster)
    request = only(cluster)
    assert (request.node, request.body.rack_id) == (1, "r1")
    cluster.answer_rightly(request)
    assert offsets(cluster.poll_records()) == list(range(10))
    assert only(cluster).node == 1
    cluster.answer_rightly(only(cluster))
    cluster.wait(60.0)
    cluster.poll_records()
    assert only(cluster).node == 0, "after a while the leader is asked again"


def reads_from_follower() -> FakeLogCluster:
    cluster = FakeLogCluster({T0: 0})
    cluster.nodes = [0, 1]
    cluster.logs[T0].add(10)
    cluster.poll_records()
    with_preferred_replica(cluster)
    assert only(cluster).node == 1
    return cluster


def test_offset_out_of_range_of_a_follower_asks_the_leader():
    """The consumer fetches from the leader next, and does not reset the position."""
    cluster = reads_from_follower()
    request = only(cluster)
    cluster.answer(request, failing(cluster, request, E.OFFSET_OUT_OF_RANGE))
    assert (cluster.poll_records(), cluster.position(T0)) == ([], 0)
    assert only(cluster).node == 0


@pytest.mark.parametrize("code", [E.NOT_LEADER_OR_FOLLOWER, E.REPLICA_NOT_AVAILABLE, E.FENCED_LEADER_EPOCH])
def test_former_follower_is_no_longer_fetched(code):
    cluster = reads_from_follower()
    request = only(cluster)
    cluster.answer(request, failing(cluster, request, code))
    cluster.poll_records()
    cluster.wait(0.3)
    cluster.poll_records()
    assert only(cluster).node == 0


def test_unreachable_follower_is_replaced_by_the_leader():
    cluster = reads_from_follower()
    cluster.hang_up(1)
    cluster.poll_records()
    assert only(cluster).node == 0


def test_unknown_preferred_replica_refreshes_metadata():
    cluster = fetching()
    request, before = only(cluster), len(cluster.of("Metadata"))
    cluster.answer(request, fetch_with(cluster, request, preferred_read_replica=5, records=b""))
    cluster.poll_records()
    assert only(cluster).node == 0
    cluster.wait(0.3)
    assert len(cluster.of("Metadata")) > before


def test_records_with_a_preferred_replica_are_returned():
    cluster = fetching()
    request = only(cluster)
    cluster.answer(request, fetch_with(cluster, request, preferred_read_replica=0))
    assert offsets(cluster.poll_records()) == list(range(10))


def test_fetch_from_a_follower_has_no_fetched_epoch():
    """The follower may not know the epoch yet, and would return OFFSET_OUT_OF_RANGE."""
    cluster = reads_from_follower()
    cluster.answer_rightly(only(cluster))
    cluster.poll_records()
    assert only(cluster).body.topics == [] or only(cluster).body.topics[0].partitions[0].last_fetched_epoch == -1
    assert cluster.positions.of(T0).epoch == 0


# Epochs and truncation (KIP-320)


def twice(cluster: FakeLogCluster) -> None:
    cluster.poll_records()
    cluster.poll_records()


def move_leader(cluster: FakeLogCluster, epoch: int, **how: Any) -> None:
    """Move the leader and refresh the metadata."""
    cluster.leader_epochs[T0] = cluster.logs[T0].epoch = epoch
    cluster.engine.metadata.refresh()
    cluster.settle()


def read_all(cluster: FakeLogCluster) -> list[int]:
    cluster.answer_rightly(only(cluster))
    return offsets(cluster.poll_records())


def test_new_leader_gets_offset_for_leader_epoch():
    cluster = fetching()
    cluster.hold("OffsetForLeaderEpoch")
    read_all(cluster)
    cluster.answer_rightly(only(cluster))
    cluster.poll_records()
    fetch = only(cluster)
    move_leader(cluster, 1)
    cluster.answer_rightly(fetch)
    cluster.poll_records()
    assert cluster.fetches == [], "no fetch before the response"
    (request,) = cluster.pending()
    (line,) = request.body.topics[0].partitions
    assert (line.leader_epoch, line.current_leader_epoch, request.body.replica_id) == (0, 1, -1)
    cluster.answer_rightly(request)
    cluster.poll_records()
    (line,) = only(cluster).body.topics[0].partitions
    assert (line.fetch_offset, line.current_leader_epoch, line.last_fetched_epoch) == (10, 1, 0)


def test_buffered_records_are_dropped_while_epochs_are_validated():
    """The new leader's log may lack the buffered records. The position does not move during the validation."""
    cluster = fetching()
    cluster.hold("OffsetForLeaderEpoch")
    cluster.answer_rightly(only(cluster))
    assert offsets(cluster.poll_records(3)) == [0, 1, 2]
    move_leader(cluster, 1)
    assert (cluster.poll_records(), cluster.position(T0)) == ([], 3)
    (request,) = cluster.pending()
    cluster.answer_rightly(request)
    cluster.poll_records()
    assert read_all(cluster) == [3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_truncated_log_moves_the_position_to_its_end(policy):
    """If the new leader's log ends before the position, the consumer continues at its end and reads other records."""
    cluster = fetching()
    read_all(cluster)
    log = cluster.logs[T0]
    log.batches, log.epoch = log.batches[:1], 1
    log.add(1)
    late = only(cluster)
    cluster.answer(late, cluster.fetch_one(late, T0, high_watermark=10))
    move_leader(cluster, 1)
    assert cluster.poll_records() == []
    assert (cluster.position(T0), cluster.positions.of(T0).epoch) == (5, 0)
    assert read_all(cluster) == [5]
    assert cluster.positions.of(T0).epoch == 1


def test_truncated_log_without_a_reset_raises():
    """Each poll raises the error until the user seeks. No record is read before that."""
    cluster = FakeLogCluster({T0: 0}, auto_offset_reset="none")
    log = cluster.logs[T0]
    log.add(5)
    log.add(5)
    cluster.seek(T0, 0)
    cluster.poll_records()
    assert read_all(cluster) == list(range(10))
    log.batches, log.epoch = log.batches[:1], 1
    log.add(20)
    cluster.answer(only(cluster), FetchResponse(error_code=E.FETCH_SESSION_ID_NOT_FOUND))
    move_leader(cluster, 1)
    for _ in range(3):
        request = len(cluster.of("OffsetForLeaderEpoch"))
        cluster.wait(1.0)
        with pytest.raises(LogTruncated, match="the position is 10, the log ends at 5") as raised:
            twice(cluster)
        assert (raised.value.end, raised.value.position, cluster.position(T0)) == (5, 10, 10)
        assert len(cluster.of("OffsetForLeaderEpoch")) <= request + 1, "one request for each error"
    assert cluster.fetches == []
    cluster.seek(T0, 5)
    cluster.poll_records()
    assert read_all(cluster) == list(range(5, 25))


def test_unknown_epoch_applies_auto_offset_reset():
    """If the log has none of the records that were read, auto_offset_reset determines the new position."""
    cluster = fetching(auto_offset_reset="earliest")
    read_all(cluster)
    cluster.positions.of(T0).epoch = 7
    late = only(cluster)
    cluster.answer(late, cluster.fetch_one(late, T0, high_watermark=10))
    cluster.leader_epochs[T0] = 8
    cluster.engine.metadata.refresh()
    cluster.poll_records()
    assert cluster.of("OffsetForLeaderEpoch")[0].body.topics[0].partitions[0].leader_epoch == 7
    cluster.poll_records()
    assert cluster.position(T0) == 0
    assert read_all(cluster) == list(range(10))


def test_broker_without_offset_for_leader_epoch_v3():
    cluster = fetching(served={"OffsetForLeaderEpoch": (0, 2)})
    read_all(cluster)
    move_leader(cluster, 1)
    cluster.answer_rightly(only(cluster))
    cluster.poll_records()
    assert cluster.of("OffsetForLeaderEpoch") == []
    assert cluster.fetch_offsets(only(cluster)) == {T0: 10}


def diverging(cluster: FakeLogCluster, epoch: int, end: int) -> None:
    request = only(cluster)
    parts = FetchedPartition.EpochEndOffset(epoch=epoch, end_offset=end)
    cluster.answer(request, cluster.fetch_one(request, T0, high_watermark=9, diverging_epoch=parts, records=b""))


def test_diverging_epoch_moves_the_position():
    cluster = fetching()
    read_all(cluster)
    cluster.positions.of(T0).epoch = 3
    diverging(cluster, 2, 6)
    cluster.poll_records()
    assert (cluster.position(T0), cluster.positions.of(T0).epoch) == (6, 2)


def test_diverging_epoch_after_the_position_is_ignored():
    """A position never moves forward past records that were not read."""
    cluster = fetching()
    read_all(cluster)
    diverging(cluster, 2, 500)
    cluster.poll_records()
    assert (cluster.position(T0), cluster.positions.of(T0).epoch) == (10, 2)


def test_diverging_epoch_without_a_reset_raises():
    cluster = FakeLogCluster({T0: 0}, auto_offset_reset="none")
    cluster.logs[T0].add(10)
    cluster.seek(T0, 0)
    cluster.poll_records()
    read_all(cluster)
    diverging(cluster, 0, 4)
    cluster.poll_records()
    with pytest.raises(LogTruncated, match="ends at 4"):
        cluster.poll_records()
    assert cluster.position(T0) == 10


# Sessions (KIP-227)


def test_incremental_fetch_lists_only_changes():
    cluster = fetching({T0: 0, T1: 0, T2: 0}, records=0)
    first = only(cluster)
    assert (first.body.session_id, first.body.session_epoch, len(cluster.fetch_offsets(first))) == (0, 0, 3)
    cluster.answer_rightly(first)
    cluster.poll_records()
    second = only(cluster)
    assert (second.body.session_id, second.body.session_epoch, cluster.fetch_offsets(second)) == (100, 1, {})
    cluster.logs[T1].add(4)
    cluster.answer_rightly(second)
    assert len(cluster.poll_records()) == 4
    third = only(cluster)
    assert (third.body.session_epoch, cluster.fetch_offsets(third)) == (2, {T1: 4})
    cluster.positions.of(T2).paused = True
    cluster.answer_rightly(third)
    cluster.poll_records()
    fourth = only(cluster)
    (gone,) = fourth.body.forgotten_topics_data
    assert (fourth.body.session_epoch, cluster.fetch_offsets(fourth), gone.partitions) == (3, {}, [2])


@pytest.mark.parametrize(
    "code", [E.FETCH_SESSION_ID_NOT_FOUND, E.INVALID_FETCH_SESSION_EPOCH, E.FETCH_SESSION_TOPIC_ID_ERROR]
)
def test_failed_session_is_replaced_by_a_full_fetch(code):
    """The next request is full, and closes the session that the broker may still have."""
    cluster = fetching({T0: 0, T1: 0}, records=0)
    cluster.answer_rightly(only(cluster))
    cluster.poll_records()
    cluster.answer(only(cluster), FetchResponse(error_code=code))
    assert cluster.poll_records() == []
    cluster.wait(0.3)
    cluster.poll_records()
    body = only(cluster).body
    assert (body.session_epoch, cluster.fetch_offsets(only(cluster))) == (0, {T0: 0, T1: 0})
    assert body.session_id == (0 if code == E.FETCH_SESSION_ID_NOT_FOUND else 100)
    cluster.logs[T0].add(3)
    cluster.answer_rightly(only(cluster))
    assert len(cluster.poll_records()) == 3


def test_broker_without_sessions_gets_full_fetches():
    cluster = fetching({T0: 0, T1: 0}, sessions=False)
    for _ in range(3):
        body = only(cluster).body
        assert (body.session_id, body.session_epoch, len(cluster.fetch_offsets(only(cluster)))) == (0, 0, 2)
        cluster.answer_rightly(only(cluster))
        cluster.poll_records()


def test_consumer_without_fetch_sessions():
    cluster = fetching({T0: 0}, fetch_sessions=False)
    for _ in range(2):
        assert (only(cluster).body.session_id, only(cluster).body.session_epoch) == (0, -1)
        cluster.answer_rightly(only(cluster))
        cluster.poll_records()


def test_closing_the_consumer_closes_its_sessions():
    cluster = fetching({T0: 0, T1: 1}, records=0)
    cluster.answer_all()
    cluster.fetcher.close()
    cluster.settle()
    endings = cluster.fetches
    assert sorted((a.node, a.body.session_id, a.body.session_epoch, a.body.topics) for a in endings) == [
        (0, 100, -1, []),
        (1, 101, -1, []),
    ]


# Topics that were deleted and created again


def test_recreated_topic_is_forgotten_and_fetched_by_new_id():
    """The topic has a new id: old responses are dropped, the session forgets the old id, and reading continues."""
    cluster = fetching()
    read_all(cluster)
    old = cluster.topic_id("t")
    recreate_topic(cluster, 3)
    assert (cluster.poll_records(), cluster.position(T0)) == ([], 0), "auto_offset_reset decides"
    request = only(cluster)
    assert request.body.topics[0].topic_id == UUID(int=99)
    assert [gone.topic_id for gone in request.body.forgotten_topics_data] == [old]
    assert read_all(cluster) == [0, 1, 2]


def read_ten_records(policy: str) -> FakeLogCluster:
    """Read ten records. Return a cluster with the next Fetch in flight."""
    cluster = FakeLogCluster({T0: 0}, auto_offset_reset=policy)
    cluster.logs[T0].add(10)
    cluster.seek(T0, 0)
    cluster.poll_records()
    assert read_all(cluster) == list(range(10))
    return cluster


def recreate_topic(cluster: FakeLogCluster, records: int) -> None:
    """Replace the topic by another one of the same name before the consumer learns of it."""
    old = cluster.topic_id("t")
    for late in cluster.fetches:
        cluster.fetch(late)  # updates the broker's fetch session; the response is discarded
    cluster.topic_ids["t"], cluster.logs[T0] = UUID(int=99), Log()
    cluster.logs[T0].add(records)
    cluster.engine.metadata.refresh()
    cluster.settle()
    for late in cluster.fetches:
        cluster.answer(late, failing_by_id(old, E.UNKNOWN_TOPIC_ID))


@pytest.mark.parametrize(("policy", "at"), [("earliest", 0), ("latest", 30)])
def test_recreated_topic_with_a_longer_log_is_reset(policy, at):
    """The old position would be inside the new log, after records that were never read."""
    cluster = read_ten_records(policy)
    recreate_topic(cluster, 30)
    assert (cluster.poll_records(), cluster.position(T0)) == ([], at)
    cluster.logs[T0].add(5)
    assert read_all(cluster) == list(range(at, 35))


def test_buffered_records_of_a_deleted_topic_are_dropped():
    cluster = fetching()
    cluster.answer_all()
    assert offsets(cluster.poll_records(most=3)) == [0, 1, 2]
    recreate_topic(cluster, 30)
    assert cluster.poll_records() == []
    assert read_all(cluster) == list(range(30))


def test_recreated_topic_without_a_reset_raises():
    cluster = read_ten_records("none")
    recreate_topic(cluster, 30)
    for _ in range(2):
        with pytest.raises(NoOffset, match="the topic was deleted and created again: t-0 at 10"):
            cluster.poll_records()
    cluster.seek(T0, 4)
    cluster.poll_records()
    assert read_all(cluster) == list(range(4, 30))


def test_topic_id_that_is_known_later_changes_nothing():
    cluster = fetching(ids=False)
    cluster.answer_all()
    assert len(cluster.poll_records()) == 10
    cluster.topic_ids["t"] = UUID(int=7)
    cluster.engine.metadata.refresh()
    cluster.settle()
    assert (cluster.poll_records(), cluster.position(T0)) == ([], 10)


def failing_by_id(topic_id: UUID, code: int) -> FetchResponse:
    line = FetchedPartition(partition_index=0, error_code=code, high_watermark=-1)
    return FetchResponse(session_id=100, responses=[FetchResponse.Topic(topic_id=topic_id, partitions=[line])])


def test_records_of_a_recreated_topic_are_not_mixed_up():
    cluster = fetching()
    request = only(cluster)
    cluster.topic_ids["t"] = UUID(int=99)
    cluster.engine.metadata.refresh()
    cluster.settle()
    answer = cluster.fetch(request)
    answer.responses = [
        FetchResponse.Topic(
            topic_id=UUID(int=99),
            partitions=[cluster.fetch_partition(T0, request.body.topics[0].partitions[0], request)],
        )
    ]
    cluster.answer(request, answer)
    assert (cluster.poll_records(), cluster.position(T0), cluster.fetcher.dropped) == ([], 0, 1)


# Backoffs, and partitions that are no longer fetched


def test_backoff_of_a_partition_grows_until_records_arrive():
    cluster = fetching()
    fetcher, delays = cluster.fetcher, []
    for _ in range(3):
        fetcher._back_off_partition(T0)
        delays.append(round(fetcher.next_deadline() - cluster.now, 3))
    assert delays == [0.1, 0.2, 0.4]
    cluster.answer_rightly(only(cluster))
    assert len(cluster.poll_records()) == 10
    assert fetcher.next_deadline() == float("inf")


def test_first_node_whose_backoff_ends_is_the_deadline():
    fetcher = FakeLogCluster({T0: 0}).fetcher
    fetcher._node_retry_at.update({0: 0.3, 1: 0.1, 2: 0.0})
    assert fetcher.next_deadline() == 0.1


def test_dropped_partitions_lose_their_buffered_records():
    cluster = fetching({T0: 0, T1: 0, T2: 0})
    cluster.answer_rightly(only(cluster))
    assert len(cluster.poll_records(1)) == 1
    assert cluster.fetcher.buffered == {T0, T1, T2}
    for partition in (T1, T2):
        cluster.fetcher._back_off_partition(partition)
    cluster.fetcher.drop_partitions([T1])
    assert cluster.fetcher.buffered == {T0, T2}
    assert list(cluster.fetcher._partition_backoff) == [T2]
    cluster.fetcher.drop_partitions([T0])
    assert cluster.fetcher.buffered == {T2}


def test_other_leaders_are_fetched_from_while_one_is_down():
    cluster = fetching({T0: 0, T1: 1}, records=2, batch=1)
    cluster.down.add(0)
    cluster.hang_up(0)
    cluster.wait(0.5)
    cluster.answer_rightly(only(cluster))
    assert [record.partition for record in cluster.poll_records()] == [1, 1]
    assert [request.node for request in cluster.fetches] == [1]


@pytest.mark.parametrize(("epoch", "end"), [(0, -1), (-1, 4), (-1, 0)])
def test_part_of_a_diverging_epoch_is_enough(epoch, end):
    cluster = fetching()
    request = only(cluster)
    position = FetchedPartition.EpochEndOffset(epoch=epoch, end_offset=end)
    cluster.answer(request, fetch_with(cluster, request, diverging_epoch=position))
    assert cluster.poll_records() == []


def test_response_with_an_unknown_topic_id_is_dropped():
    response = FetchResponse(
        responses=[FetchResponse.Topic(topic_id=UUID(int=77), partitions=[FetchedPartition(partition_index=0)])]
    )
    assert Fetcher._response_partitions(response, 13, {}) is None
    response.responses[0].topic = "t"
    expected = [(T0, response.responses[0].partitions[0])]
    assert Fetcher._response_partitions(response, 12, {}) == expected


def test_backoff_of_a_node_grows_until_it_responds():
    cluster = fetching()
    fetcher, delays = cluster.fetcher, []
    for _ in range(3):
        fetcher._back_off_node(0)
        delays.append(round(fetcher.next_deadline() - cluster.now, 3))
    cluster.answer_rightly(only(cluster))
    fetcher._back_off_node(0)
    delays.append(round(fetcher.next_deadline() - cluster.now, 3))
    assert delays == [0.1, 0.2, 0.4, 0.1]


def test_node_is_not_fetched_at_once_after_a_dropped_response():
    cluster = fetching()
    request = only(cluster)
    cluster.answer(request, FetchResponse(session_id=3))
    assert (cluster.poll_records(), cluster.fetches, cluster.fetcher.dropped) == ([], [], 1)
    assert cluster.fetcher.next_deadline() == pytest.approx(cluster.now + 0.1)
    cluster.wait(0.1)
    cluster.poll_records()
    assert only(cluster).body.session_epoch == 0


def test_fatal_error_of_a_validation_is_raised_by_each_poll():
    """No record is fetched, because the new leader may have another log."""
    cluster = fetching()
    read_all(cluster)
    cluster.answer_rightly(only(cluster))
    cluster.hold("OffsetForLeaderEpoch")
    move_leader(cluster, 1)
    for _ in range(2):
        cluster.poll_records()
        (request,) = cluster.pending("OffsetForLeaderEpoch")
        answer = cluster.offset_for_leader_epoch(request)
        answer.topics[0].partitions[0].error_code = E.TOPIC_AUTHORIZATION_FAILED
        cluster.answer(request, answer)
        with pytest.raises(AuthorizationFailed, match="OffsetForLeaderEpoch of t-0 failed"):
            cluster.poll_records()
    cluster.poll_records()
    (request,) = cluster.pending("OffsetForLeaderEpoch")
    cluster.answer_rightly(request)
    cluster.poll_records()
    assert cluster.fetch_offsets(only(cluster)) == {T0: 10}


def test_validated_partition_does_not_wait_for_others():
    cluster = fetching({T0: 0, T1: 1})
    read_and_hold_validations(cluster)
    for partition in (T0, T1):
        cluster.leader_epochs[partition] = cluster.logs[partition].epoch = 1
    cluster.engine.metadata.refresh()
    cluster.poll_records()
    first, second = cluster.pending("OffsetForLeaderEpoch")
    assert cluster.fetches == []
    cluster.answer_rightly(first)
    cluster.poll_records()
    (fetch,) = cluster.fetches
    assert cluster.fetch_offsets(fetch) == {T0: 10}
    cluster.answer_rightly(second)
    cluster.poll_records()
    assert len(cluster.fetches) == 2


def test_unreachable_leader_refreshes_metadata_after_a_backoff():
    cluster = FakeLogCluster({T0: 0})
    cluster.seek(T0, 0)
    cluster.settle()
    cluster.engine.network.can_send = lambda _: False
    assert cluster.fetcher.send_fetches() == 0
    assert cluster.engine.metadata.next_deadline() == pytest.approx(cluster.now + 0.1)


def test_node_is_not_fetched_at_once_after_an_error():
    """This covers errors of the connection and of the whole response. An unknown session is replaced at once."""
    for code in (None, E.FETCH_SESSION_TOPIC_ID_ERROR, E.UNKNOWN_SERVER_ERROR):
        cluster = fetching()
        metadata = cluster.count("Metadata")
        if code is None:
            only(cluster).link.closed()
            cluster.settle()
        else:
            cluster.answer(only(cluster), FetchResponse(error_code=code))
        assert cluster.count("Metadata") == metadata + 1
        requests = cluster.count("Fetch")
        assert cluster.fetcher.next_deadline() == pytest.approx(cluster.now + 0.1)
        cluster.poll_records()
        assert cluster.count("Fetch") == requests
    unknown = fetching()
    unknown.answer(only(unknown), FetchResponse(error_code=E.FETCH_SESSION_ID_NOT_FOUND))
    unknown.poll_records()
    assert only(unknown).at == unknown.now


def test_unknown_partition_refreshes_metadata_after_a_backoff():
    cluster = FakeLogCluster({T0: 0})
    cluster.settle()
    cluster.engine.assign([("t", 9)])
    cluster.settle()
    cluster.seek(("t", 9), 0)
    cluster.engine.metadata._refresh_at = cluster.now + 300.0
    assert cluster.fetcher.send_fetches() == 0
    assert cluster.engine.metadata.next_deadline() == pytest.approx(cluster.now + 0.1)


def test_partition_without_a_leader_does_not_delay_others():
    cluster = FakeLogCluster({T0: 0, T1: 0})
    cluster.leaders[T0] = -1
    cluster.settle()
    for partition in (T0, T1):
        cluster.seek(partition, 0)
    cluster.settle()
    cluster.poll_records()
    assert cluster.fetch_offsets(only(cluster)) == {T1: 0}


def test_preferred_replica_is_used_until_its_time_is_over():
    cluster = FakeLogCluster({T0: 0, T1: 1})
    cluster.hold("ListOffsets")
    cluster.engine.assign([T0])
    cluster.settle()
    cluster.seek(T0, 0)
    cluster.settle()
    position = cluster.positions.of(T0)
    position.replica = 1, cluster.now
    cluster.poll_records()
    assert (only(cluster).node, position.replica) == (0, None), "the time is over"


def test_expired_replica_does_not_refresh_metadata():
    cluster = FakeLogCluster({T0: 0})
    cluster.settle()
    cluster.seek(T0, 0)
    cluster.settle()
    for until, expected in ((0.0, 300.0), (9.0, 0.1)):
        cluster.engine.metadata._refresh_at = 300.0
        cluster.positions.of(T0).replica = 7, until
        cluster.fetcher._in_flight.clear()
        cluster.fetcher.send_fetches()
        assert cluster.positions.of(T0).replica is None
        assert cluster.engine.metadata.next_deadline() == pytest.approx(expected)


def test_unreachable_leader_does_not_delay_others():
    cluster = FakeLogCluster({T0: 0, T1: 1})
    cluster.settle()
    for partition in (T0, T1):
        cluster.seek(partition, 0)
    cluster.settle()
    network = cluster.engine.network
    network.can_send = lambda node: node.id != 0
    assert cluster.fetcher.send_fetches() == 1
    assert list(cluster.fetcher._in_flight) == [1]


def test_dropped_response_refreshes_metadata():
    cluster = fetching()
    requests = cluster.count("Metadata")
    cluster.answer(only(cluster), FetchResponse(session_id=3))
    assert cluster.count("Metadata") == requests + 1


def test_position_is_validated_before_a_named_leader_is_fetched():
    cluster = fetching({T0: 0, T1: 1})
    for request in cluster.fetches:
        cluster.answer_rightly(request)
    cluster.poll_records()
    cluster.hold("OffsetForLeaderEpoch")
    request = next(each for each in cluster.fetches if each.node == 0)
    leader = FetchedPartition.Leader(leader_id=1, leader_epoch=1)
    cluster.answer(request, cluster.fetch_one(request, T0, error_code=E.NOT_LEADER_OR_FOLLOWER, current_leader=leader))
    cluster.engine.collect_records(1)
    assert cluster.engine.next_deadline() == cluster.now
    cluster.settle()
    assert cluster.request("OffsetForLeaderEpoch").node == 1


def held_validation(cluster: FakeLogCluster) -> tuple[Any, Any]:
    """Move the leader after all records were read. Return the pending request that validates the position, and its
    correct response, which is not sent.
    """
    read_all(cluster)
    cluster.answer_rightly(only(cluster))
    cluster.hold("OffsetForLeaderEpoch")
    move_leader(cluster, 1)
    cluster.poll_records()
    request = cluster.request("OffsetForLeaderEpoch")
    return request, cluster.offset_for_leader_epoch(request)


@pytest.mark.parametrize("why", ["failed", "truncated"])
def test_leader_without_an_epoch_is_not_asked_again(why):
    """Metadata responses before v7 have no leader epochs."""
    cluster = FakeLogCluster({T0: 0}, auto_offset_reset="none")
    cluster.logs[T0].add(10)
    cluster.seek(T0, 0)
    cluster.poll_records()
    request, answer = held_validation(cluster)
    (line,) = answer.topics[0].partitions
    if why == "truncated":
        line.end_offset = 5
    else:
        line.error_code = E.TOPIC_AUTHORIZATION_FAILED
    cluster.engine.metadata.topics["t"].partitions[0].epoch = -1
    cluster.answer(request, answer)
    with pytest.raises((LogTruncated, AuthorizationFailed)):
        cluster.poll_records()
    cluster.poll_records()
    assert cluster.pending("OffsetForLeaderEpoch") == []


def test_validation_from_before_a_seek_is_ignored():
    cluster = fetching({T0: 0, T1: 1, T2: 2})
    cluster.engine.assign([T0])
    cluster.hold("OffsetForLeaderEpoch")
    for request in cluster.fetches:
        cluster.answer_rightly(request)
    assert len(cluster.poll_records()) == 10
    cluster.leaders[T0] = 1
    move_leader(cluster, 1)
    cluster.poll_records()
    early = cluster.request("OffsetForLeaderEpoch")
    cluster.seek(T0, 3)
    cluster.leaders[T0] = 2
    move_leader(cluster, 2)
    cluster.poll_records()
    cluster.answer_rightly(next(each for each in cluster.fetches if each.node == 2))
    assert offsets(cluster.poll_records(4)) == [3, 4, 5, 6]
    cluster.leaders[T0] = 0
    move_leader(cluster, 3)
    assert len(cluster.pending("OffsetForLeaderEpoch")) == 2
    answer = cluster.offset_for_leader_epoch(early)
    answer.topics[0].partitions[0].end_offset = 5
    cluster.answer(early, answer)
    assert cluster.position(T0) == 7
    assert cluster.positions.of(T0).validating


def test_one_validation_at_a_time():
    cluster = fetching({T0: 0, T1: 1, T2: 2})
    cluster.engine.assign([T0])
    cluster.hold("OffsetForLeaderEpoch")
    for request in cluster.fetches:
        cluster.answer_rightly(request)
    assert len(cluster.poll_records()) == 10
    cluster.leaders[T0] = 1
    move_leader(cluster, 1)
    first = cluster.request("OffsetForLeaderEpoch")
    cluster.leaders[T0] = 2
    move_leader(cluster, 2)
    assert cluster.request("OffsetForLeaderEpoch") is first
    cluster.answer_rightly(first)
    assert cluster.request("OffsetForLeaderEpoch").node == 2


def test_failure_of_a_validation_keeps_an_earlier_error():
    cluster = fetching()
    request, answer = held_validation(cluster)
    answer.topics[0].partitions[0].error_code = E.TOPIC_AUTHORIZATION_FAILED
    earlier = cluster.engine.resolver.failure = LogTruncated(T0, 5, 3)
    cluster.answer(request, answer, polling=False)
    assert cluster.engine.resolver.failure is earlier


def test_position_without_an_epoch_delays_no_other_validation():
    cluster = fetching({T0: 0, T1: 1})
    read_and_hold_validations(cluster)
    cluster.seek(T0, 3)
    cluster.leader_epochs[T1] = cluster.logs[T1].epoch = 1
    move_leader(cluster, 1)
    (topic,) = cluster.request("OffsetForLeaderEpoch").body.topics
    assert [line.partition for line in topic.partitions] == [1]


def test_position_that_is_being_reset_is_not_validated():
    cluster = fetching({T0: 0, T1: 1})
    cluster.engine.assign([T0])
    cluster.answer_all()
    assert len(cluster.poll_records()) == 10
    cluster.hold("OffsetForLeaderEpoch", "ListOffsets")
    cluster.positions.of(T0).reset_to(-1)
    cluster.leaders[T0] = 1
    move_leader(cluster, 1)
    cluster.poll_records()
    assert cluster.pending("OffsetForLeaderEpoch") == []


def test_validation_of_a_revoked_partition_is_ignored():
    cluster = FakeLogCluster({T0: 0, T1: 1}, auto_offset_reset="none")
    for partition in (T0, T1):
        cluster.logs[partition].add(10)
        cluster.seek(partition, 0)
    cluster.poll_records()
    read_and_hold_validations(cluster)
    move_leader(cluster, 1)
    request = cluster.request("OffsetForLeaderEpoch")
    answer = cluster.offset_for_leader_epoch(request)
    answer.topics[0].partitions[0].end_offset = 5
    cluster.engine.assign([T1])
    cluster.answer(request, answer)
    assert cluster.engine.resolver.failure is None
    cluster.poll_records()


@pytest.mark.parametrize(("version", "epoch"), [(11, -1), (12, 0), (13, 0)])
def test_last_fetched_epoch_is_sent_since_v12(version: int, epoch: int):
    cluster = fetching(served={"Fetch": (4, version)})
    assert read_all(cluster) == list(range(10))
    (line,) = only(cluster).body.topics[0].partitions
    assert (line.fetch_offset, line.last_fetched_epoch) == (10, epoch)


def test_truncation_found_by_a_fetch_ends_the_wait_of_a_poll():
    cluster = FakeLogCluster({T0: 0}, auto_offset_reset="none")
    cluster.logs[T0].add(10)
    cluster.seek(T0, 0)
    cluster.poll_records()
    assert read_all(cluster) == list(range(10))
    answer = cluster.fetch_one(only(cluster), T0, high_watermark=5)
    answer.responses[0].partitions[0].diverging_epoch.epoch = 0
    answer.responses[0].partitions[0].diverging_epoch.end_offset = 5
    cluster.answer(only(cluster), answer)
    assert cluster.engine.collect_records(10) == []
    assert cluster.engine.next_deadline() == cluster.now
    with pytest.raises(LogTruncated):
        cluster.poll_records()


def test_each_leader_change_is_validated():
    """A change to the leader that wrote the last record is validated too."""
    cluster = fetching({T0: 0})
    assert read_all(cluster) == list(range(10))
    cluster.answer_rightly(only(cluster))
    cluster.hold("OffsetForLeaderEpoch")
    cluster.positions.of(T0).epoch = 1
    move_leader(cluster, 1)
    (line,) = cluster.request("OffsetForLeaderEpoch").body.topics[0].partitions
    assert (line.leader_epoch, line.current_leader_epoch) == (1, 1)


def test_fetch_waits_as_long_as_fetch_max_wait():
    assert only(fetching(fetch_max_wait=40.0)).body.max_wait_ms == 40_000


def test_sought_position_in_a_recreated_topic_is_reset():
    cluster = fetching(auto_offset_reset="earliest")
    assert read_all(cluster) == list(range(10))
    cluster.seek(T0, 4)
    cluster.poll_records()
    recreate_topic(cluster, 3)
    assert (cluster.poll_records(), cluster.position(T0)) == ([], 0)


def test_consumer_without_a_group_commits_nothing():
    cluster = fetching(enable_auto_commit=True)
    assert read_all(cluster) == list(range(10))
    assert cluster.engine.auto_commit_at == float("inf")
    cluster.engine.auto_commit()
    cluster.wait(10.0, polling=True)
    assert not cluster.engine.committer.busy
    assert cluster.count("FindCoordinator") == 0


def test_only_the_failed_validation_is_repeated():
    cluster = fetching({T0: 0, T1: 1}, auto_offset_reset="earliest")
    read_and_hold_validations(cluster)
    cluster.leader_epochs[T1] = cluster.logs[T1].epoch = 1
    move_leader(cluster, 1)
    first, second = sorted(cluster.pending("OffsetForLeaderEpoch"), key=lambda request: request.node)
    cluster.answer_rightly(first)
    answer = cluster.offset_for_leader_epoch(second)
    answer.topics[0].partitions[0].error_code = E.TOPIC_AUTHORIZATION_FAILED
    cluster.answer(second, answer)
    with pytest.raises(AuthorizationFailed):
        cluster.poll_records()
    cluster.poll_records()
    assert [request.node for request in cluster.pending("OffsetForLeaderEpoch")] == [1]


@pytest.mark.parametrize(("value", "known"), [(0, 0), (-1, None)])
def test_offsets_of_a_response_are_known_from_0_on(value: int, known: int | None):
    cluster = FakeLogCluster({T0: 1})
    cluster.logs[T0].add(3)
    cluster.poll_records()
    answer = fetch_with(cluster, only(cluster), last_stable_offset=value, log_start_offset=value)
    cluster.answer(only(cluster), answer)
    cluster.poll_records()
    position = cluster.positions.of(T0)
    assert (position.last_stable_offset, position.log_start_offset) == (known, known)


def test_broker_0_can_be_the_preferred_read_replica():
    cluster = fetching({T0: 1, T1: 0})
    request = next(each for each in cluster.fetches if each.node == 1)
    cluster.answer(request, fetch_with(cluster, request, preferred_read_replica=0, records=b""))
    cluster.poll_records()
    replica = cluster.positions.of(T0).replica
    assert replica is not None
    assert replica[0] == 0


def test_fetch_needs_v4():
    cluster = FakeLogCluster({T0: 0}, served={"Fetch": (0, 3)})
    cluster.poll_records()
    with pytest.raises(UnsupportedVersion, match="Fetch: the consumer needs v4"):
        cluster.poll_records()


def test_session_is_renewed_after_a_lost_connection():
    """The next request closes the session, whose epoch at the broker is unknown, and starts a new one."""
    cluster = fetching()
    assert read_all(cluster) == list(range(10))
    assert only(cluster).body.session_epoch == 1
    session = only(cluster).body.session_id
    cluster.hang_up(0)
    cluster.wait(1.0)
    cluster.poll_records()
    assert (only(cluster).body.session_id, only(cluster).body.session_epoch) == (session, 0)


def test_partition_is_fetched_at_the_end_of_its_backoff():
    cluster = fetching()
    cluster.answer(only(cluster), fetch_with(cluster, only(cluster), records=b""))
    assert cluster.engine.collect_records(10) == []
    cluster.fetcher._partition_backoff[T0] = cluster.now + 1.0, 1
    assert (cluster.fetcher.send_fetches(), cluster.fetcher.next_deadline()) == (0, cluster.now + 1.0)
    cluster.engine.clock.now += 1.0
    assert cluster.fetcher.send_fetches() == 1


def test_leader_that_no_broker_of_the_metadata_is_waits():
    cluster = fetching({T0: 0, T1: 1})
    cluster.engine.metadata.topics["t"].partitions[0].node_id = 9
    cluster.answer_rightly(*cluster.fetches)
    before = cluster.count("Metadata")
    assert len(cluster.poll_records()) == 20
    assert [request.node for request in cluster.fetches] == [1]
    cluster.wait(0.5)
    assert cluster.count("Metadata") > before


def test_failure_of_a_fetch_keeps_an_earlier_error():
    cluster = fetching()
    earlier = LogTruncated(T0, 5, 3)
    cluster.fetcher.failure = earlier
    cluster.wait(40.0)
    assert cluster.fetcher.failure is earlier


def test_end_of_the_assignment_drops_the_buffered_records():
    cluster = fetching({T0: 0, T1: 0})
    cluster.answer_rightly(only(cluster))
    assert cluster.fetcher.buffered == {T0, T1}
    cluster.engine.assign([T1])
    assert cluster.fetcher.buffered == {T1}
    cluster.engine.unsubscribe()
    assert cluster.fetcher.buffered == set()


def test_validation_is_sent_with_the_first_advance():
    cluster = fetching()
    read_all(cluster)
    cluster.hold("OffsetForLeaderEpoch")
    cluster.leader_epochs[T0] = cluster.logs[T0].epoch = 1
    cluster.engine.metadata.update_leader(T0, 0, 1)
    cluster.engine.resolver.request_run()
    cluster.engine.advance(polling=False)
    cluster._carry_bytes()
    assert cluster.count("OffsetForLeaderEpoch") == 1


def test_closing_skips_brokers_that_are_not_connected():
    cluster = fetching({T0: 0, T1: 1}, records=0)
    cluster.answer_all()
    cluster.hang_up(0)
    calls = cluster.fetcher.close()
    cluster.settle()
    assert [(request.node, request.body.session_epoch) for request in cluster.fetches] == [(1, -1)]
    assert len(calls) == 1


def test_one_topic_without_an_id_makes_the_fetch_by_name():
    cluster = FakeLogCluster({T0: 0, ("u", 0): 0})
    cluster.topic_ids["u"] = UUID(int=0)
    cluster.poll_records()
    request = only(cluster)
    assert (request.version, sorted(topic.topic for topic in request.body.topics)) == (12, ["t", "u"])


def test_latency_is_the_time_since_the_request():
    cluster = fetching()
    cluster.wait(10.0)
    cluster.answer_rightly(only(cluster))
    cluster.poll_records()
    cluster.wait(0.25)
    cluster.answer_rightly(only(cluster))
    assert cluster.fetcher.latency == pytest.approx(0.25)


def test_empty_response_ends_the_backoff_of_a_partition():
    cluster = fetching(records=0, sessions=False)
    times = []
    for _ in range(3):
        request = cluster.fetches[0]
        cluster.answer(request, failing(cluster, request, E.NOT_LEADER_OR_FOLLOWER))
        cluster.poll_records()
        times.append(round(cluster.fetcher.next_deadline() - cluster.now, 3))
        cluster.wait(0.5)
        cluster.poll_records()
        cluster.answer_rightly(only(cluster))
        cluster.poll_records()
    assert times == [0.1] * 3


def test_broker_that_is_older_after_a_restart_gets_a_full_fetch():
    cluster = fetching({T0: 0, T1: 0}, records=0)
    cluster.answer_rightly(only(cluster))
    cluster.served["Fetch"] = (4, 6)
    cluster.hang_up(0)
    cluster.wait(1.0)
    cluster.poll_records()
    request = only(cluster)
    assert (request.version, cluster.fetch_offsets(request)) == (6, {T0: 0, T1: 0})


def test_closing_sends_nothing_without_a_session():
    cluster = fetching(sessions=False)
    cluster.answer_all()
    assert cluster.fetcher.close() == []


def test_closing_skips_brokers_that_have_left_the_cluster():
    cluster = fetching({T0: 0, T1: 1}, records=0)
    cluster.answer_all()
    cluster.nodes = [1]
    cluster.engine.metadata.refresh()
    cluster.settle()
    cluster.fetcher.close()
    cluster.settle()
    assert [(request.node, request.body.session_epoch) for request in cluster.fetches] == [(1, -1)]
