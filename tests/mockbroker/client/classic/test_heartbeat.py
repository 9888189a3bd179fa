"""Heartbeat timers of a classic member: each rule in its order, then the same through an engine."""

from __future__ import annotations

from typing import Any

import pytest
from tools.fake_cluster import FakeCluster

from kwire.errorcodes import ErrorCode as E
from kwire.messages.heartbeat import HeartbeatResponse
from mockbroker.client.backoff import Backoff
from mockbroker.client.classic.heartbeat import Heartbeat, HeartbeatAction
from mockbroker.client.classic.status import ClassicState
from mockbroker.client.settings import ConsumerSettings

STABLE, COMPLETING = ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE


def joined_heartbeat(at: float = 0.0) -> Heartbeat:
    heartbeat = Heartbeat(ConsumerSettings(), Backoff(0.1, 1.0, lambda: 0.5))
    heartbeat.enable(at)
    return heartbeat


def action(heartbeat: Heartbeat, now: float, state: ClassicState = STABLE, *, known: bool = True) -> HeartbeatAction:
    return heartbeat.next_action(now, state, coordinator_known=known)


@pytest.mark.parametrize("state", [ClassicState.UNJOINED, ClassicState.PREPARING_REBALANCE])
def test_no_heartbeat_outside_of_a_generation(state: ClassicState) -> None:
    heartbeat = joined_heartbeat()
    assert action(heartbeat, 500.0, state, known=False) is HeartbeatAction.NOTHING
    assert heartbeat.next_deadline(state, coordinator_known=True) == float("inf")


def test_no_heartbeat_while_the_coordinator_is_unknown() -> None:
    heartbeat = joined_heartbeat()
    assert action(heartbeat, 500.0, known=False) is HeartbeatAction.FIND_COORDINATOR
    assert heartbeat.next_deadline(STABLE, coordinator_known=False) == float("inf")


def test_session_expires_before_the_poll_interval() -> None:
    heartbeat = joined_heartbeat()
    assert action(heartbeat, 44.9) is not HeartbeatAction.SESSION_EXPIRED
    assert action(heartbeat, 45.0) is HeartbeatAction.SESSION_EXPIRED
    assert action(heartbeat, 500.0) is HeartbeatAction.SESSION_EXPIRED
    heartbeat.renew(50.0)
    assert action(heartbeat, 94.9) is not HeartbeatAction.SESSION_EXPIRED


def test_expired_poll_interval_leaves_the_group() -> None:
    heartbeat = joined_heartbeat()
    heartbeat.renew(299.0)
    assert action(heartbeat, 299.9) is not HeartbeatAction.LEAVE
    assert action(heartbeat, 300.0) is HeartbeatAction.LEAVE
    heartbeat.record_poll(300.0)
    assert action(heartbeat, 300.0) is not HeartbeatAction.LEAVE


def test_no_heartbeat_before_the_interval_is_over() -> None:
    heartbeat = joined_heartbeat()
    assert action(heartbeat, 2.9) is HeartbeatAction.NOT_DUE
    assert action(heartbeat, 3.0) is HeartbeatAction.SEND
    heartbeat.sent(3.0)
    assert action(heartbeat, 10.0) is HeartbeatAction.NOT_DUE, "one at a time"
    heartbeat.in_flight = False
    assert heartbeat.next_deadline(STABLE, coordinator_known=True) == 6.0


@pytest.mark.parametrize("state", [COMPLETING, STABLE])
def test_heartbeat_is_sent_when_it_is_due(state: ClassicState) -> None:
    assert action(joined_heartbeat(), 3.0, state) is HeartbeatAction.SEND


def test_failed_heartbeat_backs_off() -> None:
    heartbeat = joined_heartbeat()
    after = []
    for _ in range(6):
        heartbeat.failed(10.0)
        after.append(round(heartbeat.next_deadline(STABLE, coordinator_known=True) - 10.0, 3))
    assert after == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    heartbeat.renew(10.0)
    heartbeat.failed(10.0)
    assert heartbeat.next_heartbeat == pytest.approx(10.1)


# --- with an engine ----------------------------------------------------------------------------------------


def subscribed(**settings: Any) -> FakeCluster:
    cluster = FakeCluster(**settings)
    cluster.engine.subscribe(["t"])
    return cluster


