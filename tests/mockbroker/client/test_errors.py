"""What each error code does where it comes: one row of a table, one fact. OffsetFetch has a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from tools.nodes import Nodes

from kwire.errorcodes import ErrorCode as E
from mockbroker.client.classic.status import ClassicState
from mockbroker.client.errors import (
    AuthorizationFailed,
    BrokerError,
    CommitFailed,
    FencedInstance,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    TimedOut,
    UnsupportedVersion,
    broker_error,
    name,
)

NOBODY = (-1, "")


def raised(act: Callable[[], None]) -> Exception | None:
    try:
        act()
    except Exception as error:
        return error
    return None


def subscribed(**settings: Any) -> Nodes:
    nodes = Nodes(**settings)
    nodes.engine.subscribe(["t"])
    return nodes


# --- FindCoordinator --------------------------------------------------------------------------------------------

FIND = [  # error, what the user gets
    (E.COORDINATOR_LOAD_IN_PROGRESS, None),
    (E.COORDINATOR_NOT_AVAILABLE, None),
    (E.NOT_COORDINATOR, None),
    (E.REQUEST_TIMED_OUT, None),
    (E.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed),
    (E.INVALID_GROUP_ID, BrokerError),
    (E.UNKNOWN_SERVER_ERROR, BrokerError),
]


@pytest.mark.parametrize(("code", "error"), FIND)
@pytest.mark.parametrize("newest", [3, 4])
def test_find_coordinator(code: E, error: type[Exception] | None, newest: int) -> None:
    nodes = subscribed(served={"FindCoordinator": (0, newest)})
    del nodes.answers["FindCoordinator"]
    nodes.poll()
    asked_metadata = nodes.count("Metadata")
    got = raised(lambda: nodes.refuse("FindCoordinator", code))
    assert type(got) is (error or type(None))
    assert nodes.count("FindCoordinator") == 1, "not at once"
    nodes.wait(0.1)
    assert nodes.count("FindCoordinator") == 2
    assert nodes.count("Metadata") > asked_metadata, "a lookup that failed asks for metadata too"
    nodes.answer("FindCoordinator", nodes.found(nodes.one("FindCoordinator")))
    assert nodes.open("JoinGroup")


def test_find_coordinator_waits_longer_each_time() -> None:
    nodes = subscribed()
    del nodes.answers["FindCoordinator"]
    nodes.poll()
    times = []
    for _ in range(6):
        times.append(nodes.until("FindCoordinator", polling=False).at)
        nodes.refuse("FindCoordinator", E.COORDINATOR_NOT_AVAILABLE, polling=False)
    assert [round(after - before, 3) for before, after in pairwise(times)] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.0,
    ]


# --- JoinGroup and SyncGroup: who it is then, when the next JoinGroup goes, whether the coordinator is looked for --

SOON, AT_ONCE, NEVER = 0.1, 0.0, None
OWN = (5, "me")
JOIN = [  # error, identity, the next JoinGroup, lookups, what the user gets
    (E.COORDINATOR_LOAD_IN_PROGRESS, OWN, SOON, 0, None),
    (E.COORDINATOR_NOT_AVAILABLE, OWN, SOON, 1, None),
    (E.NOT_COORDINATOR, OWN, SOON, 1, None),
    (E.UNKNOWN_MEMBER_ID, NOBODY, AT_ONCE, 0, None),
    (E.REBALANCE_IN_PROGRESS, OWN, AT_ONCE, 0, None),
    (E.MEMBER_ID_REQUIRED, (-1, "given"), AT_ONCE, 0, None),
    (E.ILLEGAL_GENERATION, None, NEVER, 0, BrokerError),
    (E.FENCED_INSTANCE_ID, None, NEVER, 0, FencedInstance),
    (E.INCONSISTENT_GROUP_PROTOCOL, None, NEVER, 0, InconsistentGroupProtocol),
    (E.INVALID_GROUP_ID, None, NEVER, 0, BrokerError),
    (E.INVALID_SESSION_TIMEOUT, None, NEVER, 0, BrokerError),
    (E.GROUP_MAX_SIZE_REACHED, None, NEVER, 0, BrokerError),
    (E.GROUP_AUTHORIZATION_FAILED, None, NEVER, 0, AuthorizationFailed),
    (E.UNSUPPORTED_VERSION, None, NEVER, 0, UnsupportedVersion),
    (E.UNKNOWN_SERVER_ERROR, None, NEVER, 0, BrokerError),
]


@pytest.mark.parametrize(("code", "identity", "again", "lookups", "error"), JOIN)
def test_join_group(code, identity, again, lookups, error) -> None:
    nodes = subscribed(assignors=["cooperative-sticky"])
    nodes.stable(generation=5)
    nodes.member.rejoin("a test")
    nodes.poll()
    began, before, asked = nodes.now, nodes.count("FindCoordinator"), nodes.count("JoinGroup")
    fields = {"member_id": "given"} if code == E.MEMBER_ID_REQUIRED else {}
    got = raised(lambda: nodes.refuse("JoinGroup", code, **fields))
    assert type(got) is (error or type(None))
    if error:
        assert nodes.count("JoinGroup") == asked
        return
    assert (nodes.member.generation, nodes.member.member_id) == identity
    nodes.until("JoinGroup")
    assert nodes.now - began == pytest.approx(again)
    assert nodes.count("FindCoordinator") - before == lookups
    assert nodes.last("JoinGroup").member_id == identity[1]
    lost = identity[0] < 0
    assert nodes.told[1:] == ([("lost", ["t0"])] if lost else []), "what is no longer its own is told before it joins"


def test_a_group_instance_id_that_is_too_new_is_named() -> None:
    nodes = subscribed(group_instance_id="one")
    nodes.poll()
    with pytest.raises(UnsupportedVersion, match="too old for a group instance id; leave it out"):
        nodes.refuse("JoinGroup", E.UNSUPPORTED_VERSION)


SYNC = [
    (E.COORDINATOR_LOAD_IN_PROGRESS, None, NEVER, 0, BrokerError),
    (E.COORDINATOR_NOT_AVAILABLE, OWN, SOON, 1, None),
    (E.NOT_COORDINATOR, OWN, SOON, 1, None),
    (E.ILLEGAL_GENERATION, (-1, "me"), AT_ONCE, 0, None),
    (E.UNKNOWN_MEMBER_ID, NOBODY, AT_ONCE, 0, None),
    (E.REBALANCE_IN_PROGRESS, OWN, AT_ONCE, 0, None),
    (E.FENCED_INSTANCE_ID, None, NEVER, 0, FencedInstance),
    (E.INCONSISTENT_GROUP_PROTOCOL, None, NEVER, 0, InconsistentGroupProtocol),
    (E.GROUP_AUTHORIZATION_FAILED, None, NEVER, 0, AuthorizationFailed),
    (E.UNKNOWN_SERVER_ERROR, None, NEVER, 0, BrokerError),
]


@pytest.mark.parametrize(("code", "identity", "again", "lookups", "error"), SYNC)
def test_sync_group(code, identity, again, lookups, error) -> None:
    nodes = subscribed()
    nodes.poll()
    nodes.joined(5)
    before = nodes.count("FindCoordinator")
    got = raised(lambda: nodes.refuse("SyncGroup", code))
    assert type(got) is (error or type(None))
    if error:
        assert nodes.count("JoinGroup") == 1
        return
    assert (nodes.member.generation, nodes.member.member_id) == identity
    nodes.until("JoinGroup")
    assert nodes.now == pytest.approx(again)
    assert nodes.count("FindCoordinator") - before == lookups
    assert nodes.last("JoinGroup").member_id == identity[1]


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
def test_poll_after_a_fatal_error_retries_as_the_same_member(api: str) -> None:
    nodes = subscribed(assignors=["cooperative-sticky"])
    nodes.stable()
    nodes.member.rejoin("a test")
    nodes.poll()
    if api == "SyncGroup":
        nodes.joined(2)
    with pytest.raises(BrokerError):
        nodes.refuse(api, E.GROUP_MAX_SIZE_REACHED)
    nodes.wait(1)
    joins = nodes.count("JoinGroup")
    nodes.poll()
    assert nodes.count("JoinGroup") == joins + 1
    assert (nodes.last("JoinGroup").member_id, nodes.told[1:], nodes.assigned) == ("me", [], ["t0"])
    nodes.refuse("JoinGroup", E.UNKNOWN_MEMBER_ID)
    assert (nodes.last("JoinGroup").member_id, nodes.told[1:], nodes.assigned) == ("", [("lost", ["t0"])], [])


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
def test_a_connection_that_ends_while_joining(api: str) -> None:
    nodes = subscribed()
    nodes.poll()
    if api == "SyncGroup":
        nodes.joined(1)
    nodes.cut(nodes.group_link())
    assert nodes.engine.coordinator.node is None
    nodes.until("JoinGroup", within=1.0)
    assert nodes.count("FindCoordinator") > 1


# --- Heartbeat --------------------------------------------------------------------------------------------------

STABLE, UNJOINED = ClassicState.STABLE, ClassicState.UNJOINED
BEATS = [  # error, state then, identity, whether the next poll joins, lookups, whether the session is renewed
    (E.NONE, STABLE, OWN, False, 0, True),
    (E.REBALANCE_IN_PROGRESS, STABLE, OWN, True, 0, True),
    (E.COORDINATOR_NOT_AVAILABLE, STABLE, OWN, False, 1, True),  # by being found
    (E.NOT_COORDINATOR, STABLE, OWN, False, 1, True),
    (E.ILLEGAL_GENERATION, UNJOINED, (-1, "me"), True, 0, None),
    (E.UNKNOWN_MEMBER_ID, UNJOINED, NOBODY, True, 0, None),
    (E.COORDINATOR_LOAD_IN_PROGRESS, STABLE, OWN, False, 0, False),
    (E.GROUP_AUTHORIZATION_FAILED, STABLE, OWN, False, 0, False),
    (E.UNKNOWN_SERVER_ERROR, STABLE, OWN, False, 0, False),
]


@pytest.mark.parametrize(("code", "state", "identity", "joins", "lookups", "renewed"), BEATS)
def test_heartbeat(code, state, identity, joins, lookups, renewed) -> None:
    nodes = subscribed()
    nodes.stable(generation=5)
    nodes.until("Heartbeat")
    before, session = nodes.count("FindCoordinator"), nodes.member.beat.session
    nodes.beat(code, polling=False)
    assert (nodes.member.state, (nodes.member.generation, nodes.member.member_id)) == (state, identity)
    assert nodes.count("FindCoordinator") - before == lookups
    if renewed is not None:
        assert (nodes.member.beat.session > session) is renewed
    if code not in (E.NONE, E.REBALANCE_IN_PROGRESS) and state is STABLE:
        began = nodes.now
        nodes.until("Heartbeat", polling=False)
        assert nodes.now - began == pytest.approx(0.1), "a beat that failed is sent again soon"
    nodes.poll()
    assert (nodes.count("JoinGroup") == 2) is joins


def test_fenced_static_member_sends_nothing_more() -> None:
    nodes = subscribed(group_instance_id="one")
    nodes.stable()
    nodes.until("Heartbeat")
    nodes.beat(E.FENCED_INSTANCE_ID, polling=False)
    for _ in range(3):
        with pytest.raises(FencedInstance):
            nodes.poll()
    nodes.wait(100)
    assert (nodes.count("Heartbeat"), nodes.count("JoinGroup")) == (1, 1)


def test_heartbeats_that_all_fail_end_with_the_session() -> None:
    nodes = subscribed(session_timeout=10.0)
    nodes.stable()
    lookups = nodes.count("FindCoordinator")
    while nodes.now < 10.0:
        nodes.until("Heartbeat", polling=False)
        if nodes.now < 10.0:
            nodes.beat(E.UNKNOWN_SERVER_ERROR, polling=False)
    assert nodes.count("FindCoordinator") > lookups
    assert nodes.count("Heartbeat") > 5, "again after each backoff"
    assert nodes.member.state is STABLE, "and nobody leaves"


@pytest.mark.parametrize("how", ["cut", "silence"])
def test_a_heartbeat_without_an_answer(how: str) -> None:
    nodes = subscribed()
    nodes.stable()
    asked = nodes.until("Heartbeat")
    if how == "cut":
        nodes.cut(asked.link, polling=False)
    else:
        nodes.wait(30.0)
        assert asked.link.state.value == "closed"
    assert nodes.engine.coordinator.node is None or nodes.count("FindCoordinator") > 1
    nodes.until("Heartbeat", polling=False, within=2.0)
    assert (nodes.member.state, nodes.count("JoinGroup")) == (STABLE, 1)


# --- OffsetCommit -----------------------------------------------------------------------------------------------

COMMIT = [  # error, what the user gets (None: it is sent again), lookups, identity then, whether the next poll joins
    (E.COORDINATOR_LOAD_IN_PROGRESS, None, 0, OWN, False),
    (E.UNKNOWN_TOPIC_OR_PARTITION, None, 0, OWN, False),
    (E.COORDINATOR_NOT_AVAILABLE, None, 1, OWN, False),
    (E.NOT_COORDINATOR, None, 1, OWN, False),
    (E.REQUEST_TIMED_OUT, None, 1, OWN, False),
    (E.ILLEGAL_GENERATION, CommitFailed, 0, (-1, "me"), True),
    (E.UNKNOWN_MEMBER_ID, CommitFailed, 0, NOBODY, True),
    (E.REBALANCE_IN_PROGRESS, RebalanceInProgress, 0, OWN, True),
    (E.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed, 0, OWN, False),
    (E.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed, 0, OWN, False),
    (E.OFFSET_METADATA_TOO_LARGE, BrokerError, 0, OWN, False),
    (E.INVALID_COMMIT_OFFSET_SIZE, BrokerError, 0, OWN, False),
    (E.GROUP_ID_NOT_FOUND, BrokerError, 0, OWN, False),
    (E.UNKNOWN_SERVER_ERROR, BrokerError, 0, OWN, False),
]


@pytest.mark.parametrize(("code", "error", "lookups", "identity", "joins"), COMMIT)
def test_offset_commit(code, error, lookups, identity, joins) -> None:
    nodes = subscribed()
    nodes.stable(generation=5)
    commit = nodes.commit({("t", 0): 8})
    before = nodes.count("FindCoordinator")
    nodes.committed(code, polling=False)
    assert nodes.count("FindCoordinator") - before == lookups
    assert (nodes.member.generation, nodes.member.member_id) == identity
    if error is None:
        assert not commit.done
        began = nodes.now
        nodes.until("OffsetCommit", polling=False)
        assert nodes.now - began == pytest.approx(0.1)
        nodes.committed(polling=False)
        assert commit.done
        assert commit.error is None
    else:
        assert type(commit.error) is error
    nodes.poll()
    assert (nodes.count("JoinGroup") == 2) is joins


@pytest.mark.parametrize(
    "code", [E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR, E.UNKNOWN_TOPIC_OR_PARTITION, E.REQUEST_TIMED_OUT]
)
def test_a_commit_that_nobody_waits_for_is_tried_once(code: E) -> None:
    nodes = subscribed()
    nodes.stable()
    commit = nodes.commit({("t", 0): 8}, retried=False)
    nodes.committed(code)
    assert isinstance(commit.error, BrokerError)
    assert commit.error.code == code
    nodes.wait(5)
    assert nodes.count("OffsetCommit") == 1


def test_a_commit_of_a_fenced_instance() -> None:
    nodes = subscribed(group_instance_id="one")
    nodes.stable()
    commit = nodes.commit({("t", 0): 8})
    nodes.committed(E.FENCED_INSTANCE_ID, polling=False)
    assert isinstance(commit.error, FencedInstance)
    with pytest.raises(FencedInstance):
        nodes.poll()


@pytest.mark.parametrize("retried", [True, False])
def test_a_commit_over_a_connection_that_ends(retried: bool) -> None:
    nodes = subscribed()
    nodes.stable()
    commit = nodes.commit({("t", 0): 8}, retried=retried)
    nodes.cut(nodes.group_link(), polling=False)
    if not retried:
        assert isinstance(commit.error, TimedOut)
        return
    nodes.until("OffsetCommit", polling=False, within=1.0)
    nodes.committed(polling=False)
    assert commit.error is None


# --- in words ---------------------------------------------------------------------------------------------------


def test_names() -> None:
    assert name(25) == "UNKNOWN_MEMBER_ID"
    assert name(31_000) == "error 31000"
    assert str(broker_error(82, "Heartbeat")) == "Heartbeat: FENCED_INSTANCE_ID"
    assert broker_error(31_000, "x").code == 31_000
