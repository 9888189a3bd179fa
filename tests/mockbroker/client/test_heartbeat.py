"""The rules by which a member beats, in their order, one test each; and the same through a whole consumer."""

from __future__ import annotations

from typing import Any

import pytest
from tools.nodes import Nodes

from kwire.errorcodes import ErrorCode as E
from kwire.messages.heartbeat import HeartbeatResponse
from mockbroker.client.backoff import Backoff
from mockbroker.client.classic.heartbeat import Beat, Heartbeat
from mockbroker.client.classic.status import ClassicState
from mockbroker.client.settings import Settings

STABLE, COMPLETING = ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE


def joined(at: float = 0.0) -> Heartbeat:
    beat = Heartbeat(Settings(), Backoff(0.1, 1.0, lambda: 0.5))
    beat.enable(at)
    return beat


def verdict(beat: Heartbeat, now: float, state: ClassicState = STABLE, *, known: bool = True) -> Beat:
    return beat.verdict(now, state, coordinator_known=known)


@pytest.mark.parametrize("state", [ClassicState.UNJOINED, ClassicState.PREPARING_REBALANCE])
def test_no_heartbeat_outside_of_a_generation(state: ClassicState) -> None:
    beat = joined()
    assert verdict(beat, 500.0, state, known=False) is Beat.NOTHING
    assert beat.due(state, coordinator_known=True) == float("inf")


def test_no_heartbeat_while_the_coordinator_is_unknown() -> None:
    beat = joined()
    assert verdict(beat, 500.0, known=False) is Beat.FIND_COORDINATOR
    assert beat.due(STABLE, coordinator_known=False) == float("inf")


def test_session_expires_before_the_poll_interval() -> None:
    beat = joined()
    assert verdict(beat, 44.9) is not Beat.SESSION_EXPIRED
    assert verdict(beat, 45.0) is Beat.SESSION_EXPIRED
    assert verdict(beat, 500.0) is Beat.SESSION_EXPIRED
    beat.renew(50.0)
    assert verdict(beat, 94.9) is not Beat.SESSION_EXPIRED


def test_expired_poll_interval_leaves_the_group() -> None:
    beat = joined()
    beat.renew(299.0)
    assert verdict(beat, 299.9) is not Beat.LEAVE
    assert verdict(beat, 300.0) is Beat.LEAVE
    beat.polled(300.0)
    assert verdict(beat, 300.0) is not Beat.LEAVE


def test_no_heartbeat_before_the_interval_is_over() -> None:
    beat = joined()
    assert verdict(beat, 2.9) is Beat.NOT_DUE
    assert verdict(beat, 3.0) is Beat.SEND
    beat.sent(3.0)
    assert verdict(beat, 10.0) is Beat.NOT_DUE, "one at a time"
    beat.in_flight = False
    assert beat.due(STABLE, coordinator_known=True) == 6.0


@pytest.mark.parametrize("state", [COMPLETING, STABLE])
def test_heartbeat_is_sent_when_it_is_due(state: ClassicState) -> None:
    assert verdict(joined(), 3.0, state) is Beat.SEND


def test_failed_heartbeat_backs_off() -> None:
    beat = joined()
    after = []
    for _ in range(6):
        beat.failed(10.0)
        after.append(round(beat.due(STABLE, coordinator_known=True) - 10.0, 3))
    assert after == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    beat.renew(10.0)
    beat.failed(10.0)
    assert beat.next == pytest.approx(10.1)


# --- of a whole consumer ----------------------------------------------------------------------------------------


def subscribed(**settings: Any) -> Nodes:
    nodes = Nodes(**settings)
    nodes.engine.subscribe(["t"])
    return nodes


def beats(nodes: Nodes) -> list[float]:
    return [round(one.at, 3) for one in nodes.seen if one.api == "Heartbeat"]


def answered(nodes: Nodes, code: int = 0) -> None:
    """From now on heartbeats are answered at once."""
    nodes.answers["Heartbeat"] = lambda _: HeartbeatResponse(error_code=code)


def test_heartbeats_run_from_the_join_answer_on() -> None:
    nodes = subscribed()
    answered(nodes)
    nodes.poll()
    nodes.wait(10)
    assert beats(nodes) == [], "off while it joins"
    nodes.joined()
    nodes.wait(4)
    assert (nodes.member.state, beats(nodes)) == (COMPLETING, [13.0]), "on before the SyncGroup is answered"
    nodes.synced([("t", 0)])
    nodes.wait(9)
    assert (nodes.member.state, beats(nodes)) == (STABLE, [13.0, 16.0, 19.0, 22.0])


def test_no_heartbeat_from_illegal_generation_to_join_answer() -> None:
    nodes = subscribed()
    nodes.stable(generation=5)
    nodes.until("Heartbeat")
    nodes.beat(E.ILLEGAL_GENERATION)
    answered(nodes)
    for _ in range(5):
        nodes.refuse("JoinGroup", E.COORDINATOR_LOAD_IN_PROGRESS)
        nodes.until("JoinGroup")
    nodes.wait(20)
    assert len(beats(nodes)) == 1
    nodes.joined(6)
    nodes.wait(3)
    assert len(beats(nodes)) == 2
    assert nodes.last("Heartbeat").generation_id == 6


