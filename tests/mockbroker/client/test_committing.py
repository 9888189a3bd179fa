"""Offset commits: request fields, order, timeouts, retries and invalid responses."""

from __future__ import annotations

from typing import Any

import pytest
from tools.fake_cluster import FakeCluster, topic_id

from kwire.errorcodes import ErrorCode as E
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.offset_commit import OffsetCommitResponse
from mockbroker.client.committing import Commit, Identity
from mockbroker.client.engine import addresses
from mockbroker.client.errors import (
    AuthorizationFailed,
    BrokerError,
    CommitFailed,
    IllegalUse,
    RebalanceInProgress,
    TimedOut,
    UnsupportedVersion,
)
from mockbroker.client.positions import OffsetAndMetadata
from mockbroker.client.subscription import SubscriptionType

T0, T1 = ("t", 0), ("t", 1)


def stable(**options: Any) -> FakeCluster:
    cluster = FakeCluster(**options)
    cluster.answers["Heartbeat"] = lambda _: HeartbeatResponse()
    cluster.engine.subscribe(["t"])
    cluster.make_stable([T0, T1], generation=5)
    return cluster


@pytest.mark.parametrize(("newest", "by_id"), [(9, False), (10, True)])
def test_offset_commit_request_fields(newest: int, by_id: bool) -> None:
    cluster = stable(served={"OffsetCommit": (0, newest)})
    commit = cluster.engine.committer.commit(
        {T0: OffsetAndMetadata(8, "mine", 3), T1: OffsetAndMetadata(9)}, 60.0, retried=True
    )
    cluster.settle()
    sent_request = cluster.request("OffsetCommit")
    sent = sent_request.body
    assert (sent_request.version, sent.group_id, sent.generation_id_or_member_epoch, sent.member_id) == (
        newest,
        "g",
        5,
        "me",
    )
    (topic,) = sent.topics
    assert (topic.name, topic.topic_id) == (("", topic_id("t")) if by_id else ("t", topic_id("t").__class__(int=0)))
    lines = [
        (p.partition_index, p.committed_offset, p.committed_metadata, p.committed_leader_epoch)
        for p in topic.partitions
    ]
    assert lines == [(0, 8, "mine", 3), (1, 9, "", -1)]
    cluster.answer_commit()
    assert (commit.done, commit.error) == (True, None)


def test_topics_without_ids_are_committed_by_name() -> None:
    cluster = stable(served={"Metadata": (0, 9)})
    cluster.commit({T0: 8})
    assert (cluster.request("OffsetCommit").version, cluster.request("OffsetCommit").body.topics[0].name) == (9, "t")


def test_empty_commit_succeeds_at_once() -> None:
    cluster = stable()
    commit = cluster.commit({})
    assert (commit.done, commit.error, cluster.count("OffsetCommit")) == (True, None, 0)


def test_error_of_one_partition_fails_the_commit() -> None:
    cluster = stable()
    commit = cluster.commit({T0: 8, T1: 9})
    topic = OffsetCommitResponse.Topic
    line = topic.Partition
    lines = [line(partition_index=1, error_code=E.OFFSET_METADATA_TOO_LARGE), line(partition_index=0)]
    cluster.answer("OffsetCommit", OffsetCommitResponse(topics=[topic(topic_id=topic_id("t"), partitions=lines)]))
    assert isinstance(commit.error, BrokerError)
    assert "OffsetCommit of t-1 failed: OFFSET_METADATA_TOO_LARGE" in str(commit.error)


@pytest.mark.parametrize("partitions", [[], [0], [0, 7]])
def test_response_without_a_partition_is_retried(partitions: list[int]) -> None:
    cluster = stable()
    commit = cluster.commit({T0: 8, T1: 9})
    topic = OffsetCommitResponse.Topic
    lines = [topic.Partition(partition_index=number) for number in partitions]
    cluster.answer("OffsetCommit", OffsetCommitResponse(topics=[topic(topic_id=topic_id("t"), partitions=lines)]))
    assert (commit.done, cluster.pending("OffsetCommit")) == (False, []), "not at once"
    assert cluster.wait_for("OffsetCommit").at == pytest.approx(0.1)
    cluster.answer_commit()
    assert commit.error is None


