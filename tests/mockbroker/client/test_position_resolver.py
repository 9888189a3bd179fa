"""Positions of new partitions: committed offsets, else auto_offset_reset, looked up with ListOffsets."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tools.fake_logs import WALL_MS, FakeLogCluster

from kwire.errorcodes import ErrorCode as E
from kwire.messages.list_offsets import LIST_OFFSETS, ListOffsetsResponse
from kwire.messages.offset_fetch import OFFSET_FETCH, OffsetFetchResponse
from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from mockbroker.client.call import Failure, OutgoingCall
from mockbroker.client.errors import (
    AuthorizationFailed,
    BrokerError,
    ConsumerError,
    IllegalUse,
    NoOffset,
    NotAssigned,
    UnsupportedVersion,
)
from mockbroker.client.log_offsets import LogLookup, OffsetAndTimestamp
from mockbroker.client.metadata import TopicLookup
from mockbroker.client.positions import OffsetAndMetadata

T0, T1 = ("t", 0), ("t", 1)
ASKED = "OffsetFetch", "ListOffsets"


def starting(
    leaders: Any = None,
    *,
    group: str | None = "g",
    held: Any = ASKED,
    committed: Any = None,
    start: int = 2,
    **how: Any,
) -> FakeLogCluster:
    """Return a cluster whose logs have offsets 2 to 11. Requests of the APIs ``held`` stay pending."""
    cluster = FakeLogCluster({T0: 0} if leaders is None else leaders, group=group, **how)
    for log in cluster.logs.values():
        log.start = start
        log.add(10)
    cluster.committed = dict(committed or {})
    cluster.hold(*held)
    cluster.settle()
    return cluster


def twice(cluster: FakeLogCluster) -> None:
    cluster.poll_records()
    cluster.poll_records()


def only(cluster: FakeLogCluster, key: int) -> Any:
    (request,) = (each for each in cluster.pending() if each.api == key)
    return request


# Committed offsets


@pytest.mark.parametrize("version", range(11))
def test_committed_offsets_are_the_positions(version):
    """This holds in every version. Without a committed offset, auto_offset_reset determines the position."""
    cluster = starting({T0: 0, T1: 0}, committed={T0: 7}, held=(), served={"OffsetFetch": (0, version)})
    assert (cluster.position(T0), cluster.position(T1)) == (7, 2)
    (request,) = cluster.of("OffsetFetch")
    assert (request.version, request.body.require_stable) == (version, version >= 7)


def test_topics_without_ids_are_requested_by_name():
    cluster = starting(committed={T0: 7}, held=(), ids=False)
    assert (cluster.position(T0), cluster.of("OffsetFetch")[0].version) == (7, 9)


def test_nothing_is_fetched_before_a_position_is_known():
    cluster = starting(committed={T0: 7})
    cluster.poll_records()
    assert cluster.fetches == []
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    cluster.poll_records()
    assert cluster.fetch_offsets(only(cluster, "Fetch")) == {T0: 7}


RETRIABLE = [E.COORDINATOR_LOAD_IN_PROGRESS, E.UNSTABLE_OFFSET_COMMIT, E.UNKNOWN_TOPIC_ID]
COORDINATOR_MOVED = [E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR]
RAISED = [
    (E.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed),
    (E.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed),
    (E.UNKNOWN_TOPIC_OR_PARTITION, BrokerError),
    (E.INVALID_GROUP_ID, BrokerError),
    (E.UNKNOWN_SERVER_ERROR, BrokerError),
]


@pytest.mark.parametrize("version", [5, 7, 8, 10])
@pytest.mark.parametrize("of", [None, T0], ids=["of the group", "of a partition"])
@pytest.mark.parametrize("code", RETRIABLE + COORDINATOR_MOVED)
def test_retriable_offset_fetch_errors(code, of, version):
    cluster = starting({T0: 0, T1: 0}, committed={T0: 7, T1: 8}, served={"OffsetFetch": (0, version)})
    request, looked = only(cluster, "OffsetFetch"), len(cluster.of("FindCoordinator"))
    cluster.answer(request, cluster.offset_fetch(request, error=code, of=of))
    assert [each for each in cluster.pending() if each.api == "OffsetFetch"] == [], "not at once"
    cluster.wait(0.5)
    assert len(cluster.of("FindCoordinator")) - looked == (code in COORDINATOR_MOVED)
    assert cluster.position(T0) is cluster.position(T1) is None, "a response is applied as a whole"
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    assert (cluster.position(T0), cluster.position(T1)) == (7, 8)


@pytest.mark.parametrize("of", [None, T0], ids=["of the group", "of a partition"])
@pytest.mark.parametrize(("code", "error"), RAISED)
def test_fatal_offset_fetch_errors_are_raised(code, error, of):
    """Each poll raises the error once. No request is sent before the next poll."""
    cluster = starting({T0: 0, T1: 0})
    for n in range(1, 3):
        request = only(cluster, "OffsetFetch")
        cluster.answer(request, cluster.offset_fetch(request, error=code, of=of))
        cluster.wait(3.0)
        assert len(cluster.of("OffsetFetch")) == n
        with pytest.raises(error, match=code.name):
            cluster.poll_records()
        assert cluster.position(T0) is None
        assert cluster.poll_records() == []


def test_unknown_topic_id_refreshes_metadata():
    """The topic was created again, so the consumer requests metadata for its id."""
    cluster = starting(committed={T0: 7})
    request = only(cluster, "OffsetFetch")
    cluster.topic_ids["t"] = UUID(int=99)
    cluster.answer(request, cluster.offset_fetch(request, error=E.UNKNOWN_TOPIC_ID, of=("", 0)))
    cluster.wait(0.5)
    request = only(cluster, "OffsetFetch")
    assert request.body.groups[0].topics[0].topic_id == UUID(int=99)


def test_lost_coordinator_is_looked_up_again():
    cluster = starting(committed={T0: 7})
    cluster.hang_up(0)
    cluster.wait(1.0)
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    assert cluster.position(T0) == 7


@pytest.mark.parametrize("version", [7, 8, 10])
def test_incomplete_offset_fetch_response_is_retried(version):
    """If a partition is missing, or the response is about another group, the request is retried."""
    cluster = starting({T0: 0, T1: 0}, committed={T0: 7, T1: 8}, served={"OffsetFetch": (0, version)})
    request = only(cluster, "OffsetFetch")
    answer = cluster.offset_fetch(request)
    (answer.topics if version < 8 else answer.groups[0].topics)[0].partitions.pop()
    cluster.answer(request, answer)
    cluster.wait(0.5)
    assert cluster.position(T0) is None
    request = only(cluster, "OffsetFetch")
    answer = OffsetFetchResponse() if version < 8 else cluster.offset_fetch(request)
    for group in answer.groups:
        group.group_id = "another"
    cluster.answer(request, answer)
    cluster.wait(0.5)
    assert cluster.position(T0) is None
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    assert (cluster.position(T0), cluster.position(T1)) == (7, 8)


def test_seek_during_offset_fetch():
    cluster = starting({T0: 0, T1: 0}, committed={T0: 7, T1: 8})
    cluster.seek(T0, 4)
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    assert (cluster.position(T0), cluster.position(T1)) == (4, 8)


def test_revocation_during_offset_fetch():
    """If the partition was assigned again, the response to the earlier request does not apply."""
    cluster = starting(committed={T0: 7})
    late = only(cluster, "OffsetFetch")
    stale = cluster.offset_fetch(late)
    cluster.positions.assign([])
    cluster.settle()
    cluster.positions.assign([T0])
    cluster.committed[T0] = 9
    cluster.answer(late, stale)
    cluster.wait(0.2)
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    assert cluster.position(T0) == 9


def test_partitions_assigned_during_offset_fetch():
    cluster = starting({T0: 0, T1: 0}, assign=False, committed={T0: 7, T1: 8})
    cluster.engine.assign([T0])
    cluster.settle()
    cluster.engine.assign([T0, T1])
    cluster.settle()
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    assert (cluster.position(T0), cluster.position(T1)) == (7, None)
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    assert cluster.position(T1) == 8


# auto_offset_reset


@pytest.mark.parametrize(
    ("policy", "at"),
    [
        ("earliest", 2),
        ("latest", 12),
        (timedelta(milliseconds=-7), 7),
        (timedelta(days=1), 2),
        (timedelta(days=-1), 12),
        (timedelta.max, 2),
    ],
)
@pytest.mark.parametrize("group", [None, "g"])
def test_auto_offset_reset(policy, at, group):
    """A duration is an age: the position is the first record that is not older, or else the end of the log."""
    cluster = starting(group=group, held=(), auto_offset_reset=policy)
    assert cluster.position(T0) == at


@pytest.mark.parametrize("group", [None, "g"])
def test_no_committed_offset_without_a_reset_raises(group):
    """Each poll raises the error and sends one request to the coordinator."""
    cluster = starting(group=group, held=(), auto_offset_reset="none")
    for n in range(1, 3):
        cluster.wait(5.0)
        assert len(cluster.of("OffsetFetch")) == (n if group else 0)
        with pytest.raises(NoOffset, match="no committed offset: t-0") as raised:
            twice(cluster)
        assert raised.value.partitions == {T0: None}
    if group:  # another member has committed an offset in the meantime
        cluster.committed[T0] = 5
    else:
        cluster.seek(T0, 5)
    cluster.poll_records()
    assert cluster.position(T0) == 5


def test_read_committed_resets_to_the_last_stable_offset():
    cluster = FakeLogCluster({T0: 0}, auto_offset_reset="latest", isolation_level="read_committed")
    cluster.logs[T0].add(9)
    cluster.logs[T0].stable = 4
    cluster.settle()
    assert cluster.position(T0) == 4
    assert cluster.of("ListOffsets")[0].body.isolation_level == 1


# ListOffsets


@pytest.mark.parametrize("version", range(12))
def test_list_offsets_by_version(version):
    cluster = starting(held=(), group=None, served={"ListOffsets": (0, version)})
    assert cluster.position(T0) == 2
    assert cluster.of("ListOffsets")[0].version == version
    request = cluster.engine.look_up_log({T0: WALL_MS + 5})
    cluster.settle()
    if version == 0:
        assert isinstance(request.error, UnsupportedVersion), "v0 cannot look up timestamps"
    else:
        at = request.result[T0]
        assert (at.offset, at.timestamp, at.leader_epoch) == (5, WALL_MS + 5, 0 if version >= 4 else -1)


def test_read_committed_needs_list_offsets_v2():
    cluster = starting(held=(), group=None, isolation_level="read_committed", served={"ListOffsets": (0, 1)})
    with pytest.raises(UnsupportedVersion, match="ListOffsets: the consumer needs v2"):
        cluster.poll_records()


def test_read_committed_works_with_list_offsets_v2():
    cluster = starting(held=(), group=None, isolation_level="read_committed", served={"ListOffsets": (0, 2)})
    assert cluster.position(T0) == 2
    assert [request.body.isolation_level for request in cluster.of("ListOffsets")] == [1]


def test_offsets_for_times():
    """Each leader gets one request. The result is None if no record has this or a later timestamp."""
    cluster = starting({T0: 0, T1: 1}, held=(), group=None)
    request = cluster.engine.look_up_log({T0: WALL_MS + 6, T1: WALL_MS + 10**6})
    cluster.settle()
    assert request.done
    assert request.error is None
    assert (request.result[T0].offset, request.result[T1]) == (6, None)


def test_unsupported_for_message_format_means_no_offset():
    cluster = starting(group=None, held=())
    cluster.hold("ListOffsets")
    request = cluster.engine.look_up_log({T0: 5})
    cluster.settle()
    cluster.answer(only(cluster, "ListOffsets"), refusal(E.UNSUPPORTED_FOR_MESSAGE_FORMAT, T0))
    assert (request.done, request.error, request.result) == (True, None, {T0: None})


def refusal(code: int, *partitions: Any) -> ListOffsetsResponse:
    kind = ListOffsetsResponse.Topic
    lines = [kind.Partition(partition_index=n, error_code=code) for _, n in partitions]
    return ListOffsetsResponse(topics=[kind(name="t", partitions=lines)])


LEADER_AGAIN = [
    E.NOT_LEADER_OR_FOLLOWER,
    E.REPLICA_NOT_AVAILABLE,
    E.KAFKA_STORAGE_ERROR,
    E.OFFSET_NOT_AVAILABLE,
    E.LEADER_NOT_AVAILABLE,
    E.FENCED_LEADER_EPOCH,
    E.UNKNOWN_LEADER_EPOCH,
    E.UNKNOWN_TOPIC_ID,
    E.UNKNOWN_TOPIC_OR_PARTITION,
]


@pytest.mark.parametrize("code", LEADER_AGAIN)
def test_retriable_list_offsets_errors(code):
    """The consumer refreshes its metadata, then sends the request to the current leader."""
    cluster = starting({T0: 0, T1: 1}, group=None)
    first = next(request for request in cluster.pending() if request.node == 0)
    before = len(cluster.of("Metadata"))
    cluster.answer_rightly(next(request for request in cluster.pending() if request.node == 1))
    cluster.leaders[T0], cluster.leader_epochs[T0] = 1, 3
    cluster.answer(first, refusal(code, T0))
    cluster.wait(0.5)
    assert len(cluster.of("Metadata")) > before
    request = only(cluster, "ListOffsets")
    assert (request.node, request.body.topics[0].partitions[0].current_leader_epoch) == (1, 3)
    cluster.answer_rightly(request)
    assert (cluster.position(T0), cluster.position(T1)) == (2, 2)


def test_fatal_list_offsets_errors_are_raised():
    """Each poll raises the error once. The other partitions get their offsets."""
    cluster = starting({T0: 0, T1: 1}, group=None)
    cluster.answer_rightly(next(request for request in cluster.pending() if request.node == 1))
    for n in range(2, 4):
        cluster.answer(only(cluster, "ListOffsets"), refusal(E.TOPIC_AUTHORIZATION_FAILED, T0))
        cluster.wait(2.0)
        assert len(cluster.of("ListOffsets")) == n
        with pytest.raises(AuthorizationFailed, match="ListOffsets of t-0"):
            cluster.poll_records()
        cluster.poll_records()
    assert (cluster.position(T0), cluster.position(T1)) == (None, 2)


def test_missing_and_extra_partitions_of_list_offsets():
    """Missing partitions are requested again; extra and repeated ones are ignored."""
    cluster = starting({T0: 0, T1: 0}, group=None)
    request = only(cluster, "ListOffsets")
    kind = ListOffsetsResponse.Topic
    lines = [kind.Partition(partition_index=n, offset=at) for n, at in ((7, 9), (0, 3), (0, 8))]
    cluster.answer(request, ListOffsetsResponse(topics=[kind(name="t", partitions=lines)]))
    assert (cluster.position(T0), cluster.position(T1)) == (3, None)
    request = cluster.wait_for("ListOffsets")
    assert request.at == pytest.approx(0.1)
    assert [line.partition_index for line in request.body.topics[0].partitions] == [1]
    cluster.answer_rightly(request)
    assert (cluster.position(T0), cluster.position(T1)) == (3, 2)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_list_offsets_without_an_offset_is_retried(policy):
    """The request is retried after a backoff."""
    cluster = starting(group=None, auto_offset_reset=policy)
    for n in range(1, 4):
        request = only(cluster, "ListOffsets")
        answer = cluster.list_offsets(request)
        answer.topics[0].partitions[0].offset = -1
        cluster.answer(request, answer)
        assert len(cluster.of("ListOffsets")) == n
        cluster.wait(1.5)
    cluster.answer_rightly(only(cluster, "ListOffsets"))
    assert cluster.position(T0) == (2 if policy == "earliest" else 12)


def test_seek_during_list_offsets():
    cluster = starting({T0: 0, T1: 0}, group=None)
    cluster.seek(T0, 9)
    cluster.answer_rightly(only(cluster, "ListOffsets"))
    assert (cluster.position(T0), cluster.position(T1)) == (9, 2)


def test_second_seek_during_list_offsets():
    """After a seek to the beginning and another to the end, the response to the first request is ignored."""
    cluster = starting(group=None)
    cluster.positions.of(T0).reset_to(-1)
    cluster.positions.unresolved = True
    cluster.answer_rightly(only(cluster, "ListOffsets"))
    assert cluster.position(T0) is None
    cluster.answer_rightly(only(cluster, "ListOffsets"))
    assert cluster.position(T0) == 12


def test_revocation_during_list_offsets():
    """A partition that is assigned again may have a committed offset, so the earlier response is ignored."""
    cluster = starting(committed={})
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    late = only(cluster, "ListOffsets")
    before = cluster.positions.of(T0)
    cluster.positions.assign([])
    cluster.positions.assign([T0])
    cluster.committed[T0] = 8
    cluster.answer_rightly(late)
    assert before.offset is None
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    assert cluster.position(T0) == 8


def test_revoked_partition_ends_its_offset_lookup():
    """The consumer also stops requesting metadata of the deleted topic."""
    cluster = starting({T0: 0, T1: 1}, held=("ListOffsets",))
    del cluster.topics["t"]
    cluster.hang_up(0)
    cluster.hang_up(1)
    cluster.wait(3.0)
    cluster.engine.positions.assign(())
    cluster.wait(1.0)
    before = len(cluster.of("Metadata"))
    cluster.engine.metadata.require_topics(())
    cluster.wait(30.0)
    assert len(cluster.of("Metadata")) - before <= 1


def test_first_list_offsets_waits_only_for_metadata():
    """There is no backoff, although no leader was known when the request was due."""
    cluster = starting(group=None, held=())
    assert (cluster.now, cluster.position(T0)) == (0.0, 2)


def test_position_of_list_offsets_has_no_epoch():
    """The response has the epoch of the record at the offset, not of the record before it, which was not read."""
    cluster = starting(group=None, held=())
    assert cluster.positions.of(T0).epoch == -1


def test_offsets_to_commit():
    """All known positions are committed."""
    cluster = starting({T0: 0, T1: 1}, group=None)
    cluster.seek(T0, 5)
    assert {p: at.offset for p, at in cluster.positions.to_commit().items()} == {T0: 5}


def test_partition_that_is_being_revoked_is_not_looked_up():
    cluster = starting({T0: 0, T1: 0}, held=())
    cluster.hold(*ASKED)
    cluster.engine.assign([T0, T1])
    for partition in (T0, T1):
        cluster.positions.of(partition).offset = None
    cluster.positions.of(T0).revoking = True
    cluster.positions.unresolved = True
    cluster.settle()
    requested = [number for topic in cluster.last("OffsetFetch").groups[0].topics for number in topic.partition_indexes]
    assert requested == [1]


LISTED = [  # timestamp, offset in the response, result, whether the lookup is done
    (0, -1, None, True),
    (5, -1, None, True),
    (-1, -1, None, False),
    (-2, 0, OffsetAndTimestamp(0, -1, -1), True),
    (0, 0, OffsetAndTimestamp(0, -1, -1), True),
]


@pytest.mark.parametrize(("timestamp", "offset", "result", "done"), LISTED)
def test_only_the_ends_of_a_log_always_exist(timestamp, offset, result, done):
    cluster = starting()
    lookup = cluster.engine.look_up_log({T0: timestamp})
    lookup.unanswered.discard(T0)  # as if a response had included the partition
    lookup.record_partition(T0, ListOffsetsResponse.Topic.Partition(offset=offset, timestamp=-1, leader_epoch=-1))
    assert (lookup.done, lookup.result.get(T0)) == (done, result)
    assert (T0 in lookup.result) is done


def test_lookup_waits_for_a_leader_whose_address_is_unknown():
    cluster = starting()
    lookup = cluster.engine.look_up_log({T0: -1})
    lookup._network = SimpleNamespace(broker=lambda _: None, can_send=lambda node: node.ready)
    lookup.send_if_due()
    assert cluster.now < lookup.next_deadline() < float("inf")


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "incomplete"])
def test_offset_fetch_without_offsets_is_retried_after_a_backoff(lost):
    cluster = starting(held=("OffsetFetch",))
    lookup = cluster.engine.look_up_committed([T0])
    call = OutgoingCall(OFFSET_FETCH.key, lambda _: None, 1.0, lookup._handle_response)
    call.version = 7
    if lost:
        call.fail(Failure.DISCONNECTED)
    else:
        call.complete(OffsetFetchResponse())
    assert lookup.next_deadline() == pytest.approx(cluster.now + 0.1)
    assert not lookup.done
    call.fail(Failure.TIMED_OUT)
    assert lookup.next_deadline() == pytest.approx(cluster.now + 0.2)


def test_number_of_partitions_is_that_of_the_first_response():
    metadata = SimpleNamespace(version=1, covers=lambda _: True, errors={}, topics={}, refresh=lambda: None)
    lookup = TopicLookup("t", metadata)
    lookup.send_if_due()
    assert not lookup.done
    for version, count in ((2, 3), (3, 5)):
        metadata.version, metadata.topics = version, {"t": SimpleNamespace(partitions=[None] * count)}
        lookup.send_if_due()
    assert (lookup.done, lookup.result, lookup.error) == (True, 3, None)


def test_known_positions_need_no_request():
    cluster = starting(held=(), committed={T0: 5})
    assert cluster.position(T0) == 5
    requests = cluster.count("OffsetFetch")
    cluster.positions.unresolved = True
    cluster.wait(1.0)
    assert cluster.count("OffsetFetch") == requests == 1


@pytest.mark.parametrize(("epoch", "end", "offset"), [(0, -1, 2), (-1, 3, 2), (-1, 9, 2), (0, 3, 3), (0, 9, 5)])
def test_unknown_end_of_the_epoch_resets_the_position(epoch, end, offset):
    cluster = starting(held=(), committed={T0: 5})
    cluster.engine.resolver.handle_truncation(T0, cluster.positions.of(T0), epoch, end)
    cluster.settle()
    assert cluster.position(T0) == offset


@pytest.mark.parametrize("code", [None, E.NOT_LEADER_OR_FOLLOWER], ids=["lost", "moved leader"])
def test_failed_lookup_at_a_leader_requests_metadata(code):
    cluster = starting()
    lookup, refreshes = cluster.engine.look_up_log({T0: -1}), []
    lookup._metadata = SimpleNamespace(refresh=lambda: refreshes.append(cluster.now))
    call = OutgoingCall(LIST_OFFSETS.key, lambda _: None, 1.0, lambda call: lookup._handle_response(call, {T0: None}))
    if code is None:
        call.fail(Failure.DISCONNECTED)
    else:
        line = ListOffsetsResponse.Topic.Partition(partition_index=0, error_code=code)
        call.complete(ListOffsetsResponse(topics=[ListOffsetsResponse.Topic(name="t", partitions=[line])]))
    assert refreshes == [cluster.now]
    assert (lookup.done, lookup.next_deadline()) == (False, pytest.approx(cluster.now + 0.1))


def test_unsupported_offset_fetch_ends_the_lookup():
    cluster = starting(held=("OffsetFetch",))
    lookup = cluster.engine.look_up_committed([T0])
    call = OutgoingCall(OFFSET_FETCH.key, lambda _: None, 1.0, lookup._handle_response)
    call.fail(Failure.UNSUPPORTED, "no version")
    assert lookup.done
    assert isinstance(lookup.error, UnsupportedVersion)


def test_revoked_partition_does_not_repeat_the_offset_fetch():
    """The response still applies to the partitions that stay assigned."""
    cluster = starting({T0: 0, T1: 0}, committed={T0: 7, T1: 8})
    request = only(cluster, "OffsetFetch")
    cluster.positions.assign([T0])
    cluster.settle()
    assert cluster.pending("OffsetFetch") == [request]
    cluster.answer_rightly(request)
    assert cluster.position(T0) == 7


@pytest.mark.parametrize("version", [7, 8, 10])
@pytest.mark.parametrize("code", [E.NOT_COORDINATOR, E.GROUP_AUTHORIZATION_FAILED])
def test_error_of_the_group_needs_no_partitions(code, version):
    """A Kafka response with an error of the group has no topics."""
    cluster = starting({T0: 0, T1: 0}, committed={T0: 7, T1: 8}, served={"OffsetFetch": (0, version)})
    request, looked = only(cluster, "OffsetFetch"), len(cluster.of("FindCoordinator"))
    answer = cluster.offset_fetch(request, error=code)
    (answer if version < 8 else answer.groups[0]).topics.clear()
    cluster.answer(request, answer)
    cluster.wait(0.5)
    if code == E.NOT_COORDINATOR:
        assert len(cluster.of("FindCoordinator")) == looked + 1
        cluster.answer_rightly(only(cluster, "OffsetFetch"))
        assert (cluster.position(T0), cluster.position(T1)) == (7, 8)
    else:
        with pytest.raises(AuthorizationFailed):
            cluster.poll_records()


def test_committed_offsets_need_a_group():
    cluster = FakeLogCluster({T0: 0})
    with pytest.raises(IllegalUse, match=r"committed\(\) needs a group"):
        cluster.engine.look_up_committed([T0])
    assert cluster.engine._components.group_id == ""


def test_position_of_an_unassigned_partition_is_an_error():
    cluster = FakeLogCluster({T0: 0})
    with pytest.raises(NotAssigned, match="t-9 is not assigned to this consumer"):
        cluster.positions.of(("t", 9))


def test_reset_by_a_duration_since_before_1970_is_at_timestamp_0():
    cluster = starting(group=None, held=("ListOffsets",), auto_offset_reset=timedelta(days=365 * 100))
    (line,) = only(cluster, "ListOffsets").body.topics[0].partitions
    assert line.timestamp == 0


def test_backoff_of_a_lookup_at_leaders_grows():
    cluster = starting(group=None)
    times = []
    for _ in range(4):
        request = cluster.wait_for("ListOffsets")
        times.append(request.at)
        answer = cluster.list_offsets(request)
        answer.topics[0].partitions[0].error_code = E.NOT_LEADER_OR_FOLLOWER
        cluster.answer(request, answer)
    assert times == pytest.approx([0.0, 0.1, 0.3, 0.7])


def test_backoff_of_an_offset_fetch_grows():
    cluster = starting(committed={T0: 7})
    times = []
    for _ in range(4):
        request = cluster.wait_for("OffsetFetch")
        times.append(request.at)
        cluster.answer(request, cluster.offset_fetch(request, error=E.COORDINATOR_LOAD_IN_PROGRESS))
    assert times == pytest.approx([0.0, 0.1, 0.3, 0.7])


def test_offset_fetch_to_an_unreachable_coordinator_backs_off():
    cluster = starting(held=("OffsetFetch", "FindCoordinator"), assign=False)
    lookup = cluster.engine.look_up_committed([T0])
    lookup.send_if_due()
    assert lookup.next_deadline() == pytest.approx(cluster.now + 0.1)
    cluster.engine.clock.now += 0.05
    lookup.send_if_due()
    assert lookup.next_deadline() == pytest.approx(cluster.now + 0.05), "not before the backoff has ended"


def requested_group(cluster: Any) -> tuple[int, str | None, int]:
    """Return the version, member id and member epoch of the pending OffsetFetch."""
    request = only(cluster, "OffsetFetch")
    (group,) = request.body.groups
    return request.version, group.member_id, group.member_epoch


def test_consumer_group_members_fetch_offsets_with_their_epoch():
    """Members of classic groups, and consumers with manually assigned partitions, send no member epoch."""
    member = FakeLogCluster({T0: 0}, group="g", assign=False, group_protocol="consumer")
    member.hold("OffsetFetch")
    member.engine.subscribe(["t"])
    member.poll()
    member.answer_consumer_heartbeat(3, [T0])
    assert requested_group(member)[1:] == ("uuid", 3)
    assert requested_group(starting(group_protocol="consumer"))[1:] == (None, -1)
    classic = FakeLogCluster({T0: 0}, group="g", assign=False)
    classic.hold("OffsetFetch")
    classic.engine.subscribe(["t"])
    classic.make_stable([T0], generation=5)
    assert requested_group(classic)[1:] == (None, -1)


def test_offsets_of_a_topic_without_an_id_are_fetched_by_name():
    cluster = starting({T0: 0})
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    cluster.engine.look_up_committed([T0, ("absent", 0)])
    cluster.settle()
    request = only(cluster, "OffsetFetch")
    assert (request.version, [topic.name for topic in request.body.groups[0].topics]) == (9, ["absent", "t"])


def test_committed_offsets_have_their_metadata():
    cluster = starting({T0: 0, T1: 0})
    request = only(cluster, "OffsetFetch")
    lookup = cluster.engine.look_up_committed([T0, T1])
    cluster.answer_rightly(request)
    request = only(cluster, "OffsetFetch")
    answer = cluster.offset_fetch(request)
    for partition, metadata in zip(answer.groups[0].topics[0].partitions, ("text", None), strict=True):
        partition.committed_offset, partition.metadata, partition.committed_leader_epoch = 0, metadata, 4
    cluster.answer(request, answer)
    assert lookup.result == {T0: OffsetAndMetadata(0, "text", 4), T1: OffsetAndMetadata(0, "", 4)}
    assert cluster.engine._lookups == [], "finished lookups are forgotten"


def test_lookup_of_no_partitions_needs_no_request():
    cluster = FakeLogCluster({T0: 0}, group="g", assign=False)
    lookup = cluster.engine.look_up_committed([])
    assert (lookup.done, lookup.result, lookup.next_deadline()) == (True, {}, float("inf"))
    cluster.settle()
    assert cluster.count("OffsetFetch") == 0


def test_lookup_without_a_subscription_needs_the_coordinator():
    cluster = FakeLogCluster({T0: 0}, group="g", assign=False)
    cluster.leaders[T0] = -1
    cluster.hold("FindCoordinator", "OffsetFetch")
    cluster.settle()
    assert cluster.pending("FindCoordinator") == []
    log = cluster.engine.look_up_log({T0: -1})
    cluster.settle()
    assert cluster.pending("FindCoordinator") == []
    lookup = cluster.engine.look_up_committed([T0])
    cluster.settle()
    assert cluster.pending("FindCoordinator"), "beside another lookup"
    cluster.answer_error("FindCoordinator", E.GROUP_AUTHORIZATION_FAILED, polling=False)
    assert isinstance(lookup.error, AuthorizationFailed)
    assert (log.done, cluster.engine._lookups) == (False, [log])


def test_first_failure_is_raised_first():
    cluster = starting(group=None, held=(), auto_offset_reset="none")
    resolver = cluster.engine.resolver
    with pytest.raises(NoOffset):
        cluster.poll_records()
    first = resolver.failure = ConsumerError("the first failure")
    resolver._reset_or_fail({T0: cluster.positions.of(T0)})
    assert resolver.failure is first
    cluster.seek(T0, 5)
    cluster.positions.of(T0).topic_id = UUID(int=3)
    resolver._check_topic_ids()
    assert resolver.failure is first


def test_new_assignment_does_not_wait_for_the_offsets_of_another():
    cluster = starting({T0: 0, T1: 0}, committed={T0: 7, T1: 8})
    cluster.engine.assign([T0])
    cluster.settle()
    late = cluster.pending("OffsetFetch")[0]
    cluster.engine.assign([T1])
    cluster.settle()
    cluster.engine.assign([])
    cluster.settle()
    cluster.answer_rightly(late)
    cluster.engine.assign([T1])
    cluster.settle()
    for request in cluster.pending("OffsetFetch"):
        cluster.answer_rightly(request)
    assert cluster.position(T1) == 8


def test_offset_from_another_node_than_the_leader_is_ignored():
    cluster = starting({T0: 0, T1: 1}, group=None)
    first, second = sorted(cluster.pending("ListOffsets"), key=lambda request: request.node)
    kind = ListOffsetsResponse.Topic
    lines = [kind.Partition(partition_index=n, offset=5) for n in (0, 1)]
    cluster.answer(first, ListOffsetsResponse(topics=[kind(name="t", partitions=lines)]))
    assert (cluster.position(T0), cluster.position(T1)) == (5, None)
    cluster.answer_rightly(second)
    assert cluster.position(T1) == 2


def test_seek_during_a_retried_offset_fetch():
    cluster = starting(committed={T0: 7})
    request = only(cluster, "OffsetFetch")
    cluster.seek(T0, 4)
    cluster.settle()
    cluster.answer(request, cluster.offset_fetch(request, error=E.COORDINATOR_LOAD_IN_PROGRESS))
    cluster.wait(0.5)
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    assert cluster.position(T0) == 4


def test_finished_offset_fetch_sends_no_request():
    cluster = starting(held=(), committed={T0: 7})
    before = cluster.count("OffsetFetch")
    lookup = cluster.engine.look_up_committed([T0])
    cluster.settle()
    assert (lookup.done, cluster.count("OffsetFetch")) == (True, before + 1)
    lookup.send_if_due()
    cluster.settle()
    assert cluster.count("OffsetFetch") == before + 1


def test_list_offsets_has_the_request_timeout():
    cluster = starting(group=None, request_timeout=40.0)
    assert only(cluster, "ListOffsets").body.timeout_ms == 40_000


def test_lookup_waits_for_the_reconnect_backoff_of_a_leader():
    """Metadata is requested after the backoff, not at once."""
    cluster = starting({T0: 0, T1: 1}, group=None, held=(), reconnect_backoff=5.0, reconnect_backoff_max=5.0)
    cluster.down.add(1)
    cluster.hang_up(1)
    before = cluster.count("Metadata")
    cluster.engine.look_up_log({T1: -1})
    cluster.settle()
    assert cluster.count("Metadata") == before
    cluster.wait(0.1)
    assert cluster.count("Metadata") == before + 1


def test_failed_lookup_at_leaders_has_no_deadline():
    cluster = starting({T0: 0, T1: 1})
    lookup = cluster.engine.look_up_log({T0: -1, T1: -1})
    cluster.settle()
    request = next(each for each in cluster.pending("ListOffsets") if each.node == 0)
    cluster.answer(request, refusal(E.TOPIC_AUTHORIZATION_FAILED, T0))
    assert isinstance(lookup.error, AuthorizationFailed)
    assert lookup.next_deadline() == float("inf")


def test_reset_during_offset_fetch_applies():
    cluster = starting({T0: 0, T1: 0}, committed={T0: 7, T1: 8})
    cluster.positions.of(T0).reset_to(-1)
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    cluster.answer_rightly(only(cluster, "ListOffsets"))
    assert (cluster.position(T0), cluster.position(T1)) == (12, 8)


def test_offset_fetch_applies_to_the_partitions_that_stay():
    cluster = starting({T0: 0, T1: 0}, committed={T0: 7, T1: 8})
    cluster.positions.assign([T1])
    cluster.positions.assign([T0, T1])
    cluster.answer_rightly(only(cluster, "OffsetFetch"))
    assert (cluster.position(T0), cluster.position(T1)) == (None, 8)


def test_offset_without_a_record_has_no_timestamp_and_no_epoch():
    assert OffsetAndTimestamp(5) == OffsetAndTimestamp(5, -1, -1)


@pytest.mark.parametrize(
    ("timestamps", "version"),
    [((-1, -2), 0), ((5, 6), 1), ((0, -1), 1), ((-1, 5), 1), ((5, -1), 1)],
    ids=lambda each: str(each),
)
def test_lookup_of_a_timestamp_needs_version_1(timestamps: tuple[int, int], version: int) -> None:
    lookup = LogLookup(dict(zip((T0, T1), timestamps, strict=True)), FakeLogCluster({T0: 0}).engine._components)
    assert lookup.min_version == version


def test_truncation_to_an_empty_log_moves_the_position_there():
    cluster = starting(held=(), committed={T0: 5})
    position = cluster.positions.of(T0)
    cluster.engine.resolver.handle_truncation(T0, position, 0, 0)
    assert (position.offset, position.epoch) == (0, 0)


def test_failure_of_an_offset_fetch_keeps_an_earlier_error():
    cluster = starting()
    request = only(cluster, "OffsetFetch")
    earlier = cluster.engine.resolver.failure = ConsumerError("earlier")
    cluster.answer(request, cluster.offset_fetch(request, error=E.GROUP_AUTHORIZATION_FAILED), polling=False)
    assert cluster.engine.resolver.failure is earlier


def test_offset_fetch_is_sent_with_the_first_advance():
    cluster = starting({T0: 0, T1: 0}, held=())
    cluster.engine.assign([T0])
    cluster.settle()
    before = cluster.count("OffsetFetch")
    cluster.engine.assign([T0, T1])
    cluster.engine.advance(polling=False)
    cluster._carry_bytes()
    assert cluster.count("OffsetFetch") == before + 1


def test_response_without_a_partition_is_retried_after_a_backoff():
    cluster = starting()
    lookup = cluster.engine.look_up_log({T0: -1})
    call = OutgoingCall(LIST_OFFSETS.key, lambda _: None, 1.0, lambda call: lookup._handle_response(call, {T0: None}))
    call.complete(ListOffsetsResponse())
    assert (lookup.done, lookup.next_deadline()) == (False, pytest.approx(cluster.now + 0.1))


def test_lookup_of_revoked_partitions_is_not_retried():
    cluster = starting(committed={T0: 7})
    request = only(cluster, "OffsetFetch")
    cluster.positions.assign([])
    cluster.settle()
    cluster.answer(request, cluster.offset_fetch(request, error=E.COORDINATOR_LOAD_IN_PROGRESS))
    cluster.wait(1.0)
    assert cluster.count("OffsetFetch") == 1
    assert cluster.engine.resolver.next_deadline() == float("inf")


def test_partition_that_is_kept_after_all_is_looked_up():
    """The lookup is also sent if the positions of the other partitions are known."""
    cluster = starting({T0: 0, T1: 0}, held=())
    cluster.hold(*ASKED)
    position = cluster.positions.of(T1)
    position.offset, position.revoking, cluster.positions.unresolved = None, True, True
    cluster.settle()
    before = cluster.count("OffsetFetch")
    position.revoking = False
    cluster.settle()
    assert cluster.count("OffsetFetch") == before + 1


def test_known_positions_are_not_resolved_again():
    cluster = starting({T0: 0, T1: 0}, held=(), committed={T0: 5, T1: 6})
    assert not cluster.positions.unresolved
    cluster.seek(T0, 3)
    assert cluster.positions.unresolved, "its leader epoch may have to be validated"
    cluster.settle()
    assert not cluster.positions.unresolved


def test_next_deadline_is_that_of_the_first_lookup():
    cluster = starting({T0: 0, T1: 1}, group=None, held=())
    cluster.hold("ListOffsets")
    for partition in (T0, T1):
        cluster.positions.of(partition).reset_to(-1)
        cluster.positions.unresolved = True
        cluster.settle()
    first, second = cluster.pending("ListOffsets")
    assert cluster.engine.resolver.next_deadline() == float("inf")
    cluster.answer(second, refusal(E.NOT_LEADER_OR_FOLLOWER, T1))
    assert cluster.engine.resolver.next_deadline() == pytest.approx(0.1)
    assert not first.done


def test_list_offsets_is_sent_with_the_first_advance():
    cluster = starting(group=None, held=())
    before = cluster.count("ListOffsets")
    cluster.positions.of(T0).reset_to(-1)
    cluster.positions.unresolved = True
    cluster.engine.advance(polling=False)
    cluster._carry_bytes()
    assert cluster.count("ListOffsets") == before + 1


def test_failure_of_a_reset_keeps_an_earlier_error():
    cluster = starting(group=None)
    earlier = cluster.engine.resolver.failure = ConsumerError("earlier")
    cluster.answer(only(cluster, "ListOffsets"), refusal(E.TOPIC_AUTHORIZATION_FAILED, T0), polling=False)
    assert cluster.engine.resolver.failure is earlier


def test_positions_are_checked_once_for_each_metadata_version():
    cluster = starting(held=(), committed={T0: 5})
    resolver, checks = cluster.engine.resolver, []
    resolver._check_topic_ids = lambda: checks.append(cluster.engine.metadata.version)
    cluster.settle()
    assert checks == []
    cluster.engine.metadata.refresh()
    cluster.settle()
    cluster.settle()
    assert checks == [cluster.engine.metadata.version]


@pytest.mark.parametrize(("leader_epoch", "validations"), [(3, 0), (4, 1)])
def test_committed_epoch_of_the_leader_needs_no_validation(leader_epoch, validations):
    cluster = starting(held=("OffsetFetch",), assign=False, committed={T0: 7})
    cluster.leader_epochs[T0] = cluster.logs[T0].epoch = leader_epoch
    cluster.engine.assign([T0])
    cluster.settle()
    request = only(cluster, "OffsetFetch")
    answer = cluster.offset_fetch(request)
    answer.groups[0].topics[0].partitions[0].committed_leader_epoch = 3
    cluster.answer(request, answer)
    assert (cluster.position(T0), cluster.positions.of(T0).epoch) == (7, 3)
    assert cluster.count("OffsetForLeaderEpoch") == validations


def test_lookup_sends_nothing_before_the_end_of_its_backoff():
    """The lookup waits even if the leader is available again earlier."""
    cluster = starting()
    lookup, sent = cluster.engine.look_up_log({T0: -1}), []
    available = [False, True, True]
    lookup._network = SimpleNamespace(
        broker=cluster.engine.network.broker,
        can_send=lambda _: available.pop(0),
        send_request=lambda *_, **__: sent.append(cluster.now),
    )
    lookup.send_if_due()
    lookup.send_if_due()
    assert (sent, len(available)) == ([], 2)
    cluster.engine.clock.now += 0.1
    lookup.send_if_due()
    assert sent == [pytest.approx(0.1)]


def test_validation_without_a_truncation_keeps_the_epoch():
    cluster = starting(committed={T0: 7})
    cluster.hold("OffsetForLeaderEpoch")
    cluster.leader_epochs[T0] = 4
    cluster.engine.metadata.refresh()
    cluster.settle()
    request = only(cluster, "OffsetFetch")
    answer = cluster.offset_fetch(request)
    answer.groups[0].topics[0].partitions[0].committed_leader_epoch = 3
    cluster.answer(request, answer)
    kind = OffsetForLeaderEpochResponse.Topic
    line = kind.Partition(partition=0, leader_epoch=2, end_offset=7)
    cluster.answer("OffsetForLeaderEpoch", OffsetForLeaderEpochResponse(topics=[kind(topic="t", partitions=[line])]))
    position = cluster.positions.of(T0)
    assert (position.offset, position.epoch, position.validating) == (7, 3, False)


def test_each_recreated_topic_is_noticed():
    cluster = FakeLogCluster({T0: 0, ("u", 0): 0, ("v", 0): 0})
    for log in cluster.logs.values():
        log.add(10)
    cluster.settle()
    for topic in ("t", "u", "v"):
        cluster.seek((topic, 0), 9)
    cluster.settle()
    for topic in ("u", "v"):
        cluster.topic_ids[topic] = UUID(int=len(cluster.topic_ids) + 50)
    cluster.engine.metadata.refresh()
    cluster.settle()
    assert [cluster.position((topic, 0)) for topic in ("t", "u", "v")] == [9, 0, 0]


def test_revoked_partition_ends_its_validation():
    cluster = starting(held=("OffsetForLeaderEpoch",))
    position = cluster.positions.of(T0)
    position.set_offset(7, 0)
    cluster.leader_epochs[T0] = 1
    cluster.engine.metadata.refresh()
    cluster.settle()
    request = cluster.request("OffsetForLeaderEpoch")
    cluster.engine.assign([])
    cluster.settle()
    kind = OffsetForLeaderEpochResponse.Topic
    line = kind.Partition(partition=0, error_code=E.NOT_LEADER_OR_FOLLOWER)
    cluster.answer(request, OffsetForLeaderEpochResponse(topics=[kind(topic="t", partitions=[line])]))
    cluster.wait(5.0)
    assert cluster.count("OffsetForLeaderEpoch") == 1


def test_diverging_epoch_that_ends_at_the_position_loses_nothing():
    cluster = starting(held=(), committed={T0: 5}, auto_offset_reset="none")
    position = cluster.positions.of(T0)
    cluster.engine.resolver.handle_truncation(T0, position, 0, 5)
    assert (position.offset, position.epoch, cluster.engine.resolver.failure) == (5, 0, None)


def test_partition_without_a_leader_delays_no_other_validation():
    cluster = starting({T0: 0, T1: 0}, held=("OffsetForLeaderEpoch",))
    for partition in (T0, T1):
        cluster.positions.of(partition).set_offset(7, 0)
    cluster.leaders[T0] = -1
    cluster.leader_epochs |= {T0: 1, T1: 1}
    cluster.engine.metadata.refresh()
    cluster.settle()
    (topic,) = cluster.request("OffsetForLeaderEpoch").body.topics
    assert [line.partition for line in topic.partitions] == [1]


def test_consumer_without_partitions_resolves_nothing():
    resolver = FakeLogCluster({T0: 0}, assign=False).engine.resolver
    assert (resolver.next_deadline(), resolver.failure) == (float("inf"), None)


def test_failed_reset_is_repeated_with_the_same_timestamp():
    cluster = starting(group=None)
    cluster.answer(only(cluster, "ListOffsets"), refusal(E.TOPIC_AUTHORIZATION_FAILED, T0))
    with pytest.raises(AuthorizationFailed):
        cluster.poll_records()
    cluster.poll_records()
    request = only(cluster, "ListOffsets")
    assert [line.timestamp for line in request.body.topics[0].partitions] == [-2]
    cluster.answer_rightly(request)
    assert cluster.position(T0) == 2
