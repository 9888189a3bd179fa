"""A member of the consumer protocol: what it says, how it gets to what it shall own, and what errors make of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from tools.nodes import Nodes, topic_id

from kwire.errorcodes import ErrorCode as E
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from mockbroker.client.consumer_member import ConsumerState
from mockbroker.client.errors import AuthorizationFailed, BrokerError, CommitFailed, UnsupportedVersion

HEARTBEAT = "ConsumerGroupHeartbeat"
T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
JOINING, STABLE, RECONCILING = ConsumerState.JOINING, ConsumerState.STABLE, ConsumerState.RECONCILING
ACKNOWLEDGING, FENCED, UNSUBSCRIBED = ConsumerState.ACKNOWLEDGING, ConsumerState.FENCED, ConsumerState.UNSUBSCRIBED


def subscribed(what: Iterable[str] | re.Pattern[str] = ("t",), /, **settings: Any) -> Nodes:
    nodes = Nodes(group_protocol="consumer", **settings)
    nodes.engine.subscribe(what if isinstance(what, re.Pattern) else list(what))
    return nodes


def said(nodes: Nodes) -> dict[str, object]:
    """Fields of the open heartbeat that say something."""
    body = nodes.one(HEARTBEAT).body
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


def owning(*numbers: int) -> list[tuple[object, list[int]]]:
    return [(topic_id("t"), list(numbers))] if numbers else []


def stable(share: Any = (T0,), **settings: Any) -> Nodes:
    """Joined with epoch 1, and what it was given is acknowledged."""
    nodes = subscribed(**settings)
    nodes.poll()
    nodes.told_to_own(1, share)
    nodes.told_to_own(1)
    assert (nodes.member.state, nodes.member.epoch) == (STABLE, 1)
    return nodes


# --- what heartbeats say --------------------------------------------------------------------------------------------


def test_the_first_says_everything_and_owns_nothing() -> None:
    nodes = subscribed(
        ["u", "t"], topics={"t": 3, "u": 1}, client_rack="r1", group_remote_assignor="range", max_poll_interval=20.0
    )
    nodes.poll()
    assert nodes.member.state is JOINING
    body = nodes.one(HEARTBEAT).body
    assert (body.group_id, body.member_id) == ("g", "uuid")
    assert said(nodes) == {
        "epoch": 0,
        "rack": "r1",
        "timeout": 20_000,
        "names": ["t", "u"],
        "assignor": "range",
        "owned": [],
    }


def test_after_it_only_what_has_changed() -> None:
    nodes = subscribed(topics={"t": 3, "u": 1})
    nodes.poll()
    nodes.told_to_own(1, [T0])
    assert said(nodes) == {"epoch": 1, "owned": owning(0)}, "the acknowledgement"
    nodes.told_to_own(1)
    nodes.until(HEARTBEAT)
    assert said(nodes) == {"epoch": 1}
    nodes.told_to_own(2)
    nodes.engine.subscribe(["t", "u"])
    nodes.poll()
    assert said(nodes) == {"epoch": 2, "names": ["t", "u"]}, "at once"


def test_the_interval_is_what_the_answer_says() -> None:
    nodes = stable()
    for interval in (5000, 1000, 20_000):
        nodes.until(HEARTBEAT)
        began = nodes.now
        nodes.told_to_own(1, interval=interval)
        nodes.until(HEARTBEAT)
        assert nodes.now - began == pytest.approx(interval / 1000)


def test_it_beats_while_the_user_is_busy() -> None:
    nodes = stable()
    for _ in range(3):
        nodes.until(HEARTBEAT, polling=False)
        nodes.told_to_own(1, polling=False)
    assert nodes.now == 15.0


@pytest.mark.parametrize("how", ["load", "cut"])
def test_everything_is_said_again_after_an_error(how: str) -> None:
    nodes = stable()
    nodes.until(HEARTBEAT)
    if how == "load":
        nodes.told_to_own(0, error=E.COORDINATOR_LOAD_IN_PROGRESS)
    else:
        nodes.cut(nodes.group_link())
    nodes.until(HEARTBEAT, within=1.0)
    assert said(nodes) == {"epoch": 1, "timeout": 300_000, "names": ["t"], "owned": owning(0)}


def test_a_static_member_says_its_instance_each_time() -> None:
    nodes = stable(group_instance_id="one")
    nodes.until(HEARTBEAT)
    assert said(nodes) == {"epoch": 1, "instance": "one"}


# --- towards the target ----------------------------------------------------------------------------------------------


def test_assignment_is_acknowledged_after_the_listener() -> None:
    nodes = subscribed()
    nodes.poll()
    heard = []
    nodes.hears = lambda what: heard.append((what, nodes.count(HEARTBEAT), nodes.member.state))
    nodes.told_to_own(1, [T0, T1], polling=False)
    assert (nodes.member.state, nodes.assigned, nodes.open(HEARTBEAT)) == (RECONCILING, [], []), "it waits for a poll"
    nodes.poll()
    assert heard == [("assigned", 1, RECONCILING)]
    assert (nodes.member.state, nodes.assigned) == (ACKNOWLEDGING, ["t0", "t1"])
    assert said(nodes) == {"epoch": 1, "owned": owning(0, 1)}
    nodes.told_to_own(1)
    assert nodes.member.state is STABLE


def test_first_it_gives_up_then_it_gets() -> None:
    nodes = stable([T0, T1])
    nodes.until(HEARTBEAT)
    nodes.told_to_own(1, [T0])
    assert (nodes.told[1:], said(nodes)) == ([("revoked", ["t1"])], {"epoch": 1, "owned": owning(0)})
    nodes.told_to_own(2)
    nodes.until(HEARTBEAT)
    nodes.told_to_own(2, [T0, T2])
    assert nodes.told[2:] == [("assigned", ["t2"])]
    assert said(nodes) == {"epoch": 2, "owned": owning(0, 2)}


def test_what_comes_and_goes_at_once_is_told_in_that_order() -> None:
    nodes = stable([T0, T1])
    nodes.until(HEARTBEAT)
    nodes.told_to_own(2, [T1, T2])
    assert nodes.told[1:] == [("revoked", ["t0"]), ("assigned", ["t2"])]
    assert nodes.assigned == ["t1", "t2"]


def test_slow_listener_heartbeats_continue_then_acknowledgement() -> None:
    nodes = stable([T0, T1])
    nodes.until(HEARTBEAT)
    nodes.told_to_own(1, [T0], polling=False)
    between = []

    def slow(what: str) -> None:
        nodes.until(HEARTBEAT, polling=False)
        between.append(said(nodes))

    nodes.hears = slow
    nodes.poll()
    assert between == [{"epoch": 1}], "nothing is given up yet"
    assert nodes.member.state is ACKNOWLEDGING
    began = nodes.now
    nodes.told_to_own(1)
    assert (said(nodes), nodes.now) == ({"epoch": 1, "owned": owning(0)}, began), "not an interval later"
    nodes.told_to_own(2)
    assert nodes.member.state is STABLE


def test_a_new_target_while_the_listener_takes_its_time() -> None:
    nodes = stable([T0, T1])
    nodes.until(HEARTBEAT)
    nodes.told_to_own(1, [T0], polling=False)

    def slow(what: str) -> None:
        nodes.hears = lambda _: None
        nodes.until(HEARTBEAT, polling=False)
        nodes.told_to_own(1, [T2], polling=False)

    nodes.hears = slow
    nodes.poll()
    assert nodes.told[1:] == [("revoked", ["t1"])]
    assert said(nodes) == {"epoch": 1, "owned": owning(0)}
    nodes.told_to_own(1)
    assert nodes.told[2:] == [("revoked", ["t0"]), ("assigned", ["t2"])]


def test_a_topic_that_is_not_known_yet_is_left_out_until_it_is() -> None:
    nodes = subscribed(["t", "u"], topics={"t": 3})
    nodes.poll()
    nodes.told_to_own(1, [T0, ("u", 0)])
    assert (nodes.assigned, said(nodes)["owned"]) == (["t0"], owning(0))
    nodes.told_to_own(1)
    nodes.topics["u"] = 1
    nodes.wait(1.1, polling=True)
    assert nodes.assigned == ["t0", "u0"]
    assert nodes.told[1:] == [("assigned", ["u0"])]


def test_offsets_are_committed_before_anything_is_given_up() -> None:
    nodes = stable([T0, T1], enable_auto_commit=True)
    nodes.until(HEARTBEAT)
    if nodes.open("OffsetCommit"):
        nodes.committed()
    nodes.told_to_own(1, [T0])
    sent = nodes.one("OffsetCommit")
    assert (sent.body.generation_id_or_member_epoch, sent.body.member_id, sent.version >= 9) == (1, "uuid", True)
    assert nodes.told[1:] == []
    nodes.committed()
    assert nodes.told[1:] == [("revoked", ["t1"])]


def test_what_the_user_still_works_on_is_not_committed() -> None:
    """Records count as done with the next poll: whoever gets the partition after a crash reads them again."""
    nodes = stable([T0, T1], enable_auto_commit=True)
    nodes.until(HEARTBEAT)
    if nodes.open("OffsetCommit"):
        nodes.committed()
    before = nodes.count("OffsetCommit")
    nodes.told_to_own(1, [T0], polling=False)
    nodes.wait(2.0)
    assert (nodes.count("OffsetCommit"), nodes.told[1:]) == (before, [])
    nodes.poll()
    assert (nodes.count("OffsetCommit"), nodes.told[1:]) == (before + 1, [])
    nodes.committed()
    assert nodes.told[1:] == [("revoked", ["t1"])]


@pytest.mark.parametrize("what", ["revoked", "assigned"])
def test_listener_error_is_raised_by_poll_and_acknowledged(what: str) -> None:
    nodes = stable([T0, T1])
    nodes.until(HEARTBEAT)
    nodes.raises[what] = OSError("mine")
    with pytest.raises(OSError, match="mine"):
        nodes.told_to_own(1, [T1, T2])
    nodes.poll()
    assert (nodes.assigned, said(nodes)["owned"]) == (["t1", "t2"], owning(1, 2))
    assert nodes.told[1:] == [("revoked", ["t0"]), ("assigned", ["t2"])]


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH])
def test_fenced_member_loses_all_and_rejoins_with_the_same_id(code: E) -> None:
    nodes = stable([T0, T1])
    nodes.until(HEARTBEAT)
    nodes.told_to_own(0, error=code, polling=False)
    assert (nodes.member.state, nodes.told[1:], nodes.open(HEARTBEAT)) == (FENCED, [], [])
    assert isinstance(nodes.commit({T0: 8}).error, CommitFailed)
    nodes.poll()
    assert (nodes.told[1:], nodes.assigned) == ([("lost", ["t0", "t1"])], [])
    assert nodes.one(HEARTBEAT).body.member_id == "uuid"
    assert said(nodes) == {"epoch": 0, "timeout": 300_000, "names": ["t"], "owned": []}
    nodes.told_to_own(3, [T0])
    assert (nodes.assigned, nodes.told[2:]) == (["t0"], [("assigned", ["t0"])])


def test_who_is_fenced_while_the_listener_takes_its_time() -> None:
    nodes = stable([T0, T1])
    nodes.until(HEARTBEAT)
    nodes.told_to_own(1, [T0], polling=False)

    def slow(what: str) -> None:
        nodes.hears = lambda _: None
        nodes.until(HEARTBEAT, polling=False)
        nodes.told_to_own(0, error=E.FENCED_MEMBER_EPOCH, polling=False)

    nodes.hears = slow
    nodes.poll()
    assert nodes.told[1:] == [("revoked", ["t1"]), ("lost", ["t0", "t1"])]
    assert said(nodes)["epoch"] == 0


ERRORS = [  # error, what the user gets, whether the coordinator is looked for
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
def test_errors(code: E, error: type[Exception] | None, lookups: int) -> None:
    nodes = stable()
    nodes.until(HEARTBEAT)
    before = nodes.count("FindCoordinator")
    nodes.told_to_own(0, error=code, polling=False)
    assert nodes.count("FindCoordinator") - before == lookups
    if error:
        with pytest.raises(error, match=code.name):
            nodes.poll()
    if error in (None, AuthorizationFailed) and code != E.GROUP_AUTHORIZATION_FAILED:
        nodes.until(HEARTBEAT, within=1.0)
        assert (said(nodes)["epoch"], nodes.assigned, nodes.told[1:]) == (1, ["t0"], [])
    else:
        assert (nodes.member.state, nodes.open(HEARTBEAT)) == (FENCED, []), "the next poll tries anew"
        nodes.poll()
        assert (nodes.told[1:], said(nodes)["epoch"]) == ([("lost", ["t0"])], 0)


def test_it_waits_longer_each_time() -> None:
    nodes = stable()
    times = []
    for _ in range(5):
        times.append(nodes.until(HEARTBEAT).at)
        nodes.told_to_own(0, error=E.COORDINATOR_LOAD_IN_PROGRESS)
    assert [round(after - before, 3) for before, after in pairwise(times)] == [0.1, 0.2, 0.4, 0.8]


def test_stale_commit_is_retried_with_the_epoch_of_the_heartbeat() -> None:
    nodes = stable()
    commit = nodes.commit({T0: 8})
    nodes.committed(E.STALE_MEMBER_EPOCH)
    nodes.member.epoch = 2
    nodes.until("OffsetCommit")
    assert nodes.one("OffsetCommit").body.generation_id_or_member_epoch == 2
    nodes.committed()
    assert commit.error is None


def test_a_commit_of_who_is_unknown_fences() -> None:
    nodes = stable()
    commit = nodes.commit({T0: 8})
    nodes.committed(E.UNKNOWN_MEMBER_ID)
    assert isinstance(commit.error, CommitFailed)
    assert nodes.told[1:] == [("lost", ["t0"])]


def test_a_broker_that_does_not_have_the_protocol() -> None:
    nodes = subscribed(served={HEARTBEAT: (0, -1)})
    with pytest.raises(UnsupportedVersion, match="ConsumerGroupHeartbeat"):
        nodes.poll()


def test_a_late_answer_to_who_has_left_is_ignored() -> None:
    nodes = subscribed()
    nodes.poll()
    nodes.engine.unsubscribe()
    nodes.engine.subscribe(["t"])
    nodes.answer(nodes.open(HEARTBEAT)[0], heartbeat(1), polling=False)
    assert (nodes.member.state, nodes.member.epoch) == (UNSUBSCRIBED, 0)
    nodes.answer(nodes.open(HEARTBEAT)[0], heartbeat(-1))
    assert (nodes.member.state, said(nodes)["epoch"]) == (JOINING, 0)


def heartbeat(epoch: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(member_id="uuid", member_epoch=epoch, heartbeat_interval_ms=5000)


# --- leaving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("one", -2)])
def test_leaving(instance: str | None, epoch: int) -> None:
    nodes = stable(group_instance_id=instance)
    nodes.engine.unsubscribe()
    nodes.settle()
    body = nodes.one(HEARTBEAT).body
    assert (body.member_id, body.member_epoch, body.instance_id) == ("uuid", epoch, instance)
    assert (nodes.member.state, nodes.engine.leaving) == (UNSUBSCRIBED, True)
    nodes.told_to_own(epoch, polling=False)
    assert not nodes.engine.leaving
    nodes.wait(20)
    assert not nodes.open(HEARTBEAT)


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("one", -2)])
def test_member_that_does_not_poll_leaves_and_rejoins(instance, epoch) -> None:
    nodes = stable(group_instance_id=instance, max_poll_interval=12.0)
    nodes.until(HEARTBEAT, polling=False)
    nodes.told_to_own(1, polling=False)
    nodes.until(HEARTBEAT, polling=False)
    nodes.told_to_own(1, polling=False)
    nodes.wait(3)
    assert nodes.one(HEARTBEAT).body.member_epoch == epoch
    assert (nodes.member.state, nodes.told[1:]) == (FENCED, [])
    nodes.told_to_own(epoch, polling=False)
    nodes.poll()
    assert (nodes.told[1:], said(nodes)["epoch"]) == ([("lost", ["t0"])], 0)


def test_what_was_wrong_before_it_left_is_forgotten() -> None:
    nodes = stable()
    nodes.until(HEARTBEAT)
    nodes.told_to_own(0, error=E.GROUP_MAX_SIZE_REACHED, polling=False)
    nodes.engine.unsubscribe()
    nodes.settle()
    nodes.engine.subscribe(["t"])
    nodes.poll()
    assert said(nodes)["epoch"] == 0


def test_a_member_that_subscribes_again() -> None:
    nodes = stable()
    nodes.engine.unsubscribe()
    nodes.settle()
    nodes.told_to_own(-1, polling=False)
    nodes.engine.subscribe(["t"])
    nodes.poll()
    assert said(nodes)["epoch"] == 0
    nodes.told_to_own(4, [T1])
    assert nodes.assigned == ["t1"]


# --- patterns --------------------------------------------------------------------------------------------------------


def test_a_pattern_joins_when_it_is_known_what_it_matches() -> None:
    nodes = subscribed(re.compile("t.*"), topics={"t": 3, "tt": 1, "u": 1}, metadata_max_age=20.0)
    del nodes.answers["Metadata"]
    nodes.poll()
    nodes.wait(1)
    assert nodes.count(HEARTBEAT) == 0
    nodes.answers["Metadata"] = nodes.metadata
    nodes.answer("Metadata", nodes.metadata(nodes.one("Metadata")))
    nodes.poll()
    assert said(nodes)["names"] == ["t", "tt"]
    nodes.told_to_own(1, [])
    nodes.topics["t3"] = 1
    names = None
    while names is None and nodes.now < 30.0:
        nodes.until(HEARTBEAT)
        names = said(nodes).get("names")
        nodes.told_to_own(1)
    assert names == ["t", "t3", "tt"]
    assert nodes.now < 21.5, "with the metadata, which is asked for every 20 s here"


def test_asked_for_by_the_user_everything_is_said_once_more() -> None:
    nodes = stable()
    nodes.member.rejoin("so I wish")
    nodes.poll()
    assert said(nodes) == {"epoch": 1, "timeout": 300_000, "names": ["t"], "owned": owning(0)}
    nodes.member.rejoin("again, while one is under way")
    nodes.told_to_own(1)
    assert said(nodes) == {"epoch": 1, "timeout": 300_000, "names": ["t"], "owned": owning(0)}
