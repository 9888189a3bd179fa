"""A member of a classic group: joining, leading, the order of listener calls, and invalid responses."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from tools.fake_cluster import FakeCluster

from kwire.assignors import (
    Assignment,
    Assignor,
    AssignorError,
    Subscription,
    assignor,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.errorcodes import ErrorCode as E
from kwire.messages import APIS
from kwire.messages.join_group import JoinGroupResponse
from mockbroker.client.call import newest
from mockbroker.client.classic.assignments import decode_assignment
from mockbroker.client.classic.status import ClassicState, MemberStatus
from mockbroker.client.committing import Identity
from mockbroker.client.errors import (
    BrokerError,
    CommitFailed,
    ConsumerError,
    FencedInstance,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownAssignor,
    UnsupportedVersion,
)

UNJOINED, PREPARING, COMPLETING, STABLE = ClassicState
EAGER, COOPERATIVE = {"assignors": ["range"]}, {"assignors": ["cooperative-sticky"]}


def subscribed(topics: Iterable[str] | re.Pattern[str] = ("t",), /, **settings: Any) -> FakeCluster:
    cluster = FakeCluster(**settings)
    cluster.engine.subscribe(topics if isinstance(topics, re.Pattern) else list(topics))
    return cluster


def subscription(request: Any, number: int = 0) -> Subscription:
    """Return the subscription of the latest JoinGroup."""
    blob, _ = decode_stored(ConsumerProtocolSubscription, request.protocols[number].metadata)
    return read_subscription(blob)


def sent_assignments(request: Any) -> dict[str, list[str]]:
    """Return the assignments of the leader's SyncGroup."""
    assignments = {}
    for one in request.assignments:
        blob, _ = decode_stored(ConsumerProtocolAssignment, one.assignment)
        assignments[one.member_id] = [f"{topic}{number}" for topic, number in read_assignment(blob).partitions]
    return assignments


# --- states and transitions -----------------------------------------------------------------------


def test_from_unjoined_to_stable() -> None:
    cluster = FakeCluster()
    assert cluster.member.state is UNJOINED
    cluster.engine.subscribe(["t"])
    cluster.settle()
    assert (cluster.member.state, cluster.count("JoinGroup")) == (UNJOINED, 0), "only a poll joins"
    cluster.poll()
    assert cluster.member.state is PREPARING
    cluster.answer_error("JoinGroup", E.MEMBER_ID_REQUIRED, member_id="me")
    assert (cluster.member.state, cluster.request("JoinGroup").body.member_id) == (PREPARING, "me")
    cluster.answer_join(5)
    assert cluster.member.state is COMPLETING
    cluster.answer_sync([("t", 1)])
    assert (cluster.member.state, cluster.assigned, cluster.listener_calls) == (STABLE, ["t1"], [("assigned", ["t1"])])
    assert cluster.now == 0.0


def rebalance_in_progress(cluster: FakeCluster) -> None:
    cluster.wait_for("Heartbeat")
    cluster.answer_heartbeat(E.REBALANCE_IN_PROGRESS)


def new_subscription(cluster: FakeCluster) -> None:
    cluster.engine.subscribe(["t", "u"])
    cluster.poll()


def requested_rejoin(cluster: FakeCluster) -> None:
    cluster.member.rejoin("so I wish")
    cluster.poll()


@pytest.mark.parametrize("why", [rebalance_in_progress, new_subscription, requested_rejoin])
def test_from_stable_to_preparing_rebalance(why) -> None:
    cluster = subscribed(topics={"t": 3, "u": 1})
    cluster.make_stable(generation=5)
    why(cluster)
    assert (cluster.member.state, cluster.request("JoinGroup").body.member_id) == (PREPARING, "me")
    cluster.answer_join(6)
    cluster.answer_sync([("t", 2)])
    assert (cluster.member.state, cluster.member.generation, cluster.assigned) == (STABLE, 6, ["t2"])


@pytest.mark.parametrize(("code", "member_id"), [(E.UNKNOWN_MEMBER_ID, ""), (E.ILLEGAL_GENERATION, "me")])
def test_from_stable_to_unjoined_by_an_error(code: E, member_id: str) -> None:
    cluster = subscribed()
    cluster.make_stable(generation=5)
    cluster.wait_for("Heartbeat")
    cluster.answer_heartbeat(code, polling=False)
    assert (cluster.member.state, cluster.member.generation, cluster.member.member_id) == (UNJOINED, -1, member_id)
    cluster.poll()
    assert cluster.listener_calls[1:] == [("lost", ["t0"])]
    assert cluster.request("JoinGroup").body.member_id == member_id


@pytest.mark.parametrize("state", [UNJOINED, PREPARING, COMPLETING, STABLE])
def test_from_anywhere_to_unjoined_by_leaving(state: ClassicState) -> None:
    cluster = subscribed()
    if state is not UNJOINED:
        cluster.poll()
    if state in (COMPLETING, STABLE):
        cluster.answer_join()
    if state is STABLE:
        cluster.answer_sync([("t", 0)])
    assert cluster.member.state is state
    cluster.engine.unsubscribe()
    cluster.settle()
    assert cluster.member.state is UNJOINED
    assert cluster.count("LeaveGroup") == (state in (COMPLETING, STABLE)), "a member without an id sends none"
    cluster.wait(20)
    assert (cluster.count("Heartbeat"), cluster.count("JoinGroup")) == (0, int(state is not UNJOINED))


def test_responses_after_leaving_are_ignored() -> None:
    cluster = subscribed()
    cluster.poll()
    cluster.engine.unsubscribe()
    cluster.answer_join(5, polling=False)
    assert (cluster.member.state, cluster.member.generation, cluster.count("SyncGroup")) == (UNJOINED, -1, 0)
    cluster.engine.subscribe(["t"])
    cluster.poll()
    assert cluster.request("JoinGroup").body.member_id == ""


