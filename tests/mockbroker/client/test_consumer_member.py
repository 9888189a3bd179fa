"""A member of the consumer protocol: heartbeat fields, reconciliation and errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from tools.fake_cluster import FakeCluster, topic_id

from kwire.errorcodes import ErrorCode as E
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from mockbroker.client.committing import Identity
from mockbroker.client.consumer_member import UNRESOLVED, ConsumerState
from mockbroker.client.errors import AuthorizationFailed, BrokerError, CommitFailed, UnsupportedVersion

HEARTBEAT = "ConsumerGroupHeartbeat"
T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
JOINING, STABLE, RECONCILING = ConsumerState.JOINING, ConsumerState.STABLE, ConsumerState.RECONCILING
ACKNOWLEDGING, FENCED, UNSUBSCRIBED = ConsumerState.ACKNOWLEDGING, ConsumerState.FENCED, ConsumerState.UNSUBSCRIBED


def subscribed(topics: Iterable[str] | re.Pattern[str] = ("t",), /, **settings: Any) -> FakeCluster:
    cluster = FakeCluster(group_protocol="consumer", **settings)
    cluster.engine.subscribe(topics if isinstance(topics, re.Pattern) else list(topics))
    return cluster


def sent_fields(cluster: FakeCluster) -> dict[str, object]:
    """Return the fields that are set in the pending heartbeat."""
    body = cluster.request(HEARTBEAT).body
    values = {
        "epoch": body.member_epoch,
        "instance": body.instance_id,
        "rack": body.rack_id,
        "timeout": body.rebalance_timeout_ms,
        "names": body.subscribed_topic_names,
        "assignor": body.server_assignor,
        "owned": None
        if body.topic_partitions is None
        else [(one.topic_id, list(one.partitions)) for one in body.topic_partitions],
    }
    return {name: value for name, value in values.items() if value not in (None, -1) or name == "epoch"}


def target(*numbers: int) -> list[tuple[object, list[int]]]:
    return [(topic_id("t"), list(numbers))] if numbers else []


def stable_member(share: Any = (T0,), **settings: Any) -> FakeCluster:
    """Return a cluster whose member joined with epoch 1 and acknowledged its assignment."""
    cluster = subscribed(**settings)
    cluster.poll()
    cluster.answer_consumer_heartbeat(1, share)
    cluster.answer_consumer_heartbeat(1)
    assert (cluster.member.state, cluster.member.epoch) == (STABLE, 1)
    return cluster


# --- heartbeat fields --------------------------------------------------------------------------------------------


def test_first_heartbeat_is_full_and_owns_no_partitions() -> None:
    cluster = subscribed(
        ["u", "t"], topics={"t": 3, "u": 1}, client_rack="r1", group_remote_assignor="range", max_poll_interval=20.0
    )
    cluster.poll()
    assert cluster.member.state is JOINING
    body = cluster.request(HEARTBEAT).body
    assert (body.group_id, body.member_id) == ("g", "uuid")
    assert sent_fields(cluster) == {
        "epoch": 0,
        "rack": "r1",
        "timeout": 20_000,
        "names": ["t", "u"],
        "assignor": "range",
        "owned": [],
    }


def test_later_heartbeats_have_only_changed_fields() -> None:
    cluster = subscribed(topics={"t": 3, "u": 1})
    cluster.poll()
    cluster.answer_consumer_heartbeat(1, [T0])
    assert sent_fields(cluster) == {"epoch": 1, "owned": target(0)}, "the acknowledgement"
    cluster.answer_consumer_heartbeat(1)
    cluster.wait_for(HEARTBEAT)
    assert sent_fields(cluster) == {"epoch": 1}
    cluster.answer_consumer_heartbeat(2)
    cluster.engine.subscribe(["t", "u"])
    cluster.poll()
    assert sent_fields(cluster) == {"epoch": 2, "names": ["t", "u"]}, "at once"


def test_heartbeat_interval_is_set_by_the_coordinator() -> None:
    cluster = stable_member()
    for interval in (5000, 1000, 20_000):
        cluster.wait_for(HEARTBEAT)
        began = cluster.now
        cluster.answer_consumer_heartbeat(1, interval=interval)
        cluster.wait_for(HEARTBEAT)
        assert cluster.now - began == pytest.approx(interval / 1000)


def test_heartbeats_continue_between_polls() -> None:
    cluster = stable_member()
    for _ in range(3):
        cluster.wait_for(HEARTBEAT, polling=False)
        cluster.answer_consumer_heartbeat(1, polling=False)
    assert cluster.now == 15.0


@pytest.mark.parametrize("how", ["load", "cut"])
def test_heartbeat_is_full_after_an_error(how: str) -> None:
    cluster = stable_member()
    cluster.wait_for(HEARTBEAT)
    if how == "load":
        cluster.answer_consumer_heartbeat(0, error=E.COORDINATOR_LOAD_IN_PROGRESS)
    else:
        cluster.cut(cluster.group_link())
    cluster.wait_for(HEARTBEAT, within=1.0)
    assert sent_fields(cluster) == {"epoch": 1, "timeout": 300_000, "names": ["t"], "owned": target(0)}


def test_static_member_sends_its_instance_id_each_time() -> None:
    cluster = stable_member(group_instance_id="one")
    cluster.wait_for(HEARTBEAT)
    assert sent_fields(cluster) == {"epoch": 1, "instance": "one"}


# --- reconciliation ----------------------------------------------------------------------------------------------


def test_assignment_is_acknowledged_after_the_listener() -> None:
    cluster = subscribed()
    cluster.poll()
    calls = []
    cluster.on_listener_call = lambda method: calls.append((method, cluster.count(HEARTBEAT), cluster.member.state))
    cluster.answer_consumer_heartbeat(1, [T0, T1], polling=False)
    assert (cluster.member.state, cluster.assigned, cluster.pending(HEARTBEAT)) == (RECONCILING, [], []), (
        "it waits for a poll"
    )
    cluster.poll()
    assert calls == [("assigned", 1, RECONCILING)]
    assert (cluster.member.state, cluster.assigned) == (ACKNOWLEDGING, ["t0", "t1"])
    assert sent_fields(cluster) == {"epoch": 1, "owned": target(0, 1)}
    cluster.answer_consumer_heartbeat(1)
    assert cluster.member.state is STABLE


def test_partitions_are_revoked_before_others_are_assigned() -> None:
    cluster = stable_member([T0, T1])
    cluster.wait_for(HEARTBEAT)
    cluster.answer_consumer_heartbeat(1, [T0])
    assert (cluster.listener_calls[1:], sent_fields(cluster)) == (
        [("revoked", ["t1"])],
        {"epoch": 1, "owned": target(0)},
    )
    cluster.answer_consumer_heartbeat(2)
    cluster.wait_for(HEARTBEAT)
    cluster.answer_consumer_heartbeat(2, [T0, T2])
    assert cluster.listener_calls[2:] == [("assigned", ["t2"])]
    assert sent_fields(cluster) == {"epoch": 2, "owned": target(0, 2)}


def test_on_revoked_is_called_before_on_assigned() -> None:
    cluster = stable_member([T0, T1])
    cluster.wait_for(HEARTBEAT)
    cluster.answer_consumer_heartbeat(2, [T1, T2])
    assert cluster.listener_calls[1:] == [("revoked", ["t0"]), ("assigned", ["t2"])]
    assert cluster.assigned == ["t1", "t2"]


def test_slow_listener_heartbeats_continue_then_acknowledgement() -> None:
    cluster = stable_member([T0, T1])
    cluster.wait_for(HEARTBEAT)
    cluster.answer_consumer_heartbeat(1, [T0], polling=False)
    between = []

    def slow(method: str) -> None:
        cluster.wait_for(HEARTBEAT, polling=False)
        between.append(sent_fields(cluster))

    cluster.on_listener_call = slow
    cluster.poll()
    assert between == [{"epoch": 1}], "not revoked yet"
    assert cluster.member.state is ACKNOWLEDGING
    began = cluster.now
    cluster.answer_consumer_heartbeat(1)
    assert (sent_fields(cluster), cluster.now) == ({"epoch": 1, "owned": target(0)}, began), "not an interval later"
    cluster.answer_consumer_heartbeat(2)
    assert cluster.member.state is STABLE


def test_new_target_before_the_acknowledgement() -> None:
    """The member first acknowledges its current assignment."""
    cluster = stable_member([T0])
    cluster.wait_for(HEARTBEAT)
    cluster.answer_consumer_heartbeat(1, [T0, T1], polling=False)
    cluster.wait_for(HEARTBEAT, polling=False)
    cluster.poll()
    assert (cluster.member.state, cluster.assigned) == (ACKNOWLEDGING, ["t0", "t1"])
    cluster.answer_consumer_heartbeat(1, [T0, T1, T2], polling=False)
    assert cluster.member.state is ACKNOWLEDGING
    assert sent_fields(cluster)["owned"] == target(0, 1)
    cluster.answer_consumer_heartbeat(1)
    assert (cluster.member.state, cluster.assigned) == (ACKNOWLEDGING, ["t0", "t1", "t2"])


def test_new_target_during_a_slow_listener() -> None:
    cluster = stable_member([T0, T1])
    cluster.wait_for(HEARTBEAT)
    cluster.answer_consumer_heartbeat(1, [T0], polling=False)

    def slow(method: str) -> None:
        cluster.on_listener_call = lambda _: None
        cluster.wait_for(HEARTBEAT, polling=False)
        cluster.answer_consumer_heartbeat(1, [T2], polling=False)

    cluster.on_listener_call = slow
    cluster.poll()
    assert cluster.listener_calls[1:] == [("revoked", ["t1"])]
    assert sent_fields(cluster) == {"epoch": 1, "owned": target(0)}
    cluster.answer_consumer_heartbeat(1)
    assert cluster.listener_calls[2:] == [("revoked", ["t0"]), ("assigned", ["t2"])]


def test_assigned_topic_without_metadata_is_added_later() -> None:
    cluster = subscribed(["t", "u"], topics={"t": 3})
    cluster.poll()
    cluster.answer_consumer_heartbeat(1, [T0, ("u", 0)])
    assert (cluster.assigned, sent_fields(cluster)["owned"]) == (["t0"], target(0))
    cluster.answer_consumer_heartbeat(1)
    cluster.topics["u"] = 1
    cluster.wait(1.1, polling=True)
    assert cluster.assigned == ["t0", "u0"]
    assert cluster.listener_calls[1:] == [("assigned", ["u0"])]


def test_target_of_unknown_topics_is_requested_again() -> None:
    """The coordinator sends the assignment again, because the heartbeat has all fields."""
    cluster = stable_member()
    cluster.wait(cluster.member.interval)
    cluster.answer_consumer_heartbeat(1, [("deleted", 0)])
    cluster.poll()
    cluster.answer_consumer_heartbeat(1)
    assert cluster.assigned == []
    began, full = cluster.now, []
    while cluster.now < began + 2.5 * UNRESOLVED:
        cluster.wait(0.5, polling=True)
        if cluster.pending(HEARTBEAT):
            if "timeout" in (fields := sent_fields(cluster)):
                full.append(fields)
            cluster.answer_consumer_heartbeat(1)
    assert full == [{"epoch": 1, "timeout": 300_000, "names": ["t"], "owned": []}] * 2
    cluster.wait(UNRESOLVED, polling=True)
    cluster.answer_consumer_heartbeat(1, [T0])
    assert cluster.assigned == ["t0"]


def test_offsets_are_committed_before_partitions_are_revoked() -> None:
    cluster = stable_member([T0, T1], enable_auto_commit=True)
    cluster.wait_for(HEARTBEAT)
    if cluster.pending("OffsetCommit"):
        cluster.answer_commit()
    cluster.answer_consumer_heartbeat(1, [T0])
    sent = cluster.request("OffsetCommit")
    assert (sent.body.generation_id_or_member_epoch, sent.body.member_id, sent.version >= 9) == (1, "uuid", True)
    assert cluster.listener_calls[1:] == []
    cluster.answer_commit()
    assert cluster.listener_calls[1:] == [("revoked", ["t1"])]


def test_failed_commit_is_retried_before_partitions_are_revoked() -> None:
    cluster = stable_member([T0, T1], enable_auto_commit=True)
    cluster.wait_for(HEARTBEAT)
    if cluster.pending("OffsetCommit"):
        cluster.answer_commit()
    cluster.answer_consumer_heartbeat(1, [T0])
    cluster.answer_commit(E.COORDINATOR_LOAD_IN_PROGRESS)
    assert cluster.listener_calls[1:] == []
    cluster.wait_for("OffsetCommit")
    cluster.answer_commit()
    assert cluster.listener_calls[1:] == [("revoked", ["t1"])]


def test_target_that_shrinks_during_the_commit_holds_for_records() -> None:
    """While the listener runs, no partition that is being revoked is fetched."""
    cluster = stable_member([T0, T1, T2], enable_auto_commit=True)
    cluster.wait_for(HEARTBEAT)
    if cluster.pending("OffsetCommit"):
        cluster.answer_commit()
    cluster.answer_consumer_heartbeat(1, [T0, T1])
    commit = cluster.request("OffsetCommit")
    cluster.wait_for(HEARTBEAT)
    cluster.answer_consumer_heartbeat(1, [T0])
    revoking: list[tuple[str, list[bool]]] = []
    cluster.on_listener_call = lambda kind: revoking.append((kind, [at.revoking for _, at in positions.items()]))
    positions = cluster.engine.positions
    cluster.answer_commit(request=commit)
    assert revoking == [("revoked", [False, True, True])]
    assert cluster.listener_calls[1:] == [("revoked", ["t1", "t2"])]


def test_records_of_the_latest_poll_are_not_committed() -> None:
    """Records count as processed when the next poll begins. After a crash, the next owner reads them again."""
    cluster = stable_member([T0, T1], enable_auto_commit=True)
    cluster.wait_for(HEARTBEAT)
    if cluster.pending("OffsetCommit"):
        cluster.answer_commit()
    before = cluster.count("OffsetCommit")
    cluster.answer_consumer_heartbeat(1, [T0], polling=False)
    cluster.wait(2.0)
    assert (cluster.count("OffsetCommit"), cluster.listener_calls[1:]) == (before, [])
    cluster.poll()
    assert (cluster.count("OffsetCommit"), cluster.listener_calls[1:]) == (before + 1, [])
    cluster.answer_commit()
    assert cluster.listener_calls[1:] == [("revoked", ["t1"])]


@pytest.mark.parametrize("method", ["revoked", "assigned"])
def test_listener_error_is_raised_by_poll_and_acknowledged(method: str) -> None:
    cluster = stable_member([T0, T1])
    cluster.wait_for(HEARTBEAT)
    cluster.listener_raises[method] = OSError("mine")
    with pytest.raises(OSError, match="mine"):
        cluster.answer_consumer_heartbeat(1, [T1, T2])
    cluster.poll()
    assert (cluster.assigned, sent_fields(cluster)["owned"]) == (["t1", "t2"], target(1, 2))
    assert cluster.listener_calls[1:] == [("revoked", ["t0"]), ("assigned", ["t2"])]


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH])
def test_fenced_member_loses_all_and_rejoins_with_the_same_id(code: E) -> None:
    cluster = stable_member([T0, T1])
    cluster.wait_for(HEARTBEAT)
    cluster.answer_consumer_heartbeat(0, error=code, polling=False)
    assert (cluster.member.state, cluster.listener_calls[1:], cluster.pending(HEARTBEAT)) == (FENCED, [], [])
    assert isinstance(cluster.commit({T0: 8}).error, CommitFailed)
    cluster.poll()
    assert (cluster.listener_calls[1:], cluster.assigned) == ([("lost", ["t0", "t1"])], [])
    assert cluster.request(HEARTBEAT).body.member_id == "uuid"
    assert sent_fields(cluster) == {"epoch": 0, "timeout": 300_000, "names": ["t"], "owned": []}
    cluster.answer_consumer_heartbeat(3, [T0])
    assert (cluster.assigned, cluster.listener_calls[2:]) == (["t0"], [("assigned", ["t0"])])


def test_member_fenced_during_a_commit_loses_all_partitions() -> None:
    cluster = stable_member([T0, T1], enable_auto_commit=True)
    cluster.wait_for(HEARTBEAT)
    if cluster.pending("OffsetCommit"):
        cluster.answer_commit()
    cluster.answer_consumer_heartbeat(1, [T0])
    assert cluster.request("OffsetCommit"), "the reconciliation waits for it"
    member = cluster.member
    member.handle_commit_error(E.UNKNOWN_MEMBER_ID)
    member.maintain(polling=True)
    assert (member.listener_call.kind, member.listener_call.partitions) == ("lost", (T0, T1))


def test_member_fenced_during_a_slow_listener() -> None:
    cluster = stable_member([T0, T1])
    cluster.wait_for(HEARTBEAT)
    cluster.answer_consumer_heartbeat(1, [T0], polling=False)

    def slow(method: str) -> None:
        cluster.on_listener_call = lambda _: None
        cluster.wait_for(HEARTBEAT, polling=False)
        cluster.answer_consumer_heartbeat(0, error=E.FENCED_MEMBER_EPOCH, polling=False)

    cluster.on_listener_call = slow
    cluster.poll()
    assert cluster.listener_calls[1:] == [("revoked", ["t1"]), ("lost", ["t0", "t1"])]
    assert sent_fields(cluster)["epoch"] == 0


ERRORS = [  # error, error raised to the user, whether the coordinator is looked up
    (E.COORDINATOR_LOAD_IN_PROGRESS, None, 0),
    (E.COORDINATOR_NOT_AVAILABLE, None, 1),
    (E.NOT_COORDINATOR, None, 1),
    (E.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed, 0),
    (E.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed, 0),
    (E.INVALID_REQUEST, BrokerError, 0),
    (E.GROUP_MAX_SIZE_REACHED, BrokerError, 0),
    (E.UNSUPPORTED_ASSIGNOR, BrokerError, 0),
    (E.UNRELEASED_INSTANCE_ID, BrokerError, 0),
    (E.FENCED_INSTANCE_ID, BrokerError, 0),
    (E.UNSUPPORTED_VERSION, BrokerError, 0),
    (E.UNKNOWN_SERVER_ERROR, BrokerError, 0),
]


@pytest.mark.parametrize(("code", "error", "lookups"), ERRORS)
def test_heartbeat_errors(code: E, error: type[Exception] | None, lookups: int) -> None:
    cluster = stable_member()
    cluster.wait_for(HEARTBEAT)
    before = cluster.count("FindCoordinator")
    cluster.answer_consumer_heartbeat(0, error=code, polling=False)
    assert cluster.count("FindCoordinator") - before == lookups
    if error:
        with pytest.raises(error, match=code.name):
            cluster.poll()
    if error in (None, AuthorizationFailed) and code != E.GROUP_AUTHORIZATION_FAILED:
        cluster.wait_for(HEARTBEAT, within=1.0)
        assert (sent_fields(cluster)["epoch"], cluster.assigned, cluster.listener_calls[1:]) == (1, ["t0"], [])
    else:
        assert (cluster.member.state, cluster.pending(HEARTBEAT)) == (FENCED, []), "the next poll retries"
        cluster.poll()
        assert (cluster.listener_calls[1:], sent_fields(cluster)["epoch"]) == ([("lost", ["t0"])], 0)


def test_heartbeat_backoff_grows() -> None:
    cluster = stable_member()
    times = []
    for _ in range(5):
        times.append(cluster.wait_for(HEARTBEAT).at)
        cluster.answer_consumer_heartbeat(0, error=E.COORDINATOR_LOAD_IN_PROGRESS)
    assert [round(after - before, 3) for before, after in pairwise(times)] == [0.1, 0.2, 0.4, 0.8]


def test_stale_commit_is_retried_with_the_epoch_of_the_heartbeat() -> None:
    cluster = stable_member()
    commit = cluster.commit({T0: 8})
    cluster.answer_commit(E.STALE_MEMBER_EPOCH)
    cluster.member.epoch = 2
    cluster.wait_for("OffsetCommit")
    assert cluster.request("OffsetCommit").body.generation_id_or_member_epoch == 2
    cluster.answer_commit()
    assert commit.error is None


def test_unknown_member_id_in_a_commit_fences() -> None:
    cluster = stable_member()
    commit = cluster.commit({T0: 8})
    cluster.answer_commit(E.UNKNOWN_MEMBER_ID)
    assert isinstance(commit.error, CommitFailed)
    assert cluster.listener_calls[1:] == [("lost", ["t0"])]


def test_commit_before_the_subscription_does_not_prevent_it() -> None:
    """The coordinator rejects commits of a consumer with manually assigned partitions while the group has members."""
    cluster = FakeCluster(group_protocol="consumer")
    cluster.engine.assign([T0])
    cluster.settle()
    commit = cluster.commit({T0: 8})
    cluster.answer_commit(E.UNKNOWN_MEMBER_ID, polling=False)
    assert isinstance(commit.error, CommitFailed)
    cluster.engine.unsubscribe()
    cluster.engine.subscribe(["t"])
    cluster.settle()
    cluster.poll()
    assert sent_fields(cluster)["epoch"] == 0


def test_broker_without_the_consumer_protocol() -> None:
    cluster = subscribed(served={HEARTBEAT: (0, -1)})
    with pytest.raises(UnsupportedVersion, match="ConsumerGroupHeartbeat"):
        cluster.poll()


def test_heartbeat_response_after_leaving_is_ignored() -> None:
    cluster = subscribed()
    cluster.poll()
    cluster.engine.unsubscribe()
    cluster.engine.subscribe(["t"])
    cluster.answer(cluster.pending(HEARTBEAT)[0], heartbeat(1), polling=False)
    assert (cluster.member.state, cluster.member.epoch) == (UNSUBSCRIBED, 0)
    cluster.answer(cluster.pending(HEARTBEAT)[0], heartbeat(-1))
    assert (cluster.member.state, sent_fields(cluster)["epoch"]) == (JOINING, 0)


def heartbeat(epoch: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(member_id="uuid", member_epoch=epoch, heartbeat_interval_ms=5000)


# --- leaving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("one", -2)])
def test_leave_epochs(instance: str | None, epoch: int) -> None:
    cluster = stable_member(group_instance_id=instance)
    cluster.engine.unsubscribe()
    cluster.settle()
    body = cluster.request(HEARTBEAT).body
    assert (body.member_id, body.member_epoch, body.instance_id) == ("uuid", epoch, instance)
    assert (cluster.member.state, cluster.engine.leaving) == (UNSUBSCRIBED, True)
    cluster.answer_consumer_heartbeat(epoch, polling=False)
    assert not cluster.engine.leaving
    cluster.wait(20)
    assert not cluster.pending(HEARTBEAT)


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("one", -2)])
def test_member_that_does_not_poll_leaves_and_rejoins(instance, epoch) -> None:
    cluster = stable_member(group_instance_id=instance, max_poll_interval=12.0)
    cluster.wait_for(HEARTBEAT, polling=False)
    cluster.answer_consumer_heartbeat(1, polling=False)
    cluster.wait_for(HEARTBEAT, polling=False)
    cluster.answer_consumer_heartbeat(1, polling=False)
    cluster.wait(3)
    assert cluster.request(HEARTBEAT).body.member_epoch == epoch
    assert (cluster.member.state, cluster.listener_calls[1:]) == (FENCED, [])
    cluster.answer_consumer_heartbeat(epoch, polling=False)
    cluster.poll()
    assert (cluster.listener_calls[1:], sent_fields(cluster)["epoch"]) == ([("lost", ["t0"])], 0)


def test_leaving_clears_an_earlier_error() -> None:
    cluster = stable_member()
    cluster.wait_for(HEARTBEAT)
    cluster.answer_consumer_heartbeat(0, error=E.GROUP_MAX_SIZE_REACHED, polling=False)
    cluster.engine.unsubscribe()
    cluster.settle()
    cluster.engine.subscribe(["t"])
    cluster.poll()
    assert sent_fields(cluster)["epoch"] == 0


def test_member_rejoins_after_unsubscribe_and_subscribe() -> None:
    cluster = stable_member()
    cluster.engine.unsubscribe()
    cluster.settle()
    cluster.answer_consumer_heartbeat(-1, polling=False)
    cluster.engine.subscribe(["t"])
    cluster.poll()
    assert sent_fields(cluster)["epoch"] == 0
    cluster.answer_consumer_heartbeat(4, [T1])
    assert cluster.assigned == ["t1"]


# --- patterns --------------------------------------------------------------------------------------------------------


def test_pattern_subscription_joins_after_metadata() -> None:
    cluster = subscribed(re.compile("t.*"), topics={"t": 3, "tt": 1, "u": 1}, metadata_max_age=20.0)
    del cluster.answers["Metadata"]
    cluster.poll()
    cluster.wait(1)
    assert cluster.count(HEARTBEAT) == 0
    cluster.answers["Metadata"] = cluster.metadata
    cluster.answer("Metadata", cluster.metadata(cluster.request("Metadata")))
    cluster.poll()
    assert sent_fields(cluster)["names"] == ["t", "tt"]
    cluster.answer_consumer_heartbeat(1, [])
    cluster.topics["t3"] = 1
    names = None
    while names is None and cluster.now < 30.0:
        cluster.wait_for(HEARTBEAT)
        names = sent_fields(cluster).get("names")
        cluster.answer_consumer_heartbeat(1)
    assert names == ["t", "t3", "tt"]
    assert cluster.now < 21.5, "with the metadata refresh, here every 20 s"


def test_rejoin_sends_a_full_heartbeat() -> None:
    cluster = stable_member()
    cluster.member.rejoin("so I wish")
    cluster.poll()
    assert sent_fields(cluster) == {"epoch": 1, "timeout": 300_000, "names": ["t"], "owned": target(0)}
    cluster.member.rejoin("again, while one is under way")
    cluster.answer_consumer_heartbeat(1)
    assert sent_fields(cluster) == {"epoch": 1, "timeout": 300_000, "names": ["t"], "owned": target(0)}


def test_first_heartbeat_interval_is_the_setting() -> None:
    assert subscribed(heartbeat_interval=2.5).member.interval == 2.5


def test_fenced_member_reports_the_same_assignment_again() -> None:
    cluster = stable_member([T0])
    cluster.wait_for(HEARTBEAT)
    cluster.answer_consumer_heartbeat(0, error=E.FENCED_MEMBER_EPOCH)
    cluster.answer_consumer_heartbeat(2, [T0])
    assert sent_fields(cluster) == {"epoch": 2, "owned": target(0)}


def test_joining_member_has_no_identity() -> None:
    cluster = subscribed(group_instance_id="one")
    cluster.poll()
    assert (cluster.member.state, cluster.member.identity) == (JOINING, Identity(-1, "", None))
    cluster.answer_consumer_heartbeat(1, [T0])
    assert cluster.member.identity == Identity(1, "uuid", "one")


def test_members_commit_with_offset_commit_v9() -> None:
    cluster = stable_member(served={"OffsetCommit": (0, 9)})
    commit = cluster.commit({T0: 8})
    assert cluster.request("OffsetCommit").version == 9
    cluster.answer_commit()
    assert commit.error is None
    old = stable_member(served={"OffsetCommit": (0, 8)})
    assert isinstance(old.commit({T0: 8}).error, UnsupportedVersion), "v8 has no member epoch"


def test_member_is_stable_once_its_assignment_is_acknowledged() -> None:
    cluster = subscribed()
    assert not cluster.member.stable
    cluster.poll()
    assert not cluster.member.stable
    cluster.answer_consumer_heartbeat(1, [T0])
    assert not cluster.member.stable
    cluster.answer_consumer_heartbeat(1)
    assert cluster.member.stable
    cluster.wait_for(HEARTBEAT)
    cluster.answer_consumer_heartbeat(1, [T1], polling=False)
    assert not cluster.member.stable


def test_heartbeats_continue_while_a_pattern_needs_metadata() -> None:
    cluster = stable_member(topics={"t": 3, "t2": 1})
    del cluster.answers["Metadata"]
    cluster.engine.subscribe(re.compile("t.*"))
    cluster.wait_for(HEARTBEAT)
    assert sent_fields(cluster) == {"epoch": 1}
    cluster.answers["Metadata"] = cluster.metadata
    cluster.answer("Metadata", cluster.metadata(cluster.request("Metadata")))
    cluster.answer_consumer_heartbeat(1)
    assert sent_fields(cluster)["names"] == ["t", "t2"]


def test_target_of_unknown_topics_is_requested_every_5_s() -> None:
    cluster = stable_member()
    cluster.wait(cluster.member.interval)
    cluster.answer_consumer_heartbeat(1, [("deleted", 0)], interval=1000)
    received = cluster.now
    full = []
    while cluster.now < received + 11:
        request = cluster.wait_for(HEARTBEAT)
        if request.body.rebalance_timeout_ms > 0:
            full.append(round(request.at - received))
        cluster.answer_consumer_heartbeat(1, interval=1000)
    assert full == [5, 10]


def test_error_of_the_listener_in_on_lost_is_raised() -> None:
    cluster = stable_member()
    cluster.wait_for(HEARTBEAT)
    cluster.listener_raises["lost"] = OSError("mine")
    with pytest.raises(OSError, match="mine"):
        cluster.answer_consumer_heartbeat(0, error=E.FENCED_MEMBER_EPOCH)
    cluster.poll()
    assert (cluster.assigned, sent_fields(cluster)["epoch"]) == ([], 0)


def test_heartbeat_to_an_unreachable_coordinator_backs_off() -> None:
    cluster = stable_member()
    cluster.wait(4.9)
    cluster.engine.network.can_send = lambda _: False  # type: ignore[method-assign]
    cluster.engine.clock.now += 0.1
    before = cluster.count(HEARTBEAT)
    cluster.member.maintain(polling=False)
    assert cluster.count(HEARTBEAT) == before
    assert cluster.member.next_deadline() == pytest.approx(cluster.now + 0.1)


def test_first_heartbeat_is_retried_after_0_1_s() -> None:
    cluster = subscribed()
    cluster.poll()
    cluster.answer_consumer_heartbeat(0, error=E.COORDINATOR_LOAD_IN_PROGRESS)
    assert cluster.wait_for(HEARTBEAT).at == pytest.approx(0.1)


def test_poll_timer_runs_between_polls() -> None:
    cluster = stable_member()
    cluster.member.record_poll(waiting=True)
    assert cluster.member.next_deadline() == cluster.now + 5.0
    cluster.wait_for(HEARTBEAT)
    cluster.member.record_poll(waiting=True)
    assert cluster.member.next_deadline() == float("inf")
    cluster.member.record_poll()
    assert cluster.member.next_deadline() == cluster.now + 300.0


def test_heartbeat_is_sent_as_soon_as_the_coordinator_is_known() -> None:
    cluster = stable_member()
    cluster.hold("FindCoordinator")
    cluster.wait(4.0)
    cluster.engine.coordinator.mark_unknown()
    cluster.settle()
    cluster.wait(1.03)
    assert cluster.pending(HEARTBEAT) == []
    cluster.answer("FindCoordinator", cluster.find_coordinator(cluster.request("FindCoordinator")), polling=False)
    assert cluster.request(HEARTBEAT).at == pytest.approx(5.03)


def test_pattern_is_matched_with_the_metadata_of_all_topics() -> None:
    cluster = stable_member(topics={"t": 3, "u": 1, "t2": 1})
    cluster.engine.subscribe(["t", "u"])
    cluster.settle()
    del cluster.answers["Metadata"]
    cluster.engine.subscribe(re.compile("t.*"))
    cluster.settle()
    assert cluster.engine.subscription.topics == {"t", "u"}
    cluster.answer("Metadata", cluster.metadata(cluster.request("Metadata")))
    assert cluster.engine.subscription.topics == {"t", "t2"}


def test_subscribed_topics_are_requested_before_the_member_joins() -> None:
    cluster = subscribed(["t", "u"], topics={"t": 3, "u": 1})
    cluster.hold("FindCoordinator")
    cluster.poll()
    assert sorted(topic.name for topic in cluster.last("Metadata").topics) == ["t", "u"]


def test_pattern_member_joins_with_the_metadata_of_all_topics() -> None:
    cluster = FakeCluster(group_protocol="consumer", topics={"t": 3, "t2": 1})
    cluster.settle()
    del cluster.answers["Metadata"]
    cluster.engine.subscribe(re.compile("t.*"))
    cluster.poll()
    cluster.wait(1.0, polling=True)
    assert cluster.engine.coordinator.node is not None
    assert (cluster.count(HEARTBEAT), cluster.member.next_deadline()) == (0, cluster.now + 300.0)
    cluster.answer("Metadata", cluster.metadata(cluster.request("Metadata")))
    assert sent_fields(cluster)["names"] == ["t", "t2"]


def test_unknown_topic_id_refreshes_metadata_after_a_backoff() -> None:
    cluster = stable_member()
    cluster.wait_for(HEARTBEAT)
    cluster.hold("Metadata")
    cluster.answer_consumer_heartbeat(1, [T0, ("new", 0)], polling=False)
    assert cluster.engine.metadata.next_deadline() == pytest.approx(cluster.now + 0.1)


def test_unknown_topic_id_is_looked_up_again_after_a_backoff() -> None:
    """The backoff begins when the response arrives, even if the response took long."""
    cluster = stable_member()
    cluster.wait_for(HEARTBEAT)
    cluster.hold("Metadata")
    cluster.answer_consumer_heartbeat(1, [T0, ("new", 0)], polling=False)
    slow = cluster.wait_for("Metadata")
    for _ in range(10):
        cluster.wait(0.1, polling=True)
    cluster.answer(slow, cluster.metadata(slow))
    assert not cluster.pending("Metadata")
    assert cluster.engine.metadata.next_deadline() == pytest.approx(cluster.now + 0.1)


@pytest.mark.parametrize("code", [E.TOPIC_AUTHORIZATION_FAILED, E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR])
def test_heartbeat_is_retried_after_a_backoff(code: E) -> None:
    cluster = stable_member()
    failed = cluster.wait_for(HEARTBEAT).at
    cluster.answer_consumer_heartbeat(0, error=code, polling=False)
    assert cluster.wait_for(HEARTBEAT, polling=False).at == pytest.approx(failed + 0.1)


def test_time_without_a_subscription_is_no_missed_poll() -> None:
    cluster = stable_member(max_poll_interval=20.0)
    cluster.engine.unsubscribe()
    cluster.settle()
    cluster.answer_consumer_heartbeat(-1, polling=False)
    cluster.wait(30.0)
    cluster.engine.subscribe(["t"])
    cluster.wait(1.0)
    assert cluster.pending(HEARTBEAT) == []
    assert cluster.member.state is UNSUBSCRIBED
    cluster.poll()
    assert sent_fields(cluster)["epoch"] == 0


def test_leave_request_has_no_fields_of_a_member() -> None:
    cluster = stable_member(client_rack="r1", group_remote_assignor="range")
    cluster.engine.unsubscribe()
    cluster.settle()
    assert sent_fields(cluster) == {"epoch": -1}


def test_response_without_an_interval_keeps_the_interval() -> None:
    cluster = stable_member()
    request = cluster.wait_for(HEARTBEAT)
    assert request.at == 5.0
    cluster.answer_consumer_heartbeat(1, interval=0)
    assert cluster.wait_for(HEARTBEAT).at == 10.0


def test_coordinator_that_does_not_respond_is_looked_up_at_once() -> None:
    cluster = stable_member()
    cluster.wait_for(HEARTBEAT)
    before = cluster.count("FindCoordinator")
    cluster.hang_up(1)
    assert cluster.count("FindCoordinator") == before + 1


def test_lost_partitions_are_not_fetched_while_the_listener_runs() -> None:
    cluster = stable_member()
    cluster.wait_for(HEARTBEAT)
    fetched: list[Any] = []
    cluster.on_listener_call = lambda _: fetched.append(cluster.engine.fetcher.fetchable())
    cluster.answer_consumer_heartbeat(0, error=E.FENCED_MEMBER_EPOCH)
    assert (cluster.listener_calls[-1], fetched[-1]) == (("lost", ["t0"]), {})


def test_commit_needs_a_member_epoch_only_with_a_subscription() -> None:
    cluster = subscribed()
    member = cluster.member
    assert isinstance(member.commit_blocked_by, CommitFailed)
    cluster.engine.unsubscribe()
    assert member.commit_blocked_by is None


def test_member_with_a_new_target_is_not_stable() -> None:
    """The member is not stable even before the poll that begins the reconciliation."""
    cluster = stable_member([T0])
    cluster.wait_for(HEARTBEAT)
    advance = cluster.engine.advance
    stable: list[bool] = []

    def observed(*, polling: bool) -> None:
        stable.append(cluster.member.stable)
        advance(polling=polling)

    cluster.engine.advance = observed  # type: ignore[method-assign]
    cluster.answer_consumer_heartbeat(1, [T1], polling=False)
    assert not any(stable)


@pytest.mark.parametrize(("message", "detail"), [("no such assignor", ": no such assignor"), (None, "")])
def test_heartbeat_error_has_the_message_of_the_coordinator(message: str | None, detail: str) -> None:
    cluster = subscribed()
    cluster.poll()
    response = ConsumerGroupHeartbeatResponse(error_code=E.UNSUPPORTED_ASSIGNOR, error_message=message)
    cluster.answer(HEARTBEAT, response, polling=False)
    with pytest.raises(BrokerError) as raised:
        cluster.poll()
    assert str(raised.value).startswith(f"ConsumerGroupHeartbeat of group g failed{detail}: UNSUPPORTED_ASSIGNOR")


def test_pattern_replaces_topics_with_the_metadata_of_all_topics() -> None:
    cluster = subscribed(["u"], topics={"t": 3, "u": 1})
    cluster.poll()
    cluster.answer_consumer_heartbeat(1, [])
    cluster.hold("Metadata")
    cluster.engine.subscribe(re.compile("t.*"))
    cluster.poll()
    assert cluster.engine.subscription.topics == {"u"}, "which topics match is not known yet"
    request = cluster.request("Metadata")
    cluster.answer(request, cluster.metadata(request))
    assert cluster.engine.subscription.topics == {"t"}


def test_member_whose_target_becomes_known_is_not_stable() -> None:
    cluster = stable_member([T0], topics={"t": 3})
    cluster.engine.subscribe(["t", "u"])
    cluster.poll()
    cluster.answer_consumer_heartbeat(1, [T0, ("u", 0)], polling=False)
    assert cluster.member.stable, "the topic id is unknown"
    cluster.topics["u"] = 1
    cluster.wait(1.0)
    assert (cluster.member.state, cluster.member.stable) == (RECONCILING, False)
    cluster.poll()
    assert cluster.assigned == ["t0", "u0"]


def test_backoff_of_heartbeats_begins_again_after_a_success() -> None:
    cluster = stable_member()
    for _ in range(2):
        cluster.wait_for(HEARTBEAT)
        cluster.answer_consumer_heartbeat(0, error=E.COORDINATOR_LOAD_IN_PROGRESS)
        failed_at = cluster.now
        assert cluster.wait_for(HEARTBEAT).at - failed_at == pytest.approx(0.1)
        cluster.answer_consumer_heartbeat(1)