def heartbeats_in(cluster: FakeCluster) -> list[float]:
    return [round(one.at, 3) for one in cluster.requests if one.api == "Heartbeat"]


def answer_heartbeats(cluster: FakeCluster, code: int = 0) -> None:
    """Answer each heartbeat at once from now on."""
    cluster.answers["Heartbeat"] = lambda _: HeartbeatResponse(error_code=code)


def test_heartbeats_start_with_the_join_group_response() -> None:
    cluster = subscribed()
    answer_heartbeats(cluster)
    cluster.poll()
    cluster.wait(10)
    assert heartbeats_in(cluster) == [], "none during JoinGroup"
    cluster.answer_join()
    cluster.wait(4)
    assert (cluster.member.state, heartbeats_in(cluster)) == (COMPLETING, [13.0]), "sent before the SyncGroup response"
    cluster.answer_sync([("t", 0)])
    cluster.wait(9)
    assert (cluster.member.state, heartbeats_in(cluster)) == (STABLE, [13.0, 16.0, 19.0, 22.0])


def test_no_heartbeat_from_illegal_generation_to_rejoin() -> None:
    cluster = subscribed()
    cluster.make_stable(generation=5)
    cluster.wait_for("Heartbeat")
    cluster.answer_heartbeat(E.ILLEGAL_GENERATION)
    answer_heartbeats(cluster)
    for _ in range(5):
        cluster.answer_error("JoinGroup", E.COORDINATOR_LOAD_IN_PROGRESS)
        cluster.wait_for("JoinGroup")
    cluster.wait(20)
    assert len(heartbeats_in(cluster)) == 1
    cluster.answer_join(6)
    cluster.wait(3)
    assert len(heartbeats_in(cluster)) == 2
    assert cluster.last("Heartbeat").generation_id == 6


@pytest.mark.parametrize("code", [E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION])
def test_no_heartbeat_after_sync_group_ends_the_generation(code: E) -> None:
    """A cooperative member rejoins only after its listener has returned from on_lost."""
    cluster = subscribed(assignors=["cooperative-sticky"])
    cluster.make_stable(generation=5)
    cluster.member.rejoin("a test")
    cluster.poll()
    cluster.answer_join(6)
    cluster.answer_error("SyncGroup", code, polling=False)
    answer_heartbeats(cluster)
    assert cluster.member.state is ClassicState.UNJOINED
    cluster.wait(60)
    assert (heartbeats_in(cluster), cluster.listener_calls[1:]) == ([], [])
    cluster.poll()
    assert cluster.listener_calls[1:] == [("lost", ["t0"])]
    assert cluster.pending("JoinGroup")


def test_expired_session_finds_the_coordinator_again() -> None:
    cluster = subscribed(session_timeout=10.0, request_timeout=60.0)
    cluster.make_stable()
    lookups, link = cluster.count("FindCoordinator"), cluster.group_link()
    cluster.wait(9.9)
    assert cluster.count("FindCoordinator") == lookups
    cluster.wait(1.0)
    assert cluster.count("FindCoordinator") > lookups
    assert cluster.group_link() is not link, "a new connection"
    assert cluster.pending("Heartbeat"), "sent again over it"
    assert (cluster.member.state, cluster.count("LeaveGroup"), cluster.assigned) == (STABLE, 0, ["t0"])


def test_member_that_does_not_poll_leaves_and_rejoins() -> None:
    cluster = subscribed()
    answer_heartbeats(cluster)
    cluster.make_stable()
    cluster.wait(299.9)
    assert cluster.count("LeaveGroup") == 0
    cluster.wait(0.2)
    assert [one.member_id for one in cluster.last("LeaveGroup").members] == ["me"]
    assert (cluster.member.state, cluster.member.member_id) == (ClassicState.UNJOINED, "")
    assert cluster.listener_calls[1:] == [], "the listener is called by the next poll"
    assert cluster.commit({("t", 0): 8}).error is not None, "commits fail"
    cluster.poll()
    assert cluster.listener_calls[1:] == [("lost", ["t0"])]
    assert cluster.last("JoinGroup").member_id == ""


def test_static_member_that_does_not_poll_sends_no_leave_group() -> None:
    cluster = subscribed(group_instance_id="one")
    answer_heartbeats(cluster)
    cluster.make_stable()
    cluster.wait(301)
    assert (cluster.member.state, cluster.count("LeaveGroup")) == (ClassicState.UNJOINED, 0)
    cluster.poll()
    assert cluster.listener_calls[1:] == [("lost", ["t0"])]


