"""Commits: what they say, who may, in which order, how long, and answers about something else."""

from __future__ import annotations

from typing import Any

import pytest
from tools.nodes import Nodes, topic_id

from kwire.errorcodes import ErrorCode as E
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.offset_commit import OffsetCommitResponse
from mockbroker.client.errors import AuthorizationFailed, BrokerError, RebalanceInProgress, TimedOut, UnsupportedVersion
from mockbroker.client.positions import OffsetAndMetadata

T0, T1 = ("t", 0), ("t", 1)


def stable(**options: Any) -> Nodes:
    nodes = Nodes(**options)
    nodes.answers["Heartbeat"] = lambda _: HeartbeatResponse()
    nodes.engine.subscribe(["t"])
    nodes.stable([T0, T1], generation=5)
    return nodes


@pytest.mark.parametrize(("newest", "by_id"), [(9, False), (10, True)])
def test_what_it_says(newest: int, by_id: bool) -> None:
    nodes = stable(served={"OffsetCommit": (0, newest)})
    commit = nodes.engine.committer.commit(
        {T0: OffsetAndMetadata(8, "mine", 3), T1: OffsetAndMetadata(9)}, 60.0, retried=True
    )
    nodes.settle()
    asked = nodes.one("OffsetCommit")
    sent = asked.body
    assert (asked.version, sent.group_id, sent.generation_id_or_member_epoch, sent.member_id) == (newest, "g", 5, "me")
    (topic,) = sent.topics
    assert (topic.name, topic.topic_id) == (("", topic_id("t")) if by_id else ("t", topic_id("t").__class__(int=0)))
    lines = [
        (p.partition_index, p.committed_offset, p.committed_metadata, p.committed_leader_epoch)
        for p in topic.partitions
    ]
    assert lines == [(0, 8, "mine", 3), (1, 9, "", -1)]
    nodes.committed()
    assert (commit.done, commit.error) == (True, None)


def test_topics_without_ids_go_by_name() -> None:
    nodes = stable(served={"Metadata": (0, 9)})
    nodes.commit({T0: 8})
    assert (nodes.one("OffsetCommit").version, nodes.one("OffsetCommit").body.topics[0].name) == (9, "t")


def test_nothing_to_commit_is_done_at_once() -> None:
    nodes = stable()
    commit = nodes.commit({})
    assert (commit.done, commit.error, nodes.count("OffsetCommit")) == (True, None, 0)


def test_one_error_of_many_is_the_error() -> None:
    nodes = stable()
    commit = nodes.commit({T0: 8, T1: 9})
    topic = OffsetCommitResponse.Topic
    line = topic.Partition
    lines = [line(partition_index=1, error_code=E.OFFSET_METADATA_TOO_LARGE), line(partition_index=0)]
    nodes.answer("OffsetCommit", OffsetCommitResponse(topics=[topic(topic_id=topic_id("t"), partitions=lines)]))
    assert isinstance(commit.error, BrokerError)
    assert "commit of t-1: OFFSET_METADATA_TOO_LARGE" in str(commit.error)


@pytest.mark.parametrize("partitions", [[], [0], [0, 7]])
def test_an_answer_about_something_else_proves_nothing(partitions: list[int]) -> None:
    nodes = stable()
    commit = nodes.commit({T0: 8, T1: 9})
    topic = OffsetCommitResponse.Topic
    lines = [topic.Partition(partition_index=number) for number in partitions]
    nodes.answer("OffsetCommit", OffsetCommitResponse(topics=[topic(topic_id=topic_id("t"), partitions=lines)]))
    assert not commit.done
    nodes.until("OffsetCommit", within=1.0)
    nodes.committed()
    assert commit.error is None


def test_it_waits_for_the_coordinator_and_no_longer_than_it_may() -> None:
    nodes = stable()
    nodes.answers["FindCoordinator"] = lambda _: None
    nodes.engine.coordinator.unknown()
    commit = nodes.commit({T0: 8}, timeout=5.0)
    nodes.wait(4.9)
    assert not commit.done
    nodes.wait(0.2)
    assert isinstance(commit.error, TimedOut)


def test_it_is_sent_when_the_coordinator_is_found() -> None:
    nodes = stable()
    nodes.engine.coordinator.unknown()
    nodes.commit({T0: 8})
    nodes.until("OffsetCommit", within=0.2)


def test_commit_raises_the_authorization_error_of_the_lookup() -> None:
    nodes = Nodes()
    del nodes.answers["FindCoordinator"]
    nodes.engine.assign([T0])
    commit = nodes.commit({T0: 8})
    inquiry = nodes.engine.ask_committed([T0])
    nodes.settle()
    nodes.refuse("FindCoordinator", E.GROUP_AUTHORIZATION_FAILED, polling=False)
    assert isinstance(commit.error, AuthorizationFailed)
    assert isinstance(inquiry.error, AuthorizationFailed)