def test_join_response_in_the_wrong_state_is_retried() -> None:
    cluster = subscribed()
    cluster.make_stable(generation=5)
    heartbeat = cluster.wait_for("Heartbeat")
    cluster.member.rejoin("a test")
    cluster.poll()
    cluster.answer_error("Heartbeat", E.UNKNOWN_MEMBER_ID)
    assert (heartbeat.done, cluster.member.state) == (True, UNJOINED)
    cluster.answer_join(6)
    assert (cluster.member.generation, cluster.count("SyncGroup")) == (-1, 1)
    cluster.wait_for("JoinGroup")
    assert cluster.now == pytest.approx(3.1), "after the backoff"
    assert (cluster.last("JoinGroup").member_id, cluster.last("JoinGroup").reason) == (
        "",
        "Heartbeat failed with UNKNOWN_MEMBER_ID",
    )


def test_sync_response_of_an_old_generation_is_ignored() -> None:
    cluster = subscribed()
    cluster.poll()
    cluster.answer_join(5)
    cluster.member.status.leave_generation(E.ILLEGAL_GENERATION, "a commit")
    cluster.answer_sync([("t", 0)])
    assert (cluster.assigned, cluster.listener_calls) == ([], [])
    assert cluster.request("JoinGroup").body.member_id == "me"


def test_generation_that_ends_before_a_poll_is_never_assigned() -> None:
    cluster = subscribed()
    cluster.poll()
    cluster.answer_join(5, polling=False)
    cluster.answer_sync([("t", 0)], polling=False)
    assert (cluster.member.state, cluster.assigned) == (STABLE, []), "only a poll applies the assignment"
    cluster.wait_for("Heartbeat", polling=False)
    cluster.answer_heartbeat(E.UNKNOWN_MEMBER_ID, polling=False)
    cluster.poll()
    assert (cluster.assigned, cluster.listener_calls, cluster.request("JoinGroup").body.member_id) == ([], [], "")


@pytest.mark.parametrize(("code", "member_id"), [(E.UNKNOWN_MEMBER_ID, ""), (E.ILLEGAL_GENERATION, "me")])
def test_unknown_member_in_sync_group_sends_no_heartbeat(code: E, member_id: str) -> None:
    cluster = subscribed(assignors=["cooperative-sticky"])
    cluster.make_stable(generation=5)
    rebalance_in_progress(cluster)
    cluster.answer_join(6)
    beats = cluster.count("Heartbeat")
    cluster.answer_error("SyncGroup", code, polling=False)
    cluster.wait(10)
    assert (cluster.member.state, cluster.count("Heartbeat")) == (UNJOINED, beats), "the rejoin waits for the listener"
    cluster.poll()
    assert (cluster.listener_calls[1:], cluster.request("JoinGroup").body.member_id) == ([("lost", ["t0"])], member_id)


def test_rebalance_without_polls_waits_only_for_the_listener() -> None:
    cluster = subscribed(**EAGER)
    cluster.make_stable(generation=5)
    cluster.wait_for("Heartbeat")
    cluster.answer_heartbeat(E.REBALANCE_IN_PROGRESS, polling=False)
    cluster.wait(1)
    assert (cluster.listener_calls[1:], cluster.count("JoinGroup")) == ([], 1)
    cluster.poll()
    cluster.answer_join(6, polling=False)
    cluster.answer_sync([("t", 1)], polling=False)
    assert cluster.listener_calls[1:] == [("revoked", ["t0"])]
    cluster.poll()
    assert cluster.listener_calls[2:] == [("assigned", ["t1"])]


# --- JoinGroup and SyncGroup requests -----------------------------------------------------------------------------


def test_join_group_request_fields() -> None:
    cluster = subscribed(
        ["u", "t"], session_timeout=20.0, max_poll_interval=200.0, client_rack="r1", topics={"t": 1, "u": 1}
    )
    cluster.poll()
    request = cluster.request("JoinGroup")
    sent = request.body
    assert (sent.group_id, sent.session_timeout_ms, sent.rebalance_timeout_ms) == ("g", 20_000, 200_000)
    assert (sent.member_id, sent.group_instance_id, sent.protocol_type) == ("", None, "consumer")
    assert [protocol.name for protocol in sent.protocols] == ["range", "cooperative-sticky"], "in order of preference"
    sent_subscription = subscription(sent)
    assert (
        sent_subscription.topics,
        sent_subscription.owned,
        sent_subscription.generation,
        sent_subscription.rack_id,
    ) == (["t", "u"], [], -1, "r1")
    assert sent.reason


def test_join_group_v0_has_no_rebalance_timeout() -> None:
    cluster = subscribed(served={"JoinGroup": (0, 0)})
    cluster.poll()
    request = cluster.request("JoinGroup")
    assert (request.version, request.body.rebalance_timeout_ms) == (0, -1)


@pytest.mark.parametrize(
    ("request_timeout", "rebalance", "takes"),
    [(30.0, 300.0, 305.0), (30.0, 10.0, 30.0), (400.0, 300.0, 400.0)],
)
def test_join_group_timeout_is_max_poll_interval_plus_5_s(request_timeout, rebalance, takes) -> None:
    cluster = subscribed(request_timeout=request_timeout, max_poll_interval=rebalance)
    cluster.poll()
    request = cluster.request("JoinGroup")
    cluster.wait(takes - 0.01)
    assert cluster.request("JoinGroup") is request
    cluster.wait(0.02)
    assert request.link.state.value == "closed"
    assert cluster.wait_for("JoinGroup", within=1.0) is not request


def test_each_join_group_has_a_new_subscription() -> None:
    cluster = subscribed(**COOPERATIVE)
    cluster.make_stable([("t", 0), ("t", 2)], generation=5)
    cluster.member.rejoin("a test")
    cluster.poll()
    sent_subscription = subscription(cluster.request("JoinGroup").body)
    assert (sent_subscription.owned, sent_subscription.generation) == ([("t", 0), ("t", 2)], 5)


def test_static_member_rejoins_and_sends_no_leave_group() -> None:
    cluster = subscribed(group_instance_id="one")
    cluster.poll()
    assert cluster.request("JoinGroup").version >= 5
    assert cluster.request("JoinGroup").body.group_instance_id == "one"
    cluster.answer_join()
    assert cluster.request("SyncGroup").body.group_instance_id == "one"
    cluster.answer_sync([("t", 0)])
    cluster.commit({("t", 0): 8})
    request = cluster.request("OffsetCommit")
    assert (request.body.group_instance_id, request.version >= 7) == ("one", True)
    cluster.answer_commit()
    cluster.engine.unsubscribe()
    cluster.wait(60)
    assert cluster.count("LeaveGroup") == 0, "it is static"