@pytest.mark.parametrize("code", [E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION])
def test_no_heartbeat_after_sync_group_ends_the_generation(code: E) -> None:
    """A cooperative member joins again only when its user has heard what it lost."""
    nodes = subscribed(assignors=["cooperative-sticky"])
    nodes.stable(generation=5)
    nodes.member.rejoin("a test")
    nodes.poll()
    nodes.joined(6)
    nodes.refuse("SyncGroup", code, polling=False)
    answered(nodes)
    assert nodes.member.state is ClassicState.UNJOINED
    nodes.wait(60)
    assert (beats(nodes), nodes.told[1:]) == ([], [])
    nodes.poll()
    assert nodes.told[1:] == [("lost", ["t0"])]
    assert nodes.open("JoinGroup")


def test_expired_session_finds_the_coordinator_again() -> None:
    nodes = subscribed(session_timeout=10.0, request_timeout=60.0)
    nodes.stable()
    lookups, link = nodes.count("FindCoordinator"), nodes.group_link()
    nodes.wait(9.9)
    assert nodes.count("FindCoordinator") == lookups
    nodes.wait(1.0)
    assert nodes.count("FindCoordinator") > lookups
    assert nodes.group_link() is not link, "over a connection that may live"
    assert nodes.open("Heartbeat"), "sent again over it"
    assert (nodes.member.state, nodes.count("LeaveGroup"), nodes.assigned) == (STABLE, 0, ["t0"])


def test_member_that_does_not_poll_leaves_and_rejoins() -> None:
    nodes = subscribed()
    answered(nodes)
    nodes.stable()
    nodes.wait(299.9)
    assert nodes.count("LeaveGroup") == 0
    nodes.wait(0.2)
    assert [one.member_id for one in nodes.last("LeaveGroup").members] == ["me"]
    assert (nodes.member.state, nodes.member.member_id) == (ClassicState.UNJOINED, "")
    assert nodes.told[1:] == [], "the user hears of it with the next poll"
    assert nodes.commit({("t", 0): 8}).error is not None, "and commits nothing any more"
    nodes.poll()
    assert nodes.told[1:] == [("lost", ["t0"])]
    assert nodes.last("JoinGroup").member_id == ""


def test_static_member_that_does_not_poll_sends_no_leave_group() -> None:
    nodes = subscribed(group_instance_id="one")
    answered(nodes)
    nodes.stable()
    nodes.wait(301)
    assert (nodes.member.state, nodes.count("LeaveGroup")) == (ClassicState.UNJOINED, 0)
    nodes.poll()
    assert nodes.told[1:] == [("lost", ["t0"])]


def test_member_that_polls_stays() -> None:
    nodes = subscribed(max_poll_interval=10.0)
    answered(nodes)
    nodes.stable()
    for _ in range(5):
        nodes.wait(9.0)
        nodes.poll()
    assert (nodes.member.state, nodes.count("LeaveGroup")) == (STABLE, 0)


def test_rebalance_begins_with_the_next_poll() -> None:
    nodes = subscribed()
    nodes.stable()
    answered(nodes, E.REBALANCE_IN_PROGRESS)
    nodes.wait(10)
    assert (beats(nodes), nodes.count("JoinGroup"), nodes.told[1:]) == ([3.0, 6.0, 9.0], 1, [])
    nodes.poll()
    assert (nodes.count("JoinGroup"), nodes.told[1:]) == (2, [("revoked", ["t0"])])


def test_rebalance_in_progress_while_completing_is_ignored() -> None:
    nodes = leader_without_metadata()
    nodes.beat(E.REBALANCE_IN_PROGRESS)
    nodes.wait(2)
    assert (nodes.member.state, nodes.count("JoinGroup")) == (COMPLETING, 1)


def test_unknown_member_id_while_leader_awaits_metadata_rejoins() -> None:
    nodes = leader_without_metadata()
    nodes.beat(E.UNKNOWN_MEMBER_ID)
    nodes.answer("Metadata", nodes.metadata(nodes.one("Metadata")))
    assert nodes.count("SyncGroup") == 0, "of a generation that is over"
    assert nodes.one("JoinGroup").body.member_id == ""


def leader_without_metadata() -> Nodes:
    """Joined; its first heartbeat is open."""
    nodes = subscribed(topics={"t": 3, "u": 2})
    nodes.poll()
    del nodes.answers["Metadata"]
    nodes.joined(members={"me": ["t"], "you": ["u"]})
    nodes.until("Heartbeat")
    assert nodes.member.state is COMPLETING
    return nodes


def test_an_answer_about_an_older_generation_is_ignored() -> None:
    nodes = subscribed()
    nodes.stable(generation=5)
    old = nodes.until("Heartbeat")
    nodes.member.rejoin("a test")
    nodes.poll()
    nodes.member.status.generation = 6  # as if its answers had come over another connection
    nodes.answer(old, HeartbeatResponse(error_code=E.UNKNOWN_MEMBER_ID))
    assert (nodes.member.generation, nodes.member.member_id) == (6, "me")


def test_a_heartbeat_of_a_static_member_names_its_instance() -> None:
    nodes = subscribed(group_instance_id="one")
    nodes.stable(generation=5)
    asked = nodes.until("Heartbeat")
    sent = asked.body
    assert (sent.group_id, sent.generation_id, sent.member_id, sent.group_instance_id) == ("g", 5, "me", "one")
    assert asked.version >= 3