def test_commit_waits_for_the_coordinator_until_its_timeout() -> None:
    cluster = stable()
    cluster.answers["FindCoordinator"] = lambda _: None
    cluster.engine.coordinator.mark_unknown()
    commit = cluster.commit({T0: 8}, timeout=5.0)
    cluster.wait(4.9)
    assert not commit.done
    cluster.wait(0.2)
    assert isinstance(commit.error, TimedOut)


def test_commit_is_sent_when_the_coordinator_is_found() -> None:
    cluster = stable()
    cluster.engine.coordinator.mark_unknown()
    cluster.commit({T0: 8})
    cluster.wait_for("OffsetCommit", within=0.2)


def test_commit_raises_the_authorization_error_of_the_lookup() -> None:
    cluster = FakeCluster()
    del cluster.answers["FindCoordinator"]
    cluster.engine.assign([T0])
    commit = cluster.commit({T0: 8})
    lookup = cluster.engine.look_up_committed([T0])
    cluster.settle()
    cluster.answer_error("FindCoordinator", E.GROUP_AUTHORIZATION_FAILED, polling=False)
    assert isinstance(commit.error, AuthorizationFailed)
    assert isinstance(lookup.error, AuthorizationFailed)


def test_lookup_error_is_cleared_by_a_successful_lookup() -> None:
    cluster = FakeCluster()
    del cluster.answers["FindCoordinator"]
    cluster.engine.assign([T0])
    cluster.settle()
    cluster.answer_error("FindCoordinator", E.GROUP_AUTHORIZATION_FAILED, polling=False)
    cluster.answers["FindCoordinator"] = cluster.find_coordinator
    cluster.wait(1.0)
    assert cluster.engine.coordinator.node
    cluster.poll()


def test_response_after_the_timeout_is_ignored() -> None:
    cluster = stable()
    commit = cluster.commit({T0: 8}, timeout=5.0)
    cluster.wait(5.1)
    assert isinstance(commit.error, TimedOut)
    cluster.answer_commit(E.REBALANCE_IN_PROGRESS, request=cluster.request("OffsetCommit"))
    assert isinstance(commit.error, TimedOut)
    assert cluster.count("JoinGroup") == 1


def test_timeout_names_the_last_error() -> None:
    cluster = stable()
    commit = cluster.commit({T0: 8}, timeout=5.0)
    cluster.answer_commit(E.COORDINATOR_LOAD_IN_PROGRESS, polling=False)
    cluster.wait(5.1)
    assert str(commit.error) == (
        "the commit did not succeed (OffsetCommit of t-0 failed: COORDINATOR_LOAD_IN_PROGRESS) within its timeout: "
        "commit again"
    )


def test_commits_are_sent_in_order() -> None:
    cluster = stable()
    cluster.answers["FindCoordinator"] = lambda _: None
    cluster.engine.coordinator.mark_unknown()
    chances = iter([1.0] * 5 + [0.0] * 200)  # the first backoff is longer than the later ones
    cluster.engine.committer._backoff._jitter = lambda: next(chances)
    for offset in (8, 9, 10):
        cluster.commit({T0: offset}, retried=False)
        cluster.wait(0.01)
    cluster.answers["FindCoordinator"] = cluster.find_coordinator
    cluster.answer("FindCoordinator", cluster.find_coordinator(cluster.request("FindCoordinator")))
    cluster.wait(1.0)
    sent = [one.body.topics[0].partitions[0].committed_offset for one in cluster.requests if one.api == "OffsetCommit"]
    assert sent == [8, 9, 10]


def test_retried_commit_precedes_later_ones() -> None:
    cluster = stable()
    cluster.commit({T0: 8})
    cluster.commit({T0: 9}, retried=False)
    cluster.answer_commit(E.COORDINATOR_LOAD_IN_PROGRESS, request=cluster.pending("OffsetCommit")[0])
    cluster.wait(1.0)
    while cluster.pending("OffsetCommit"):
        cluster.answer_commit(request=cluster.pending("OffsetCommit")[0])
        cluster.wait(1.0)
    sent = [one.body.topics[0].partitions[0].committed_offset for one in cluster.requests if one.api == "OffsetCommit"]
    assert sent[-1] == 9