def test_static_member_needs_join_group_v5() -> None:
    cluster = subscribed(group_instance_id="one", served={"JoinGroup": (0, 4)})
    with pytest.raises(UnsupportedVersion, match=r"JoinGroup: the consumer needs v5-9, node1:9001 supports v0-4"):
        cluster.poll()


@pytest.mark.parametrize("version", [2, 5])
def test_leave_group_by_version(version: int) -> None:
    cluster = subscribed(served={"LeaveGroup": (0, version)})
    cluster.make_stable()
    cluster.engine.unsubscribe()
    cluster.settle()
    request = cluster.request("LeaveGroup").body
    if version < 3:
        assert (request.group_id, request.member_id) == ("g", "me")
    else:
        assert [(one.member_id, one.group_instance_id) for one in request.members] == [("me", None)]
        assert "unsubscribed" in request.members[0].reason
    assert cluster.engine.leaving
    cluster.answer_error("LeaveGroup", E.UNKNOWN_MEMBER_ID, polling=False)
    assert not cluster.engine.leaving, "whatever the response is"


def test_follower_sends_sync_group_without_assignments() -> None:
    cluster = subscribed()
    cluster.poll()
    cluster.answer_join(5)
    sent = cluster.request("SyncGroup").body
    assert (sent.group_id, sent.generation_id, sent.member_id, sent.assignments) == ("g", 5, "me", [])
    assert (sent.protocol_type, sent.protocol_name) == ("consumer", "range")


# --- the user's listener -------------------------------------------------------------------------------------------


def test_eager_member_revokes_everything_before_it_joins() -> None:
    cluster = subscribed(**EAGER)
    cluster.make_stable([("t", 0), ("t", 1)])
    joins = []
    cluster.on_listener_call = lambda method: joins.append((method, cluster.count("JoinGroup")))
    cluster.member.rejoin("a test")
    cluster.poll()
    assert (cluster.listener_calls[1:], joins) == ([("revoked", ["t0", "t1"])], [("revoked", 1)])
    assert subscription(cluster.request("JoinGroup").body).owned == []
    assert cluster.assigned == []
    cluster.answer_join(2)
    cluster.answer_sync([("t", 1), ("t", 2)])
    assert cluster.listener_calls[2:] == [("assigned", ["t1", "t2"])]


def test_cooperative_keeps_partitions_and_rejoins_after_revoking() -> None:
    cluster = subscribed(**COOPERATIVE)
    cluster.make_stable([("t", 0), ("t", 1)])
    cluster.member.rejoin("a test")
    cluster.poll()
    assert (cluster.listener_calls[1:], cluster.assigned) == ([], ["t0", "t1"]), "no revocation before the join"
    cluster.answer_join(2)
    cluster.answer_sync([("t", 1), ("t", 2)])
    assert cluster.listener_calls[1:] == [("revoked", ["t0"]), ("assigned", ["t2"])]
    assert cluster.assigned == ["t1", "t2"]
    assert subscription(cluster.request("JoinGroup").body).owned == [("t", 1), ("t", 2)], "at once"
    cluster.answer_join(3)
    cluster.answer_sync([("t", 1), ("t", 2)])
    assert cluster.listener_calls[3:] == [("assigned", [])]
    cluster.wait(2)
    assert cluster.count("JoinGroup") == 3, "no rejoin without a revocation"


def test_revoked_partitions_are_not_fetched_during_on_revoked() -> None:
    cluster = subscribed(**COOPERATIVE)
    cluster.make_stable([("t", 0), ("t", 1)])
    rebalance_in_progress(cluster)
    cluster.answer_join(2)
    positions, revoking = cluster.engine.positions, []
    cluster.on_listener_call = lambda kind: revoking.append((kind, [at.revoking for _, at in positions.items()]))
    cluster.answer_sync([("t", 0)])
    assert revoking == [("revoked", [False, True]), ("assigned", [False])]


def test_cooperative_revokes_unsubscribed_topics_before_it_joins() -> None:
    cluster = subscribed(["t", "u"], topics={"t": 2, "u": 2}, **COOPERATIVE)
    cluster.make_stable([("t", 0), ("u", 1)])
    cluster.engine.subscribe(["t"])
    cluster.poll()
    assert (cluster.listener_calls[1:], cluster.assigned) == ([("revoked", ["u1"])], ["t0"])
    assert subscription(cluster.request("JoinGroup").body).owned == [("t", 0)]


