"""The timers after a failover, and their start times. Source: Kafka's GroupMetadataManager.onLoaded."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness, stable_member
from tools.consumer_group_harness import ConsumerGroupHarness, MixedGroupHarness

from kwire import ErrorCode as E
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.groups.classic.state import State
from mockbroker.groups.consumer.state import (
    MemberState,
)
from tests.mockbroker.groups.records.test_writer import Coordinators

SESSION = {"group.consumer.session.timeout.ms": 6_000}
REBALANCE = 4_000  # ms


@pytest.fixture
def harness() -> ConsumerGroupHarness:
    return ConsumerGroupHarness(topics={"t": 3}, config=SESSION)


def revoking(harness: ConsumerGroupHarness, **how: object) -> None:
    """Let member a, which has to revoke a partition for b, only send heartbeats without owned partitions."""
    harness.join("a", rebalance_timeout_ms=REBALANCE, **how)
    harness.poll("a")
    harness.join("b")
    harness.beat("a", member_epoch=1, instance_id=how.get("instance_id"))
    assert harness.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS


def stay_alive(harness: ConsumerGroupHarness, seconds: float, *, instance_id: str | None = None) -> None:
    """Let member a send two heartbeats a second; b also reconciles."""
    for _ in range(round(seconds * 2)):
        harness.wait(0.5)
        harness.poll("b")
        harness.beat("a", member_epoch=1, instance_id=instance_id)


# --- KIP-848 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("instance_id", [None, "i"], ids=["dynamic", "static"])
def test_revoking_member_is_fenced_after_its_rebalance_timeout(harness, instance_id):
    """The rebalance timeout restarts with the new coordinator: after 3 s with the first, 4 s with the second."""
    revoking(harness, instance_id=instance_id)
    stay_alive(harness, 3.0, instance_id=instance_id)
    Coordinators(harness).fail_over()
    stay_alive(harness, 3.5, instance_id=instance_id)
    assert "a" in harness.group.members
    stay_alive(harness, 1.0, instance_id=instance_id)
    assert list(harness.group.members) == ["b"]
    expired = next(event for event in harness.journal.events if event.event == "expire")
    assert expired.reason == "partitions were not revoked within the rebalance timeout"
    assert harness.beat("a", member_epoch=1).error_code == E.UNKNOWN_MEMBER_ID


def test_member_that_revokes_after_a_failover_stays(harness):
    revoking(harness)
    Coordinators(harness).fail_over()
    harness.poll("a", rebalance_timeout_ms=REBALANCE, subscribed_topic_names=["t"])  # a full request
    harness.settle()
    for _ in range(20):
        harness.wait(0.5)
        harness.settle()
    assert sorted(harness.group.members) == ["a", "b"]


def test_member_waiting_for_partitions_has_no_rebalance_deadline(harness):
    revoking(harness)
    harness.poll("b", rebalance_timeout_ms=1_000, subscribed_topic_names=["t"])
    Coordinators(harness).fail_over()
    stay_alive(harness, 3.0)
    assert sorted(harness.group.members) == ["a", "b"]


@pytest.mark.parametrize("instance_id", [None, "i"], ids=["dynamic", "static"])
def test_session_of_a_consumer_member_restarts(harness, instance_id):
    harness.join("a", instance_id=instance_id)
    harness.wait(5.0)
    Coordinators(harness).fail_over()
    harness.wait(5.9)
    assert "a" in harness.group.members
    harness.wait(0.2)
    assert harness.group.empty


def test_session_restarts_after_a_temporary_leave(harness):
    harness.join("a", instance_id="i")
    harness.leave("a", -2)
    harness.wait(5.0)
    Coordinators(harness).fail_over()
    harness.wait(5.9)
    assert "a" in harness.group.members
    harness.wait(0.2)
    assert harness.group.empty


def test_static_member_that_leaves_while_revoking_stays(harness):
    """A new epoch cancels the rebalance timeout; after a temporary leave only the session timeout applies."""
    revoking(harness, instance_id="i")
    harness.leave("a", -2)
    for _ in range(11):
        harness.wait(0.5)
        harness.poll("b")
    assert "a" in harness.group.members
    for _ in range(2):
        harness.wait(0.5)
        harness.poll("b")
    assert list(harness.group.members) == ["b"]


def test_session_of_a_classic_member_in_a_consumer_group():
    """As in Kafka, the group's session timeout applies until the member's first heartbeat, then its own again."""
    harness = MixedGroupHarness(config=SESSION | {"group.consumer.migration.policy": "bidirectional"})
    harness.join("a")
    classic = harness.classic(session=20_000)
    generation = harness.group.epoch
    Coordinators(harness).fail_over()
    harness.wait(5.0)
    harness.poll("a")
    assert classic in harness.group.members
    harness.wait(1.5)
    harness.poll("a")
    assert classic not in harness.group.members
    assert harness.heartbeat(classic, generation) == E.UNKNOWN_MEMBER_ID


# --- classic ------------------------------------------------------------------------------------------------------


def test_static_classic_member_expires_with_the_next_coordinator():
    harness = BrokerHarness()
    stable_member(harness, "g", instance_id="i")
    harness.wait(9.0)
    Coordinators(harness).fail_over()
    harness.wait(9.9)
    assert harness.broker.groups["g"].static_members
    harness.wait(0.2)
    assert harness.broker.groups["g"].empty


def joining(member_id: str, instance_id: str | None = None, *, rebalance_ms: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range")],
    )


@pytest.mark.parametrize(("rebalance_ms", "answered_after"), [(3_000, 3.0), (25_000, 25.0)])
def test_next_rebalance_uses_the_timeout_of_the_first_join(rebalance_ms, answered_after):
    """A member that does not rejoin keeps the session and rebalance timeout of its join to the first coordinator."""
    harness = BrokerHarness()
    first = harness.ask(joining("", "i", rebalance_ms=rebalance_ms), 5).member_id
    plan = [SyncGroupRequest.Assignment(member_id=first)]
    harness.ask(SyncGroupRequest(group_id="g", generation_id=1, member_id=first, assignments=plan), 3)
    Coordinators(harness).fail_over()
    second = harness.send(joining("", rebalance_ms=1_000), 3)
    for _ in range(round(answered_after) - 1):
        harness.wait(1.0)
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=first, group_instance_id="i")
        assert harness.ask(beat, 4).error_code == E.REBALANCE_IN_PROGRESS
    assert second.parked
    harness.wait(1.1)
    assert second.answer.leader == second.answer.member_id


def test_no_member_must_sync_again_after_a_failover():
    """If the leader has synced, the group is Stable on the next coordinator, which does not wait for followers."""
    harness = BrokerHarness()
    first = stable_member(harness, "g")
    second = harness.send(BrokerHarness.join("g"), 3)
    harness.send(BrokerHarness.join("g", first), 3)
    follower = second.answer.member_id
    plan = [SyncGroupRequest.Assignment(member_id=each) for each in (first, follower)]
    harness.ask(SyncGroupRequest(group_id="g", generation_id=2, member_id=first, assignments=plan), 3)
    Coordinators(harness).fail_over()
    for _ in range(70):  # longer than the rebalance timeout
        harness.wait(1.0)
        for member_id in (first, follower):
            beat = HeartbeatRequest(group_id="g", generation_id=2, member_id=member_id)
            assert harness.ask(beat, 3).error_code == E.NONE
    assert harness.broker.groups["g"].state is State.STABLE