def test_async_commits_finish_in_order() -> None:
    cluster = stable()
    commits = [cluster.commit({T0: offset}, retried=False) for offset in (8, 9, 10)]
    cluster.commit({T0: 11})
    for sent_request in list(cluster.pending("OffsetCommit")):
        cluster.answer_commit(request=sent_request)
    assert list(cluster.engine.committer.finished) == commits, "without those that the user waits for"


def test_abandoned_commit_is_not_retried() -> None:
    cluster = stable()
    commit = cluster.commit({T0: 8})
    cluster.engine.committer.abandon(commit)
    cluster.answer_commit(E.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.wait(3)
    assert cluster.count("OffsetCommit") == 1


def test_error_about_an_old_generation_keeps_the_new_one() -> None:
    cluster = stable()
    commit = cluster.commit({T0: 8})
    cluster.member.status.generation = 6  # as if the member had joined over another connection
    cluster.answer_commit(E.ILLEGAL_GENERATION)
    assert isinstance(commit.error, RebalanceInProgress)
    assert (cluster.member.generation, cluster.count("JoinGroup")) == (6, 1)


def test_static_member_needs_offset_commit_v7() -> None:
    cluster = stable(group_instance_id="one", served={"OffsetCommit": (0, 6)})
    commit = cluster.commit({T0: 8})
    assert isinstance(commit.error, UnsupportedVersion)


def test_auto_commit_interval_and_retry_after_a_failure() -> None:
    cluster = stable(enable_auto_commit=True)
    sent_request = cluster.wait_for("OffsetCommit")
    assert sent_request.at == pytest.approx(5.0)
    cluster.answer_commit(E.COORDINATOR_LOAD_IN_PROGRESS)
    assert cluster.wait_for("OffsetCommit").at == pytest.approx(5.1)
    cluster.answer_commit()
    assert cluster.wait_for("OffsetCommit").at == pytest.approx(10.1)


def test_assignment_restarts_the_auto_commit_interval() -> None:
    cluster = stable(enable_auto_commit=True, assignors=["range"])
    cluster.wait(4.0, polling=True)
    cluster.member.rejoin("a test")
    cluster.poll()
    cluster.answer_commit()
    cluster.answer_join(6)
    cluster.answer_sync([T0])
    began = cluster.now
    assert cluster.wait_for("OffsetCommit").at - began == pytest.approx(5.0)


def test_auto_commit_of_assigned_partitions() -> None:
    cluster = FakeCluster(enable_auto_commit=True)
    cluster.wait(100.0)
    cluster.engine.assign([T0])
    assert cluster.engine.auto_commit_at == 105.0
    assert cluster.wait_for("OffsetCommit").at == pytest.approx(105.0)
    cluster.answer_commit()
    cluster.engine.assign([])
    assert cluster.engine.auto_commit_at == float("inf"), "nothing to commit"
    alone = FakeCluster(group=None, enable_auto_commit=True)
    alone.engine.assign([T0])
    assert alone.engine.auto_commit_at == float("inf"), "without a group"
    off = FakeCluster()
    off.engine.assign([T0])
    assert off.engine.auto_commit_at == float("inf")


def test_unknown_topic_in_a_commit_refreshes_metadata() -> None:
    cluster = stable()
    for deleted in (False, True):
        if deleted:
            cluster.topics.pop("t")
            cluster.engine.metadata.refresh()
            cluster.settle()
        commit = cluster.commit({T0: 8})
        requests = cluster.count("Metadata")
        cluster.answer_commit(E.UNKNOWN_TOPIC_OR_PARTITION, polling=False)
        assert cluster.count("Metadata") >= requests + (not deleted)
        assert commit.done is deleted, "a commit for a deleted topic is not retried"
        cluster.engine.committer.abandon(commit)


def test_async_commits_wait_together_for_the_coordinator() -> None:
    cluster = stable()
    for retried, sent in ((False, 2), (True, 1)):
        cluster.answers["FindCoordinator"] = lambda _: None
        cluster.engine.coordinator.mark_unknown()
        for offset in (8, 9):
            cluster.commit({T0: offset}, retried=retried)
        assert cluster.pending("OffsetCommit") == []
        cluster.answers["FindCoordinator"] = cluster.find_coordinator
        cluster.answer("FindCoordinator", cluster.find_coordinator(cluster.request("FindCoordinator")))
        cluster.wait(0.2)
        assert len(cluster.pending("OffsetCommit")) == sent, "a commit with retries waits for the one before it"
        while cluster.pending("OffsetCommit"):
            cluster.answer_commit(request=cluster.pending("OffsetCommit")[0])


def test_first_timeout_of_a_commit_is_the_deadline() -> None:
    cluster = stable()
    for timeout in (60.0, 5.0, 30.0):
        cluster.commit({T0: 8}, retried=False, timeout=timeout)
    assert len(cluster.pending("OffsetCommit")) == 3
    assert cluster.engine.committer.next_deadline() == cluster.now + 5.0


def test_no_assigned_partitions_end_the_assignment() -> None:
    cluster = FakeCluster()
    cluster.engine.assign([])
    assert cluster.engine.subscription.type is SubscriptionType.NONE
    cluster.engine.assign([T0])
    assert (cluster.engine.subscription.type, cluster.assigned) == (SubscriptionType.USER_ASSIGNED, ["t0"])
    cluster.engine.assign([])
    assert (cluster.engine.subscription.type, cluster.assigned) == (SubscriptionType.NONE, [])
    cluster.engine.subscribe(["t"])


@pytest.mark.parametrize("address", ["", "host", "host:", ":9092", "host:port", "host:9092x", "a:1,:2", "h:²", "h h:1"])
def test_invalid_bootstrap_addresses(address: str) -> None:
    with pytest.raises(ValueError, match="use host:port"):
        addresses(address)


@pytest.mark.parametrize("port", [0, 65536])
def test_bootstrap_port_out_of_range(port: int) -> None:
    with pytest.raises(ValueError, match=rf"port {port} is out of range \(1-65535\)"):
        addresses(f"host:{port}")


def test_empty_bootstrap() -> None:
    with pytest.raises(ValueError, match="bootstrap is empty: give the host:port of at least one broker"):
        addresses([])


def test_bootstrap_addresses() -> None:
    assert addresses("a:1, b:2") == addresses(["a:1", "b:2"]) == [("a", 1), ("b", 2)]
    assert addresses(["a:1,b:2"]) == [("a", 1), ("b", 2)]
    assert addresses("[::1]:9092") == [("::1", 9092)]
    assert addresses("PLAINTEXT://localhost:9092") == [("localhost", 9092)]


def test_backoff_of_a_commit_grows() -> None:
    cluster = stable()
    began = cluster.now
    commit = cluster.commit({T0: 8})
    times = []
    for _ in range(4):
        times.append(cluster.wait_for("OffsetCommit").at - began)
        cluster.answer_commit(E.COORDINATOR_LOAD_IN_PROGRESS)
    assert times == pytest.approx([0.0, 0.1, 0.3, 0.7])
    cluster.engine.committer.abandon(commit)


def test_commit_to_an_unreachable_coordinator_backs_off() -> None:
    cluster = stable()
    cluster.engine.network.can_send = lambda _: False  # type: ignore[method-assign]
    committer = cluster.engine.committer
    commit = committer.commit({T0: OffsetAndMetadata(8)}, 60.0, retried=True)
    assert (commit.retry_at, committer.next_deadline()) == (pytest.approx(0.1), pytest.approx(0.1))


def test_commit_of_a_topic_without_an_id_is_by_name() -> None:
    cluster = stable()
    cluster.commit({T0: 8, ("absent", 0): 9})
    request = cluster.request("OffsetCommit")
    assert (request.version, [topic.name for topic in request.body.topics]) == (9, ["t", "absent"])


def test_all_waiting_commits_fail_with_the_lookup() -> None:
    cluster = FakeCluster()
    cluster.hold("FindCoordinator")
    commits = [cluster.commit({T0: offset}, retried=retried) for offset, retried in ((7, True), (8, False), (9, True))]
    assert cluster.engine.leaving, "a commit without a subscription needs the coordinator too"
    cluster.answer_error("FindCoordinator", E.GROUP_AUTHORIZATION_FAILED, polling=False)
    assert [type(commit.error) for commit in commits] == [AuthorizationFailed] * 3
    assert not cluster.engine.leaving


def test_commit_times_out_exactly_at_its_deadline() -> None:
    cluster = stable()
    commit = cluster.commit({T0: 8}, timeout=5.0)
    cluster.wait(4.999)
    assert not commit.done
    cluster.wait(0.001)
    assert (commit.done, cluster.now) == (True, pytest.approx(5.0))


def test_consumer_leaves_until_the_member_has_left() -> None:
    cluster = stable()
    assert not cluster.engine.leaving
    cluster.engine.unsubscribe()
    cluster.settle()
    assert cluster.engine.leaving
    cluster.answer_error("LeaveGroup", 0, polling=False)
    assert not cluster.engine.leaving
    alone = FakeCluster(group=None)
    assert not alone.engine.leaving


def test_positions_of_a_lost_generation_are_not_committed() -> None:
    """The retry of an earlier commit does not commit them either."""
    cluster = stable(enable_auto_commit=True)
    cluster.hold("Heartbeat")
    cluster.commit({T0: 8})
    cluster.wait(3.0)
    cluster.answer_commit(E.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.answer_heartbeat(E.UNKNOWN_MEMBER_ID)
    cluster.answer_join(7)
    cluster.answer_sync([T0])
    cluster.wait(0.5)
    cluster.answer_commit()
    cluster.wait(0.5)
    assert [request.at for request in cluster.of("OffsetCommit")] == pytest.approx([0.0, 3.1])


def test_lost_commit_looks_up_the_coordinator_at_once() -> None:
    cluster = stable()
    commit = cluster.commit({T0: 8})
    lookups = cluster.count("FindCoordinator")
    cluster.cut(cluster.group_link(), polling=False)
    assert cluster.count("FindCoordinator") == lookups + 1
    cluster.wait(0.2)
    cluster.answer_commit()
    assert (commit.done, commit.error) == (True, None)


def test_commit_of_a_deleted_topic_is_retried_while_loading() -> None:
    cluster = stable()
    cluster.topics.pop("t")
    cluster.engine.metadata.refresh()
    cluster.settle()
    commit = cluster.commit({T0: 8})
    cluster.answer_commit(E.COORDINATOR_LOAD_IN_PROGRESS, polling=False)
    assert not commit.done
    cluster.wait(0.2)
    cluster.answer_commit(polling=False)
    assert (commit.done, commit.error) == (True, None)


def test_commit_before_it_is_sent() -> None:
    commit = Commit({T0: OffsetAndMetadata(8)}, 5.0, retried=True)
    assert (commit.identity, commit.call, commit.done, commit.error) == (Identity(-1, "", None), None, False, None)
    assert (commit.retry_at, commit.failures, commit.on_done) == (0.0, 0, None)


def test_waiting_async_commits_are_sent_together() -> None:
    cluster = stable()
    committer, node = cluster.engine.committer, cluster.engine.coordinator.node
    cluster.engine.coordinator.mark_unknown()
    commits = [committer.commit({T0: OffsetAndMetadata(at)}, 60.0, retried=False) for at in (8, 9, 10)]
    assert [commit.call for commit in commits] == [None] * 3
    cluster.engine.coordinator.node = node
    cluster.engine.clock.now += 1.0
    committer.send_due()
    assert None not in [commit.call for commit in commits]


def test_subscription_needs_a_group() -> None:
    cluster = FakeCluster(group=None)
    with pytest.raises(IllegalUse, match=r"subscribe\(\) needs a group"):
        cluster.engine.subscribe(["t"])
    assert not cluster.engine.subscription.subscribed


def test_static_member_commits_with_offset_commit_v7() -> None:
    cluster = stable(group_instance_id="one", served={"OffsetCommit": (0, 7)})
    commit = cluster.commit({T0: 8})
    assert cluster.request("OffsetCommit").body.group_instance_id == "one"
    cluster.answer_commit()
    assert (commit.done, commit.error) == (True, None)


def test_waiting_commits_of_a_member_that_left_fail_together() -> None:
    cluster = stable()
    committer, node = cluster.engine.committer, cluster.engine.coordinator.node
    cluster.engine.coordinator.mark_unknown()
    at = {T0: OffsetAndMetadata(8)}
    commits = [committer.commit(at, 60.0, retried=retried) for retried in (True, False, True)]
    cluster.member.status.reset_generation()
    cluster.engine.coordinator.node = node
    cluster.engine.clock.now += 1.0
    committer.send_due()
    assert [type(commit.error) for commit in commits] == [CommitFailed] * 3