def test_offsets_are_committed_before_partitions_are_revoked() -> None:
    cluster = subscribed(enable_auto_commit=True, **EAGER)
    cluster.make_stable(generation=5)
    cluster.member.rejoin("a test")
    cluster.poll()
    sent = cluster.request("OffsetCommit").body
    assert (sent.generation_id_or_member_epoch, sent.topics[0].partitions[0].committed_offset) == (5, 7)
    assert (cluster.listener_calls[1:], cluster.count("JoinGroup")) == ([], 1)
    assert [position.revoking for _, position in cluster.engine.positions.items()] == [True], "no further records"
    cluster.answer_commit(E.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.wait_for("OffsetCommit")
    assert (cluster.listener_calls[1:], cluster.count("JoinGroup")) == ([], 1), (
        "the commit is retried until it is stored"
    )
    cluster.answer_commit()
    assert (cluster.listener_calls[1:], cluster.count("JoinGroup")) == ([("revoked", ["t0"])], 2)


def test_rejected_commit_does_not_delay_the_rebalance() -> None:
    cluster = subscribed(enable_auto_commit=True, **EAGER)
    cluster.make_stable()
    cluster.member.rejoin("a test")
    cluster.poll()
    cluster.answer_commit(E.TOPIC_AUTHORIZATION_FAILED)
    assert (cluster.listener_calls[1:], cluster.count("JoinGroup")) == ([("revoked", ["t0"])], 2)


def test_rebalance_does_not_wait_for_commits_of_old_generations() -> None:
    cluster = subscribed(enable_auto_commit=True, **EAGER)
    cluster.make_stable()
    cluster.wait_for("Heartbeat")
    cluster.member.rejoin("a test")
    cluster.poll()
    assert cluster.request("OffsetCommit")
    cluster.answer_heartbeat(E.UNKNOWN_MEMBER_ID)
    assert (cluster.listener_calls[1:], cluster.last("JoinGroup").member_id) == ([("lost", ["t0"])], "")
    assert cluster.request("OffsetCommit"), "it has no response yet"


def test_slow_commit_delays_a_rebalance_at_most_its_timeout() -> None:
    cluster = subscribed(enable_auto_commit=True, max_poll_interval=10.0, **EAGER)
    cluster.make_stable()
    cluster.member.rejoin("a test")
    cluster.poll()
    cluster.wait(9.9, polling=True)
    assert cluster.listener_calls[1:] == []
    cluster.wait(0.2, polling=True)
    assert cluster.listener_calls[1:] == [("revoked", ["t0"])]


@pytest.mark.parametrize("kind", [EAGER, COOPERATIVE])
def test_on_lost_is_called_without_a_generation(kind) -> None:
    cluster = subscribed(**kind)
    cluster.make_stable()
    cluster.wait_for("Heartbeat")
    cluster.answer_heartbeat(E.UNKNOWN_MEMBER_ID)
    assert (cluster.listener_calls[1:], cluster.assigned) == ([("lost", ["t0"])], [])
    assert subscription(cluster.request("JoinGroup").body).owned == []


def test_on_lost_follows_if_the_generation_ends_in_on_revoked() -> None:
    cluster = subscribed(["t", "u"], topics={"t": 2, "u": 2}, **COOPERATIVE)
    cluster.make_stable([("t", 0), ("u", 1)])
    cluster.engine.subscribe(["t"])
    cluster.on_listener_call = lambda method: (
        method == "revoked" and cluster.member.status.leave_generation(E.UNKNOWN_MEMBER_ID, "Heartbeat")
    )
    cluster.poll()
    assert cluster.listener_calls[1:] == [("revoked", ["u1"]), ("lost", ["t0"])]
    assert cluster.assigned == []


@pytest.mark.parametrize(
    ("kind", "method"), [(EAGER, "revoked"), (EAGER, "assigned"), (COOPERATIVE, "revoked"), (EAGER, "lost")]
)
def test_listener_error_is_raised_by_poll_rebalance_continues(kind, method: str) -> None:
    cluster = subscribed(**kind)
    cluster.make_stable()
    cluster.listener_raises[method] = raised = OSError("mine")

    def rebalance() -> None:
        if method == "lost":
            cluster.wait_for("Heartbeat")
            cluster.answer_heartbeat(E.UNKNOWN_MEMBER_ID)
        else:
            cluster.member.rejoin("a test")
        cluster.poll()
        cluster.answer_join(2)
        cluster.answer_sync([("t", 1)])

    with pytest.raises(OSError, match="mine") as caught:
        rebalance()
    assert caught.value is raised
    calls_before = len(cluster.listener_calls)
    cluster.poll()
    if cluster.pending("JoinGroup") and kind is EAGER:
        cluster.answer_join(3)
        cluster.answer_sync([("t", 1)])
    assert cluster.assigned == ["t1"]
    assert [called for called, _ in cluster.listener_calls[calls_before:]].count(method) == 0, (
        "the listener is called once"
    )
    assert cluster.member.state is (STABLE if kind is EAGER else PREPARING)


def test_first_of_two_listener_errors_is_raised() -> None:
    cluster = subscribed(**COOPERATIVE)
    cluster.make_stable()
    cluster.member.rejoin("a test")
    cluster.poll()
    cluster.answer_join(2)
    cluster.listener_raises = {"revoked": OSError("first"), "assigned": OSError("second")}
    with pytest.raises(OSError, match="first"):
        cluster.answer_sync([("t", 1)])
    assert (cluster.listener_calls[1:], cluster.assigned) == ([("revoked", ["t0"]), ("assigned", ["t1"])], ["t1"])


def test_member_fenced_while_its_listener_fails_does_not_rejoin() -> None:
    """Polls raise the listener's error, then FencedInstance. A JoinGroup would fence the member that replaced it."""
    cluster = subscribed(group_instance_id="one", **EAGER)
    cluster.make_stable()
    cluster.wait_for("Heartbeat")
    cluster.listener_raises["revoked"] = OSError("mine")
    cluster.on_listener_call = lambda _: cluster.answer_heartbeat(E.FENCED_INSTANCE_ID, polling=False)
    cluster.member.rejoin("a test")
    with pytest.raises(OSError, match="mine"):
        cluster.poll()
    for _ in range(2):
        with pytest.raises(FencedInstance):
            cluster.poll()
    assert cluster.count("JoinGroup") == 1


# --- committing around a rebalance ---------------------------------------------------------------------------------


def test_commit_during_a_rebalance_fails() -> None:
    cluster = subscribed(**COOPERATIVE)
    assert isinstance(cluster.commit({("t", 0): 8}).error, CommitFailed), "not a member yet"
    cluster.make_stable()
    cluster.member.rejoin("a test")
    cluster.poll()
    assert isinstance(cluster.commit({("t", 0): 8}).error, RebalanceInProgress)
    cluster.answer_join(2, polling=False)
    assert isinstance(cluster.commit({("t", 0): 8}).error, RebalanceInProgress)
    cluster.answer_sync([("t", 1)], polling=False)
    assert isinstance(cluster.commit({("t", 0): 8}).error, RebalanceInProgress), "t0 may belong to another member"
    assert cluster.count("OffsetCommit") == 0


@pytest.mark.parametrize("kind", [EAGER, COOPERATIVE])
def test_listener_can_commit_in_on_revoked(kind) -> None:
    cluster = subscribed(**kind)
    cluster.make_stable()
    commits = []
    cluster.on_listener_call = lambda method: method == "revoked" and commits.append(cluster.commit({("t", 0): 8}))
    cluster.member.rejoin("a test")
    cluster.poll()
    if kind is COOPERATIVE:
        cluster.answer_join(2)
        cluster.answer_sync([("t", 1)])
    assert [commit.error for commit in commits] == [None]
    assert cluster.request("OffsetCommit").body.generation_id_or_member_epoch == (1 if kind is EAGER else 2)


# --- leading -------------------------------------------------------------------------------------------------------


def test_leader_assigns_and_watches_the_topics_of_all_members() -> None:
    cluster = subscribed(topics={"t": 3, "u": 2, "w": 1})
    cluster.poll()
    cluster.answer_join(members={"me": ["t"], "you": ["t", "u"]})
    assert sent_assignments(cluster.request("SyncGroup").body) == {"me": ["t0", "t1"], "you": ["t2", "u0", "u1"]}
    request = [topic.name for topic in cluster.last("Metadata").topics]
    assert request == ["t", "u"], "also topics of other members"


def test_leader_applies_its_sync_group_response() -> None:
    cluster = subscribed()
    cluster.poll()
    cluster.answer_join(members={"me": ["t"]})
    cluster.answer_sync([("t", 2)])
    assert cluster.assigned == ["t2"]
    assert cluster.member.leading


def add_partition(cluster: FakeCluster) -> None:
    """Add a partition to a topic, and refresh the metadata."""
    cluster.topics["u"] += 1
    cluster.engine.metadata.refresh()
    cluster.settle(polling=True)


def test_new_partitions_make_only_the_leader_rejoin() -> None:
    leader, follower = subscribed(topics={"t": 3, "u": 1}), subscribed(["u"], topics={"t": 3, "u": 1})
    leader.make_stable(members={"me": ["t"], "you": ["u"]})
    follower.make_stable([("u", 0)])
    for cluster in (leader, follower):
        add_partition(cluster)
    assert (leader.count("JoinGroup"), follower.count("JoinGroup")) == (2, 1)
    assert "partitions of the group's topics" in leader.last("JoinGroup").reason


def test_former_leader_no_longer_watches_topics() -> None:
    cluster = subscribed(topics={"t": 3, "u": 1})
    cluster.make_stable(members={"me": ["t"], "you": ["u"]})
    rebalance_in_progress(cluster)
    cluster.answer_join(2)
    cluster.answer_sync([("t", 0)])
    add_partition(cluster)
    cluster.poll()
    assert cluster.count("JoinGroup") == 2


def test_former_leader_no_longer_requests_topics_of_others() -> None:
    cluster = subscribed(topics={"t": 1, "u": 1})
    cluster.make_stable(members={"me": ["t"], "other": ["u"]})
    cluster.engine.metadata.refresh()
    cluster.settle()
    assert [topic.name for topic in cluster.last("Metadata").topics] == ["t", "u"]
    rebalance_in_progress(cluster)
    cluster.answer_join(2)
    cluster.answer_sync([("t", 0)])
    cluster.engine.metadata.refresh()
    cluster.settle()
    assert [topic.name for topic in cluster.last("Metadata").topics] == ["t"]


def test_new_replica_racks_make_the_leader_rejoin() -> None:
    cluster = subscribed()
    cluster.make_stable(members={"me": ["t"]})
    cluster.racks = {1: "r1"}
    cluster.engine.metadata.refresh()
    cluster.settle(polling=True)
    assert cluster.count("JoinGroup") == 2


def leader_with_a_metadata_request_in_flight(cluster: FakeCluster) -> None:
    """Make the member a leader that waits for a Metadata response whose topics are no longer required."""
    del cluster.answers["Metadata"]
    cluster.engine.metadata.refresh()
    cluster.poll()
    cluster.answer_join(members={"me": ["t"], "other": ["u"]})
    cluster.engine.subscribe(["t", "v"])
    cluster.poll()
    cluster.answer("Metadata", cluster.metadata(cluster.request("Metadata")))


def test_leader_requests_group_topics_after_subscribing_again() -> None:
    cluster = subscribed(topics={"t": 3, "u": 1, "v": 1})
    cluster.poll()
    leader_with_a_metadata_request_in_flight(cluster)
    cluster.answer("Metadata", cluster.metadata(cluster.request("Metadata")))
    assert [one.member_id for one in cluster.request("SyncGroup").body.assignments] == ["me", "other"]


def test_leader_evicted_during_its_metadata_request_rejoins() -> None:
    cluster = subscribed(topics={"t": 3, "u": 1, "v": 1})
    cluster.poll()
    leader_with_a_metadata_request_in_flight(cluster)
    cluster.wait_for("Heartbeat", polling=True)
    cluster.answer_heartbeat(E.UNKNOWN_MEMBER_ID)
    assert cluster.request("JoinGroup").body.member_id == ""


def test_partitions_added_while_assigning_make_the_leader_rejoin() -> None:
    cluster = subscribed()
    cluster.poll()
    cluster.answer_join(members={"me": ["t"]})
    cluster.topics["t"] = 4
    cluster.engine.metadata.refresh()
    cluster.settle(polling=True)
    assert cluster.count("JoinGroup") == 1
    cluster.answer_sync([("t", 0)])
    assert cluster.count("JoinGroup") == 2


def test_returning_static_leader_skips_assignment_but_watches() -> None:
    cluster = subscribed(group_instance_id="one")
    cluster.poll()
    cluster.answer_join(members={"me": ["t"]}, skip_assignment=True)
    assert cluster.request("SyncGroup").body.assignments == []
    cluster.answer_sync([("t", 0)])
    cluster.topics["t"] = 4
    cluster.engine.metadata.refresh()
    cluster.settle(polling=True)
    assert cluster.count("JoinGroup") == 2


class FixedAssignor(Assignor):
    """An assignor that returns a given assignment."""

    name = "nonsense"

    def __init__(self, answer: Mapping[str, list[tuple[str, int]]]) -> None:
        self.answer = answer

    def assign(self, topics: Any, members: Any) -> dict[Any, Any]:
        return {member_id: Assignment(partitions) for member_id, partitions in self.answer.items()}


INVALID_ASSIGNMENTS = [
    ({"who": [("t", 0)]}, "partitions are assigned to 'who', which is not a member of the group"),
    ({"me": [("t", 9)]}, "t-9 is assigned to 'me', but the metadata has no such partition"),
    ({"me": [("u", 0)]}, "u-0 is assigned to 'me', which does not subscribe to u"),
    ({"me": [("t", 0)], "you": [("t", 0)]}, "t-0 is assigned to 'you', but also to 'me'"),
    ({"me": [("t", 0), ("t", 0)]}, "t-0 is assigned to 'me' twice"),
]


@pytest.mark.parametrize(("answer", "text"), INVALID_ASSIGNMENTS, ids=[text for _, text in INVALID_ASSIGNMENTS])
def test_invalid_assignment_error_names_member_and_partition(answer, text: str) -> None:
    cluster = subscribed(topics={"t": 3, "u": 1}, assignors=[FixedAssignor(answer)])
    cluster.poll()
    with pytest.raises(AssignorError, match=re.escape(text)):
        cluster.answer_join(members={"me": ["t"], "you": ["t", "u"]})
    assert cluster.count("SyncGroup") == 0, "the assignment is not sent"
    cluster.poll()
    assert cluster.count("JoinGroup") == 2, "the next poll rejoins"


def test_invalid_assignment_outside_a_poll_is_raised_by_the_next() -> None:
    cluster = subscribed(assignors=[FixedAssignor({"who": []})])
    cluster.poll()
    cluster.answer_join(members={"me": ["t"]}, polling=False)
    with pytest.raises(AssignorError, match="not a member"):
        cluster.poll()


def test_unknown_assignor_name_lists_the_known_ones() -> None:
    with pytest.raises(
        AssignorError, match="unknown assignor 'best': use one of range, roundrobin, sticky, cooperative-sticky"
    ):
        FakeCluster(assignors=["best"])


@pytest.mark.parametrize("leads", [True, False])
def test_group_with_an_assignor_that_this_member_lacks(leads: bool) -> None:
    cluster = subscribed()
    cluster.poll()

    def on() -> None:
        cluster.answer_join(members={"me": ["t"]} if leads else None, protocol_name="best")
        cluster.answer_sync([("t", 0)])

    with pytest.raises(
        UnknownAssignor,
        match="the group chose the assignor 'best', but this member supports only range, cooperative-sticky: add 'best'",
    ):
        on()
    cluster.poll()
    assert cluster.count("JoinGroup") == 2


def test_on_assignment_is_called_for_each_member() -> None:
    calls = []

    class RecordingAssignor(FixedAssignor):
        def on_assignment(self, assignment: Any, generation: int) -> None:
            calls.append((list(assignment.partitions), generation))
            raise OSError("mine")

    cluster = subscribed(assignors=[RecordingAssignor({})])
    cluster.poll()
    cluster.answer_join(5)
    with pytest.raises(OSError, match="mine"):
        cluster.answer_sync([("t", 1)])
    assert calls == [([("t", 1)], 5)]
    assert (cluster.assigned, cluster.listener_calls) == (["t1"], [("assigned", ["t1"])]), (
        "its error does not change the assignment"
    )


def test_error_of_the_assignor_precedes_errors_of_the_listener() -> None:
    class FailingAssignor(FixedAssignor):
        protocols = ("cooperative",)

        def on_assignment(self, assignment: Any, generation: int) -> None:
            raise OSError("assignor")

    cluster = subscribed(assignors=[FailingAssignor({})])
    cluster.poll()
    cluster.answer_join(1)
    with pytest.raises(OSError, match="assignor"):
        cluster.answer_sync([("t", 0)])
    cluster.member.rejoin("a test")
    cluster.poll()
    cluster.answer_join(2)
    cluster.listener_raises = {"revoked": OSError("revoked"), "assigned": OSError("assigned")}
    with pytest.raises(OSError, match="assignor"):
        cluster.answer_sync([("t", 1)])
    assert cluster.listener_calls[1:] == [("revoked", ["t0"]), ("assigned", ["t1"])]


def test_invalid_subscription_error_names_the_member() -> None:
    cluster = subscribed()
    cluster.poll()
    bad = JoinGroupResponse.Member(member_id="bad", metadata=b"\0\1\0\0\0\7")
    answer = JoinGroupResponse(
        generation_id=1, protocol_type="consumer", protocol_name="range", leader="me", member_id="me", members=[bad]
    )
    with pytest.raises(ConsumerError, match="invalid subscription of member 'bad'"):
        cluster.answer("JoinGroup", answer)


# --- assignments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [b"", b"\0\3\0\0\0\0\xff\xff\xff\xff"])
def test_empty_assignment_bytes_mean_no_partitions(share: bytes) -> None:
    cluster = subscribed()
    cluster.poll()
    cluster.answer_join()
    cluster.answer_sync(share)
    assert (cluster.member.state, cluster.listener_calls) == (STABLE, [("assigned", [])])


@pytest.mark.parametrize("share", [b"\0", b"\0\3\0\0\0\7"])
def test_invalid_assignment_is_raised_and_the_member_rejoins(share: bytes) -> None:
    cluster = subscribed()
    cluster.poll()
    for generation in (1, 2):
        cluster.answer_join(generation)
        with pytest.raises(ConsumerError, match=r"the assignment .*(cannot be decoded|is not)"):
            cluster.answer_sync(share)
        cluster.poll()
    assert (cluster.listener_calls, cluster.count("JoinGroup")) == ([("revoked", [])] * 2, 3)


def test_assignment_of_an_unsubscribed_topic_makes_it_rejoin() -> None:
    cluster = subscribed(topics={"t": 3, "u": 1}, **COOPERATIVE)
    cluster.poll()
    cluster.answer_join()
    cluster.answer_sync([("t", 0), ("u", 0)])
    assert (cluster.assigned, cluster.listener_calls) == ([], [])
    assert "without a subscription: u" in cluster.request("JoinGroup").body.reason


@pytest.mark.parametrize("field", [{"protocol_type": "connect"}, {"protocol_name": "other"}])
def test_sync_group_response_with_another_protocol(field) -> None:
    cluster = subscribed()
    cluster.poll()
    cluster.answer_join()
    with pytest.raises(InconsistentGroupProtocol, match="SyncGroup returned protocol"):
        cluster.answer_sync([("t", 0)], **field)
    assert cluster.assigned == []


def test_join_group_response_with_another_protocol_type() -> None:
    cluster = subscribed()
    cluster.poll()
    with pytest.raises(InconsistentGroupProtocol, match="the protocol type of the group is 'connect'"):
        cluster.answer_join(protocol_type="connect")
    assert cluster.count("SyncGroup") == 0


def test_broker_without_the_join_group_api() -> None:
    cluster = subscribed(served={"JoinGroup": (0, -1)})
    with pytest.raises(
        UnsupportedVersion, match="JoinGroup: the consumer needs v0-9, node1:9001 does not support this API"
    ):
        cluster.poll()


# --- patterns --------------------------------------------------------------------------------------------------------

T = re.compile("t.*")


def test_pattern_subscription_joins_after_metadata() -> None:
    cluster = subscribed(T, topics={"t1": 1, "t2": 1, "a-t1": 1, "__t": 1})
    del cluster.answers["Metadata"]
    cluster.poll()
    assert cluster.request("Metadata").body.topics is None, "all topics are requested"
    cluster.wait(1)
    assert cluster.count("JoinGroup") == 0
    cluster.answer("Metadata", cluster.metadata(cluster.request("Metadata")))
    cluster.poll()
    assert subscription(cluster.request("JoinGroup").body).topics == ["t1", "t2"], "whole names, no internal ones"
    cluster.answer_join()
    cluster.answer_sync([("t1", 0)])
    assert (cluster.assigned, cluster.count("JoinGroup")) == (["t1" + "0"], 1)


def test_topics_replace_a_pattern_without_metadata() -> None:
    cluster = FakeCluster(topics={"t1": 1, "u": 1})
    del cluster.answers["Metadata"]
    cluster.settle()
    cluster.engine.subscribe(T)
    cluster.poll()
    cluster.engine.subscribe(["u"])
    cluster.answer("Metadata", cluster.metadata(cluster.request("Metadata")))
    cluster.answers["Metadata"] = cluster.metadata
    cluster.wait(1.0, polling=True)
    assert subscription(cluster.request("JoinGroup").body).topics == ["u"]


def test_metadata_of_a_replaced_pattern_keeps_the_topics() -> None:
    cluster = FakeCluster(topics={"t1": 1, "u": 1})
    cluster.hold("Metadata")
    cluster.engine.subscribe(T)
    cluster.settle()
    request = cluster.request("Metadata")
    assert request.body.topics is None
    cluster.engine.subscribe(["u"])
    cluster.answer(request, cluster.metadata(request))
    assert cluster.engine.subscription.topics == {"u"}
    assert subscription(cluster.request("JoinGroup").body).topics == ["u"]


@pytest.mark.parametrize("joined", [True, False])
def test_pattern_after_leaving_joins_with_new_metadata(joined: bool) -> None:
    cluster = subscribed(topics={"t": 1, "t2": 1})
    cluster.poll()
    if joined:
        cluster.answer_join()
        cluster.answer_sync([("t", 0)])
    cluster.engine.unsubscribe()
    cluster.settle()
    cluster.hold("Metadata")
    cluster.engine.subscribe(T)
    cluster.poll()
    assert cluster.count("JoinGroup") == 1
    request = cluster.request("Metadata")
    cluster.answer(request, cluster.metadata(request))
    assert subscription(cluster.last("JoinGroup")).topics == ["t", "t2"]


def test_pattern_does_not_match_internal_topics() -> None:
    cluster = subscribed(re.compile(".*"), topics={"t": 1, "__consumer_offsets": 50})
    cluster.poll()
    assert subscription(cluster.request("JoinGroup").body).topics == ["t"]


def test_new_matching_topic_makes_the_member_rejoin() -> None:
    cluster = subscribed(T, topics={"t1": 1}, metadata_max_age=20.0)
    cluster.make_stable([("t1", 0)])
    cluster.topics["t2"] = 1
    request = cluster.wait_for("JoinGroup", within=21.0)
    assert subscription(request.body).topics == ["t1", "t2"]
    assert request.at <= 20.0


def test_assigned_topics_that_match_the_pattern_are_kept() -> None:
    cluster = subscribed(T, topics={"t1": 1})
    cluster.poll()
    cluster.answer_join()
    cluster.topics["t2"] = 1
    requests = cluster.count("Metadata")
    cluster.answer_sync([("t1", 0), ("t2", 0)])
    assert (cluster.assigned, cluster.count("JoinGroup")) == (["t10", "t20"], 1)
    assert cluster.engine.subscription.topics == {"t1", "t2"}
    assert cluster.count("Metadata") == requests + 1, "the leader's metadata is newer"


def test_pattern_subscription_refreshes_metadata_before_joins() -> None:
    cluster = subscribed(T, topics={"t1": 1})
    cluster.make_stable([("t1", 0)])
    cluster.topics["t2"] = 1
    rebalance_in_progress(cluster)
    assert subscription(cluster.request("JoinGroup").body).topics == ["t1", "t2"]


def test_subscription_lists_topics_in_the_order_of_java() -> None:
    blob = encode_stored(write_subscription(Subscription(["u", "t"])), 3)
    cluster = subscribed(["u", "t"], topics={"t": 1, "u": 1}, assignors=[assignor("range")])
    cluster.poll()
    assert cluster.request("JoinGroup").body.protocols[0].metadata == blob


def test_fatal_topic_error_is_raised_by_poll() -> None:
    cluster = subscribed()
    cluster.answers["Metadata"] = lambda request: cluster.metadata(request, errors={"t": E.TOPIC_AUTHORIZATION_FAILED})
    with pytest.raises(BrokerError, match="topic t failed: TOPIC_AUTHORIZATION_FAILED"):
        cluster.poll()


def test_member_does_not_join_before_the_user_gets_an_error() -> None:
    cluster = subscribed()
    cluster.answers["Metadata"] = lambda request: cluster.metadata(request, errors={"t": E.TOPIC_AUTHORIZATION_FAILED})
    cluster.settle()
    with pytest.raises(BrokerError, match="topic t failed: TOPIC_AUTHORIZATION_FAILED"):
        cluster.poll()
    cluster.settle()
    assert cluster.count("JoinGroup") == 0


# --- versions of brokers -----------------------------------------------------------------------------------------

VERSIONS = [
    (api.name, version)
    for api in APIS.values()
    if api.name
    in (
        "Metadata",
        "FindCoordinator",
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
        "OffsetCommit",
        "OffsetFetch",
    )
    for version in range(api.versions.first, newest(api.key) + 1)
]


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_member_joins_with_every_version(api: str, version: int) -> None:
    cluster = subscribed(served={api: (version, version)})
    cluster.poll()
    if version == 0 and api == "JoinGroup":
        assert cluster.request("JoinGroup").body.rebalance_timeout_ms == -1
    cluster.answer_join(5, members={"me": ["t"]})
    cluster.answer_sync([("t", 0)])
    cluster.wait_for("Heartbeat")
    cluster.answer_heartbeat()
    commit = cluster.commit({("t", 0): 8})
    cluster.answer_commit()
    assert (cluster.assigned, commit.done, commit.error) == (["t0"], True, None)
    cluster.engine.unsubscribe()
    cluster.settle()
    cluster.answer_error("LeaveGroup", 0, polling=False)
    assert {one.version for one in cluster.requests if one.api == api} == {version}
    assert not cluster.engine.leaving


def test_assignment_that_is_too_short_has_its_size_in_the_error() -> None:
    message = r"^the assignment \(1 bytes\) in the SyncGroup response is not a ConsumerProtocolAssignment$"
    with pytest.raises(ConsumerError, match=message):
        decode_assignment(b"\0")
    assert not decode_assignment(b"").partitions


def test_assignment_with_a_version_only_cannot_be_decoded() -> None:
    with pytest.raises(ConsumerError, match=r"^the assignment in the SyncGroup response cannot be decoded: "):
        decode_assignment(b"\0\0")


def test_assignment_has_at_most_100_000_partitions() -> None:
    def blob(count: int) -> bytes:
        return encode_stored(write_assignment(Assignment([("t", number) for number in range(count)])), 3)

    assert len(decode_assignment(blob(100_000)).partitions) == 100_000
    with pytest.raises(ConsumerError, match="the group leader assigned 100,001 partitions, more than the maximum"):
        decode_assignment(blob(100_001))


def test_member_is_stable_once_its_assignment_is_applied() -> None:
    cluster = subscribed()
    assert not cluster.member.stable
    cluster.poll()
    assert not cluster.member.stable
    cluster.answer_join(5, polling=False)
    cluster.answer_sync([("t", 0)], polling=False)
    assert not cluster.member.stable, "a poll has to apply it"
    cluster.poll()
    assert cluster.member.stable
    cluster.member.rejoin("a test")
    assert not cluster.member.stable


def test_poll_timer_runs_between_polls() -> None:
    cluster = subscribed()
    cluster.make_stable()
    heartbeat = cluster.member.heartbeat
    cluster.member.record_poll(waiting=True)
    assert heartbeat.poll_deadline == float("inf")
    cluster.member.record_poll()
    assert heartbeat.poll_deadline == cluster.now + 300.0


def test_status_before_the_first_rebalance() -> None:
    status = MemberStatus("one")
    assert (status.state, status.member_id, status.generation, status.protocol_name) == (UNJOINED, "", -1, None)
    assert (status.rejoin_reason, status.revoked, status.assignment) == ("a new member", False, None)
    assert (status.subscription_version, status.assignment_snapshot, status.failure) == (-1, None, None)
    assert status.identity == Identity(-1, "", "one")


STATIC_VERSIONS = [("JoinGroup", 5), ("SyncGroup", 3), ("Heartbeat", 3)]


@pytest.mark.parametrize(("api", "version"), STATIC_VERSIONS)
def test_lowest_versions_with_which_a_static_member_works(api: str, version: int) -> None:
    cluster = subscribed(group_instance_id="one", served={api: (0, version)})
    cluster.make_stable()
    cluster.wait(4.0)
    assert cluster.last("Heartbeat").group_instance_id == "one"
    assert cluster.of(api)[-1].version == version


@pytest.mark.parametrize(("api", "version"), STATIC_VERSIONS)
def test_static_member_sends_no_request_without_its_instance_id(api: str, version: int) -> None:
    cluster = subscribed(group_instance_id="one", served={api: (0, version - 1)})
    with contextlib.suppress(UnsupportedVersion):
        cluster.make_stable()
        cluster.wait(4.0)
    assert cluster.count(api) == 0


def test_rejoin_with_topic_names_requests_no_metadata() -> None:
    cluster = FakeCluster()
    cluster.engine.subscribe(["t"])
    cluster.make_stable()
    before = cluster.count("Metadata")
    cluster.member.rejoin("again")
    cluster.poll()
    assert cluster.request("JoinGroup")
    assert cluster.count("Metadata") == before


def test_assigned_topics_outside_the_pattern_are_refused() -> None:
    cluster = subscribed(T, topics={"t1": 1, "u": 1})
    cluster.poll()
    cluster.answer_join()
    cluster.answer_sync([("t1", 0), ("u", 0)])
    assert (cluster.assigned, cluster.engine.subscription.topics) == ([], {"t1"})
    assert cluster.request("JoinGroup").body.reason == "the assignment has topics without a subscription: u"


def test_repeated_join_with_a_pattern_requests_no_metadata() -> None:
    cluster = subscribed(T, topics={"t1": 1})
    cluster.poll()
    before = cluster.count("Metadata")
    cluster.hold("Metadata")
    cluster.answer_error("JoinGroup", E.MEMBER_ID_REQUIRED, member_id="me")
    assert cluster.request("JoinGroup").body.member_id == "me"
    assert cluster.count("Metadata") == before


def test_member_without_a_generation_does_not_lead() -> None:
    cluster = subscribed()
    cluster.make_stable(members={"me": ["t"]})
    assert cluster.member.leading
    cluster.member.status.leave_generation(E.ILLEGAL_GENERATION, "a commit")
    assert not cluster.member.leading


def test_member_that_left_during_a_join_can_join_with_one_poll() -> None:
    cluster = subscribed()
    cluster.poll()
    assert cluster.request("JoinGroup")
    cluster.engine.unsubscribe()
    cluster.engine.subscribe(["t"])
    cluster.engine.advance(polling=True)
    cluster._carry_bytes()
    assert cluster.count("JoinGroup") == 2