def test_lookup_error_is_forgotten_once_the_coordinator_is_found() -> None:
    nodes = Nodes()
    del nodes.answers["FindCoordinator"]
    nodes.engine.assign([T0])
    nodes.settle()
    nodes.refuse("FindCoordinator", E.GROUP_AUTHORIZATION_FAILED, polling=False)
    nodes.answers["FindCoordinator"] = nodes.found
    nodes.wait(1.0)
    assert nodes.engine.coordinator.node
    nodes.poll()


def test_a_late_answer_to_what_was_given_up_changes_nothing() -> None:
    nodes = stable()
    commit = nodes.commit({T0: 8}, timeout=5.0)
    nodes.wait(5.1)
    assert isinstance(commit.error, TimedOut)
    nodes.committed(E.REBALANCE_IN_PROGRESS, asked=nodes.one("OffsetCommit"))
    assert isinstance(commit.error, TimedOut)
    assert nodes.count("JoinGroup") == 1


def test_older_offsets_never_come_last() -> None:
    nodes = stable()
    nodes.answers["FindCoordinator"] = lambda _: None
    nodes.engine.coordinator.unknown()
    chances = iter([1.0] * 5 + [0.0] * 200)  # the first waits longer than those behind it
    nodes.engine.committer._backoff._chance = lambda: next(chances)
    for offset in (8, 9, 10):
        nodes.commit({T0: offset}, retried=False)
        nodes.wait(0.01)
    nodes.answers["FindCoordinator"] = nodes.found
    nodes.answer("FindCoordinator", nodes.found(nodes.one("FindCoordinator")))
    nodes.wait(1.0)
    sent = [one.body.topics[0].partitions[0].committed_offset for one in nodes.seen if one.api == "OffsetCommit"]
    assert sent == [8, 9, 10]


def test_older_offsets_that_are_tried_again_never_come_last() -> None:
    nodes = stable()
    nodes.commit({T0: 8})
    nodes.commit({T0: 9}, retried=False)
    nodes.committed(E.COORDINATOR_LOAD_IN_PROGRESS, asked=nodes.open("OffsetCommit")[0])
    nodes.wait(1.0)
    while nodes.open("OffsetCommit"):
        nodes.committed(asked=nodes.open("OffsetCommit")[0])
        nodes.wait(1.0)
    sent = [one.body.topics[0].partitions[0].committed_offset for one in nodes.seen if one.api == "OffsetCommit"]
    assert sent[-1] == 9


def test_those_that_nobody_waits_for_finish_in_their_order() -> None:
    nodes = stable()
    commits = [nodes.commit({T0: offset}, retried=False) for offset in (8, 9, 10)]
    nodes.commit({T0: 11})
    for asked in list(nodes.open("OffsetCommit")):
        nodes.committed(asked=asked)
    assert list(nodes.engine.committer.finished) == commits, "and those that somebody waits for are not among them"


def test_one_given_up_is_not_sent_again() -> None:
    nodes = stable()
    commit = nodes.commit({T0: 8})
    nodes.engine.committer.give_up(commit)
    nodes.committed(E.COORDINATOR_LOAD_IN_PROGRESS)
    nodes.wait(3)
    assert nodes.count("OffsetCommit") == 1


def test_error_about_an_older_generation_keeps_the_new_one() -> None:
    nodes = stable()
    commit = nodes.commit({T0: 8})
    nodes.member.status.generation = 6  # as if it had joined over another connection
    nodes.committed(E.ILLEGAL_GENERATION)
    assert isinstance(commit.error, RebalanceInProgress)
    assert (nodes.member.generation, nodes.count("JoinGroup")) == (6, 1)


def test_an_old_broker_and_a_static_member() -> None:
    nodes = stable(group_instance_id="one", served={"OffsetCommit": (0, 6)})
    commit = nodes.commit({T0: 8})
    assert isinstance(commit.error, UnsupportedVersion)


def test_auto_commit_every_5_seconds_and_soon_after_a_failure() -> None:
    nodes = stable(enable_auto_commit=True)
    asked = nodes.until("OffsetCommit")
    assert asked.at == pytest.approx(5.0)
    nodes.committed(E.COORDINATOR_LOAD_IN_PROGRESS)
    assert nodes.until("OffsetCommit").at == pytest.approx(5.1)
    nodes.committed()
    assert nodes.until("OffsetCommit").at == pytest.approx(10.1)


def test_assignment_restarts_the_auto_commit_interval() -> None:
    nodes = stable(enable_auto_commit=True, assignors=["range"])
    nodes.wait(4.0, polling=True)
    nodes.member.rejoin("a test")
    nodes.poll()
    nodes.committed()
    nodes.joined(6)
    nodes.synced([T0])
    began = nodes.now
    assert nodes.until("OffsetCommit").at - began == pytest.approx(5.0)
