"""The effect of each error code in each response. OffsetFetch is tested in test_position_resolver.py."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from tools.fake_cluster import FakeCluster

from kwire.errorcodes import ErrorCode as E
from mockbroker.client.classic.status import ClassicState
from mockbroker.client.errors import (
    AuthorizationFailed,
    BrokerError,
    CommitFailed,
    ConsumerError,
    CorruptRecord,
    FencedInstance,
    InconsistentGroupProtocol,
    LogTruncated,
    NoOffset,
    RebalanceInProgress,
    TimedOut,
    UnsupportedVersion,
    broker_error,
    name,
)

NO_MEMBER = (-1, "")
ERRORS = [
    BrokerError(E.UNKNOWN_SERVER_ERROR, "SyncGroup"),
    NoOffset({("t", 0): 5}),
    LogTruncated(("t", 0), 5, 3),
    CorruptRecord(("t", 0), 5, "no"),
    TimedOut("late"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_copies_and_pickles_have_text_and_attributes(error: ConsumerError) -> None:
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def raised(act: Callable[[], None]) -> Exception | None:
    try:
        act()
    except Exception as error:
        return error
    return None


def subscribed(**settings: Any) -> FakeCluster:
    cluster = FakeCluster(**settings)
    cluster.engine.subscribe(["t"])
    return cluster


# --- FindCoordinator --------------------------------------------------------------------------------------------

FIND = [  # error, error raised to the user
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
def test_find_coordinator_errors(code: E, error: type[Exception] | None, newest: int) -> None:
    cluster = subscribed(served={"FindCoordinator": (0, newest)})
    del cluster.answers["FindCoordinator"]
    cluster.poll()
    asked_metadata = cluster.count("Metadata")
    result = raised(lambda: cluster.answer_error("FindCoordinator", code))
    assert type(result) is (error or type(None))
    assert cluster.count("FindCoordinator") == 1, "not at once"
    cluster.wait(0.1)
    assert cluster.count("FindCoordinator") == 2
    assert cluster.count("Metadata") > asked_metadata, "a failed lookup refreshes metadata too"
    cluster.answer("FindCoordinator", cluster.find_coordinator(cluster.request("FindCoordinator")))
    assert cluster.pending("JoinGroup")


def test_find_coordinator_backoff_grows() -> None:
    cluster = subscribed()
    del cluster.answers["FindCoordinator"]
    cluster.poll()
    times = []
    for _ in range(6):
        times.append(cluster.wait_for("FindCoordinator", polling=False).at)
        cluster.answer_error("FindCoordinator", E.COORDINATOR_NOT_AVAILABLE, polling=False)
    assert [round(after - before, 3) for before, after in pairwise(times)] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.0,
    ]


# --- JoinGroup and SyncGroup -------------------------------------------------------------------------------------

SOON, AT_ONCE, NEVER = 0.1, 0.0, None
OWN = (5, "me")
JOIN = [  # error, identity afterwards, delay of the next JoinGroup, coordinator lookups, error raised to the user
    (E.COORDINATOR_LOAD_IN_PROGRESS, OWN, SOON, 0, None),
    (E.COORDINATOR_NOT_AVAILABLE, OWN, SOON, 1, None),
    (E.NOT_COORDINATOR, OWN, SOON, 1, None),
    (E.UNKNOWN_MEMBER_ID, NO_MEMBER, AT_ONCE, 0, None),
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
def test_join_group_errors(code, identity, again, lookups, error) -> None:
    cluster = subscribed(assignors=["cooperative-sticky"])
    cluster.make_stable(generation=5)
    cluster.member.rejoin("a test")
    cluster.poll()
    began, before, request = cluster.now, cluster.count("FindCoordinator"), cluster.count("JoinGroup")
    fields = {"member_id": "given"} if code == E.MEMBER_ID_REQUIRED else {}
    result = raised(lambda: cluster.answer_error("JoinGroup", code, **fields))
    assert type(result) is (error or type(None))
    if error:
        assert cluster.count("JoinGroup") == request
        return
    assert (cluster.member.generation, cluster.member.member_id) == identity
    cluster.wait_for("JoinGroup")
    assert cluster.now - began == pytest.approx(again)
    assert cluster.count("FindCoordinator") - before == lookups
    assert cluster.last("JoinGroup").member_id == identity[1]
    lost = identity[0] < 0
    assert cluster.listener_calls[1:] == ([("lost", ["t0"])] if lost else []), "on_lost is called before the join"


def test_unsupported_group_instance_id_is_reported() -> None:
    cluster = subscribed(group_instance_id="one")
    cluster.poll()
    with pytest.raises(UnsupportedVersion, match="does not support group_instance_id: open the consumer without it"):
        cluster.answer_error("JoinGroup", E.UNSUPPORTED_VERSION)


SYNC = [
    (E.COORDINATOR_LOAD_IN_PROGRESS, None, NEVER, 0, BrokerError),
    (E.COORDINATOR_NOT_AVAILABLE, OWN, SOON, 1, None),
    (E.NOT_COORDINATOR, OWN, SOON, 1, None),
    (E.ILLEGAL_GENERATION, (-1, "me"), AT_ONCE, 0, None),
    (E.UNKNOWN_MEMBER_ID, NO_MEMBER, AT_ONCE, 0, None),
    (E.REBALANCE_IN_PROGRESS, OWN, AT_ONCE, 0, None),
    (E.FENCED_INSTANCE_ID, None, NEVER, 0, FencedInstance),
    (E.INCONSISTENT_GROUP_PROTOCOL, None, NEVER, 0, InconsistentGroupProtocol),
    (E.GROUP_AUTHORIZATION_FAILED, None, NEVER, 0, AuthorizationFailed),
    (E.UNKNOWN_SERVER_ERROR, None, NEVER, 0, BrokerError),
]


@pytest.mark.parametrize(("code", "identity", "again", "lookups", "error"), SYNC)
def test_sync_group_errors(code, identity, again, lookups, error) -> None:
    cluster = subscribed()
    cluster.poll()
    cluster.answer_join(5)
    before = cluster.count("FindCoordinator")
    result = raised(lambda: cluster.answer_error("SyncGroup", code))
    assert type(result) is (error or type(None))
    if error:
        assert cluster.count("JoinGroup") == 1
        return
    assert (cluster.member.generation, cluster.member.member_id) == identity
    cluster.wait_for("JoinGroup")
    assert cluster.now == pytest.approx(again)
    assert cluster.count("FindCoordinator") - before == lookups
    assert cluster.last("JoinGroup").member_id == identity[1]


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
def test_poll_after_a_fatal_error_retries_as_the_same_member(api: str) -> None:
    cluster = subscribed(assignors=["cooperative-sticky"])
    cluster.make_stable()
    cluster.member.rejoin("a test")
    cluster.poll()
    if api == "SyncGroup":
        cluster.answer_join(2)
    with pytest.raises(BrokerError):
        cluster.answer_error(api, E.GROUP_MAX_SIZE_REACHED)
    cluster.wait(1)
    joins = cluster.count("JoinGroup")
    cluster.poll()
    assert cluster.count("JoinGroup") == joins + 1
    assert (cluster.last("JoinGroup").member_id, cluster.listener_calls[1:], cluster.assigned) == ("me", [], ["t0"])
    cluster.answer_error("JoinGroup", E.UNKNOWN_MEMBER_ID)
    assert (cluster.last("JoinGroup").member_id, cluster.listener_calls[1:], cluster.assigned) == (
        "",
        [("lost", ["t0"])],
        [],
    )


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
def test_connection_lost_during_join_group(api: str) -> None:
    cluster = subscribed()
    cluster.poll()
    if api == "SyncGroup":
        cluster.answer_join(1)
    cluster.cut(cluster.group_link())
    assert cluster.engine.coordinator.node is None
    cluster.wait_for("JoinGroup", within=1.0)
    assert cluster.count("FindCoordinator") > 1


# --- Heartbeat --------------------------------------------------------------------------------------------------

STABLE, UNJOINED = ClassicState.STABLE, ClassicState.UNJOINED
BEATS = [  # error, state and identity afterwards, whether the next poll joins, lookups, whether the session is renewed
    (E.NONE, STABLE, OWN, False, 0, True),
    (E.REBALANCE_IN_PROGRESS, STABLE, OWN, True, 0, True),
    (E.COORDINATOR_NOT_AVAILABLE, STABLE, OWN, False, 1, True),  # the successful lookup renews it
    (E.NOT_COORDINATOR, STABLE, OWN, False, 1, True),
    (E.ILLEGAL_GENERATION, UNJOINED, (-1, "me"), True, 0, None),
    (E.UNKNOWN_MEMBER_ID, UNJOINED, NO_MEMBER, True, 0, None),
    (E.COORDINATOR_LOAD_IN_PROGRESS, STABLE, OWN, False, 0, False),
    (E.GROUP_AUTHORIZATION_FAILED, STABLE, OWN, False, 0, False),
    (E.UNKNOWN_SERVER_ERROR, STABLE, OWN, False, 0, False),
]


@pytest.mark.parametrize(("code", "state", "identity", "joins", "lookups", "renewed"), BEATS)
def test_heartbeat_errors(code, state, identity, joins, lookups, renewed) -> None:
    cluster = subscribed()
    cluster.make_stable(generation=5)
    cluster.wait_for("Heartbeat")
    before, session = cluster.count("FindCoordinator"), cluster.member.heartbeat.session_deadline
    cluster.answer_heartbeat(code, polling=False)
    assert (cluster.member.state, (cluster.member.generation, cluster.member.member_id)) == (state, identity)
    assert cluster.count("FindCoordinator") - before == lookups
    if renewed is not None:
        assert (cluster.member.heartbeat.session_deadline > session) is renewed
    if code not in (E.NONE, E.REBALANCE_IN_PROGRESS) and state is STABLE:
        began = cluster.now
        cluster.wait_for("Heartbeat", polling=False)
        assert cluster.now - began == pytest.approx(0.1), "a failed heartbeat is retried after the backoff"
    cluster.poll()
    assert (cluster.count("JoinGroup") == 2) is joins


def test_fenced_static_member_sends_nothing_more() -> None:
    cluster = subscribed(group_instance_id="one")
    cluster.make_stable()
    cluster.wait_for("Heartbeat")
    cluster.answer_heartbeat(E.FENCED_INSTANCE_ID, polling=False)
    for _ in range(3):
        with pytest.raises(FencedInstance):
            cluster.poll()
    cluster.wait(100)
    assert (cluster.count("Heartbeat"), cluster.count("JoinGroup")) == (1, 1)


def test_session_expires_when_all_heartbeats_fail() -> None:
    cluster = subscribed(session_timeout=10.0)
    cluster.make_stable()
    lookups = cluster.count("FindCoordinator")
    while cluster.now < 10.0:
        cluster.wait_for("Heartbeat", polling=False)
        if cluster.now < 10.0:
            cluster.answer_heartbeat(E.UNKNOWN_SERVER_ERROR, polling=False)
    assert cluster.count("FindCoordinator") > lookups
    assert cluster.count("Heartbeat") > 5, "again after each backoff"
    assert cluster.member.state is STABLE, "the member stays"


@pytest.mark.parametrize("how", ["cut", "silence"])
def test_heartbeat_without_a_response(how: str) -> None:
    cluster = subscribed()
    cluster.make_stable()
    request = cluster.wait_for("Heartbeat")
    if how == "cut":
        cluster.cut(request.link, polling=False)
    else:
        cluster.wait(30.0)
        assert request.link.state.value == "closed"
    assert cluster.engine.coordinator.node is None or cluster.count("FindCoordinator") > 1
    cluster.wait_for("Heartbeat", polling=False, within=2.0)
    assert (cluster.member.state, cluster.count("JoinGroup")) == (STABLE, 1)


# --- OffsetCommit -----------------------------------------------------------------------------------------------

COMMIT = [  # error, error raised to the user (None: a retry), lookups, identity afterwards, whether the next poll joins
    (E.COORDINATOR_LOAD_IN_PROGRESS, None, 0, OWN, False),
    (E.UNKNOWN_TOPIC_OR_PARTITION, None, 0, OWN, False),
    (E.COORDINATOR_NOT_AVAILABLE, None, 1, OWN, False),
    (E.NOT_COORDINATOR, None, 1, OWN, False),
    (E.REQUEST_TIMED_OUT, None, 1, OWN, False),
    (E.ILLEGAL_GENERATION, CommitFailed, 0, (-1, "me"), True),
    (E.UNKNOWN_MEMBER_ID, CommitFailed, 0, NO_MEMBER, True),
    (E.REBALANCE_IN_PROGRESS, RebalanceInProgress, 0, OWN, True),
    (E.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed, 0, OWN, False),
    (E.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed, 0, OWN, False),
    (E.OFFSET_METADATA_TOO_LARGE, BrokerError, 0, OWN, False),
    (E.INVALID_COMMIT_OFFSET_SIZE, BrokerError, 0, OWN, False),
    (E.GROUP_ID_NOT_FOUND, BrokerError, 0, OWN, False),
    (E.UNKNOWN_SERVER_ERROR, BrokerError, 0, OWN, False),
]


@pytest.mark.parametrize(("code", "error", "lookups", "identity", "joins"), COMMIT)
def test_offset_commit_errors(code, error, lookups, identity, joins) -> None:
    cluster = subscribed()
    cluster.make_stable(generation=5)
    commit = cluster.commit({("t", 0): 8})
    before = cluster.count("FindCoordinator")
    cluster.answer_commit(code, polling=False)
    assert cluster.count("FindCoordinator") - before == lookups
    assert (cluster.member.generation, cluster.member.member_id) == identity
    if error is None:
        assert not commit.done
        began = cluster.now
        cluster.wait_for("OffsetCommit", polling=False)
        assert cluster.now - began == pytest.approx(0.1)
        cluster.answer_commit(polling=False)
        assert commit.done
        assert commit.error is None
    else:
        assert type(commit.error) is error
    cluster.poll()
    assert (cluster.count("JoinGroup") == 2) is joins


@pytest.mark.parametrize(
    "code", [E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR, E.UNKNOWN_TOPIC_OR_PARTITION, E.REQUEST_TIMED_OUT]
)
def test_async_commit_is_not_retried(code: E) -> None:
    cluster = subscribed()
    cluster.make_stable()
    commit = cluster.commit({("t", 0): 8}, retried=False)
    cluster.answer_commit(code)
    assert isinstance(commit.error, BrokerError)
    assert commit.error.code == code
    cluster.wait(5)
    assert cluster.count("OffsetCommit") == 1


def test_commit_of_a_fenced_instance() -> None:
    cluster = subscribed(group_instance_id="one")
    cluster.make_stable()
    commit = cluster.commit({("t", 0): 8})
    cluster.answer_commit(E.FENCED_INSTANCE_ID, polling=False)
    assert isinstance(commit.error, FencedInstance)
    with pytest.raises(FencedInstance):
        cluster.poll()


@pytest.mark.parametrize("retried", [True, False])
def test_connection_lost_during_a_commit(retried: bool) -> None:
    cluster = subscribed()
    cluster.make_stable()
    commit = cluster.commit({("t", 0): 8}, retried=retried)
    cluster.cut(cluster.group_link(), polling=False)
    if not retried:
        assert isinstance(commit.error, TimedOut)
        return
    cluster.wait_for("OffsetCommit", polling=False, within=1.0)
    cluster.answer_commit(polling=False)
    assert commit.error is None


# --- names ---------------------------------------------------------------------------------------------------


def test_error_names() -> None:
    assert name(25) == "UNKNOWN_MEMBER_ID"
    assert name(31_000) == "error 31000"
    assert str(broker_error(82, "Heartbeat")) == "Heartbeat: FENCED_INSTANCE_ID"
    assert broker_error(31_000, "x").code == 31_000


def test_no_offset_has_all_partitions_in_its_message() -> None:
    some = str(NoOffset({("t", 0): None, ("t", 1): 7}))
    assert some.startswith("offset out of range: t-0, t-1 at 7; call seek()")
    assert str(NoOffset({("t", 0): None, ("t", 1): None})).startswith("no committed offset: t-0, t-1; call seek()")


def test_member_fenced_in_join_group_never_joins_again() -> None:
    cluster = FakeCluster(group_instance_id="one")
    cluster.engine.subscribe(["t"])
    cluster.poll()
    with pytest.raises(FencedInstance):
        cluster.answer_error("JoinGroup", E.FENCED_INSTANCE_ID)
    for _ in range(3):
        with pytest.raises(FencedInstance):
            cluster.poll()
        cluster.wait(1.0)
    assert cluster.count("JoinGroup") == 1


def test_backoff_of_a_rebalance_grows() -> None:
    cluster = FakeCluster()
    cluster.engine.subscribe(["t"])
    cluster.poll()
    times = []
    for _ in range(4):
        times.append(cluster.wait_for("JoinGroup").at)
        cluster.answer_error("JoinGroup", E.COORDINATOR_LOAD_IN_PROGRESS)
    assert times == pytest.approx([0.0, 0.1, 0.3, 0.7])


def test_lost_response_looks_the_coordinator_up_at_once() -> None:
    cluster = FakeCluster()
    del cluster.answers["OffsetFetch"]
    cluster.engine.subscribe(["t"])
    cluster.make_stable()
    lookups = cluster.count("FindCoordinator")
    assert cluster.pending("OffsetFetch")
    cluster.cut(cluster.group_link(), polling=False)
    assert cluster.count("FindCoordinator") == lookups + 1


def test_member_fenced_in_sync_group_never_joins_again() -> None:
    cluster = FakeCluster(group_instance_id="one")
    cluster.engine.subscribe(["t"])
    cluster.poll()
    cluster.answer_join(5)
    with pytest.raises(FencedInstance):
        cluster.answer_error("SyncGroup", E.FENCED_INSTANCE_ID)
    for _ in range(3):
        with pytest.raises(FencedInstance):
            cluster.poll()
        cluster.wait(1.0)
    assert (cluster.count("JoinGroup"), cluster.member.generation) == (1, -1)


def test_rejoin_without_a_reason_sends_a_reason() -> None:
    cluster = FakeCluster()
    cluster.engine.subscribe(["t"])
    cluster.make_stable()
    cluster.member.rejoin("")
    cluster.poll()
    assert cluster.request("JoinGroup").body.reason == "a repeated rebalance"


def test_fenced_member_is_not_stable() -> None:
    cluster = FakeCluster(group_instance_id="one")
    cluster.engine.subscribe(["t"])
    cluster.make_stable()
    assert cluster.member.stable
    cluster.wait_for("Heartbeat")
    cluster.answer_heartbeat(E.FENCED_INSTANCE_ID, polling=False)
    assert (cluster.member.stable, cluster.member.status.rejoin_reason) == (False, None)


def test_fenced_static_member_that_unsubscribes_can_join_again() -> None:
    cluster = FakeCluster(group_instance_id="one")
    cluster.engine.subscribe(["t"])
    cluster.poll()
    with pytest.raises(FencedInstance):
        cluster.answer_error("JoinGroup", E.FENCED_INSTANCE_ID)
    cluster.engine.unsubscribe()
    cluster.engine.subscribe(["t"])
    cluster.poll()
    assert cluster.request("JoinGroup").body.member_id == ""