def test_member_that_polls_stays_in_the_group() -> None:
    cluster = subscribed(max_poll_interval=10.0)
    answer_heartbeats(cluster)
    cluster.make_stable()
    for _ in range(5):
        cluster.wait(9.0)
        cluster.poll()
    assert (cluster.member.state, cluster.count("LeaveGroup")) == (STABLE, 0)


def test_rebalance_begins_with_the_next_poll() -> None:
    cluster = subscribed()
    cluster.make_stable()
    answer_heartbeats(cluster, E.REBALANCE_IN_PROGRESS)
    cluster.wait(10)
    assert (heartbeats_in(cluster), cluster.count("JoinGroup"), cluster.listener_calls[1:]) == ([3.0, 6.0, 9.0], 1, [])
    cluster.poll()
    assert (cluster.count("JoinGroup"), cluster.listener_calls[1:]) == (2, [("revoked", ["t0"])])


def test_rebalance_in_progress_while_completing_is_ignored() -> None:
    cluster = leader_that_awaits_metadata()
    cluster.answer_heartbeat(E.REBALANCE_IN_PROGRESS)
    cluster.wait(2)
    assert (cluster.member.state, cluster.count("JoinGroup")) == (COMPLETING, 1)


def test_unknown_member_id_while_leader_awaits_metadata_rejoins() -> None:
    cluster = leader_that_awaits_metadata()
    cluster.answer_heartbeat(E.UNKNOWN_MEMBER_ID)
    cluster.answer("Metadata", cluster.metadata(cluster.request("Metadata")))
    assert cluster.count("SyncGroup") == 0, "the generation has ended"
    assert cluster.request("JoinGroup").body.member_id == ""


def leader_that_awaits_metadata() -> FakeCluster:
    """Return a cluster whose member joined as leader; its first heartbeat is pending."""
    cluster = subscribed(topics={"t": 3, "u": 2})
    cluster.poll()
    del cluster.answers["Metadata"]
    cluster.answer_join(members={"me": ["t"], "you": ["u"]})
    cluster.wait_for("Heartbeat")
    assert cluster.member.state is COMPLETING
    return cluster


def test_heartbeat_response_of_an_old_generation_is_ignored() -> None:
    cluster = subscribed()
    cluster.make_stable(generation=5)
    old = cluster.wait_for("Heartbeat")
    cluster.member.rejoin("a test")
    cluster.poll()
    cluster.member.status.generation = 6  # as if the member had rejoined over another connection
    cluster.answer(old, HeartbeatResponse(error_code=E.UNKNOWN_MEMBER_ID))
    assert (cluster.member.generation, cluster.member.member_id) == (6, "me")


def test_heartbeat_of_a_static_member_has_its_instance_id() -> None:
    cluster = subscribed(group_instance_id="one")
    cluster.make_stable(generation=5)
    request = cluster.wait_for("Heartbeat")
    sent = request.body
    assert (sent.group_id, sent.generation_id, sent.member_id, sent.group_instance_id) == ("g", 5, "me", "one")
    assert request.version >= 3


def test_heartbeat_to_an_unreachable_coordinator_backs_off() -> None:
    cluster = subscribed()
    cluster.make_stable()
    heartbeat = cluster.member.heartbeat
    cluster.engine.network.can_send = lambda _: False  # type: ignore[method-assign]
    for expected in (0.1, 0.2):
        heartbeat.next_heartbeat = cluster.now
        cluster.member.maintain(polling=False)
        assert (heartbeat.in_flight, cluster.count("Heartbeat")) == (False, 0)
        assert heartbeat.next_heartbeat == pytest.approx(cluster.now + expected)


def test_no_timer_runs_before_a_generation() -> None:
    heartbeat = Heartbeat(ConsumerSettings(), Backoff(0.1, 1.0, lambda: 0.5))
    timers = (heartbeat.session_deadline, heartbeat.poll_deadline, heartbeat.next_heartbeat)
    assert (timers, heartbeat.in_flight) == ((float("inf"),) * 3, False)
    assert heartbeat.next_deadline(STABLE, coordinator_known=True) == float("inf")
    heartbeat.failed(5.0)
    assert heartbeat.next_heartbeat == pytest.approx(5.1), "the first backoff"
