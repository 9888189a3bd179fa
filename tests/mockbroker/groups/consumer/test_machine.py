"""The consumer protocol (KIP-848) in virtual time: docs/coordinator.md, from "ConsumerGroupHeartbeat" on.

The answers of real brokers, request by request, are in fixtures/conversations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tools.consumers import Consumers

from kwire import ErrorCode as E
from mockbroker.base.release import RELEASES

SESSION = {"group.consumer.session.timeout.ms": 6_000}


@pytest.fixture
def desk() -> Consumers:
    return Consumers(topics={"t": 3, "u": 2}, config=SESSION)


def told(desk: Any, name: str) -> tuple[Any, ...]:
    """Epoch, and partitions of ``t`` that the last answer names; None if it says that nothing has changed."""
    answer = desk.clients[name].answer
    assert answer.error_code == E.NONE, answer.error_message
    if answer.assignment is None:
        return answer.member_epoch, None
    return answer.member_epoch, sorted(index for _, index in desk.read(answer.assignment.topic_partitions))


# --- joining and moving -----------------------------------------------------------------------------------------


def test_a_lone_member_gets_everything_in_its_first_answer(desk):
    desk.join("a")
    assert told(desk, "a") == (1, [0, 1, 2])
    assert desk.clients["a"].answer.heartbeat_interval_ms == 5_000
    assert desk.group.state_name == "Stable"


def test_partitions_move_only_once_they_were_given_up(desk):
    desk.join("a")
    desk.join("b")
    assert told(desk, "b") == (2, [])
    desk.clients["a"].owns = desk.clients["a"].told  # a has not given anything up yet
    answer = desk.beat("a", member_epoch=1, topic_partitions=desk.lines(desk.clients["a"].owns))
    assert answer.member_epoch == 1, "the epoch stays until the partitions are given up"
    kept = desk.read(answer.assignment.topic_partitions)
    assert len(kept) == 2
    desk.poll("b")
    assert told(desk, "b") == (2, None)
    assert desk.group.state_name == "Reconciling"
    answer = desk.beat("a", member_epoch=1, topic_partitions=desk.lines(kept))
    assert (answer.member_epoch, answer.assignment) == (2, None)
    desk.poll("b")
    (epoch, moved) = told(desk, "b")
    assert epoch == 2
    assert len(moved) == 1
    assert desk.group.state_name == "Stable"


def test_a_list_that_is_not_there_gives_nothing_up(desk):
    desk.join("a")
    desk.join("b")
    desk.beat("a", member_epoch=1)
    for _ in range(3):
        assert desk.beat("a", member_epoch=1).member_epoch == 1, "null is not an empty list"
    assert desk.beat("a", member_epoch=1, topic_partitions=[]).member_epoch == 2


def test_the_answer_names_everything_when_everything_was_asked(desk):
    desk.join("a")
    desk.poll("a")
    assert told(desk, "a") == (1, None)
    desk.poll("a", rebalance_timeout_ms=60_000, subscribed_topic_names=["t"])
    assert told(desk, "a") == (1, [0, 1, 2])


def test_member_that_returns_with_epoch_0_gets_its_assignment(desk):
    desk.join("a")
    desk.join("a")
    assert told(desk, "a") == (1, [0, 1, 2])


@pytest.mark.parametrize("members", [2, 3, 4])
def test_everything_is_owned_once(desk, members):
    names = [f"m{number}" for number in range(members)]
    for name in names:
        desk.join(name)
    desk.settle()
    shares = list(desk.owned().values())
    assert sorted(index for share in shares for index in share) == [0, 1, 2]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


# --- what begins a new epoch ------------------------------------------------------------------------------------

BUMPS = [
    pytest.param({"subscribed_topic_names": ["t", "u"]}, 1, id="other names"),
    pytest.param({"subscribed_topic_names": ["t"]}, 0, id="the same names"),
    pytest.param({"subscribed_topic_names": ["t", "t"]}, 0, id="the same name twice"),
    pytest.param({"rack_id": "r"}, 0, id="another rack"),
    pytest.param({"server_assignor": "range"}, 0, id="another assignor"),
    pytest.param({"rebalance_timeout_ms": 1}, 0, id="another timeout"),
    pytest.param({}, 0, id="nothing"),
]


@pytest.mark.parametrize(("fields", "by"), BUMPS)
def test_bumps(desk, fields, by):
    desk.join("a")
    before = desk.group.epoch
    desk.poll("a", **fields)
    assert desk.group.epoch - before == by


def test_topics_that_are_not_subscribed_any_more_go_at_once(desk):
    desk.join("a", ["t", "u"])
    desk.poll("a", subscribed_topic_names=["u"])
    assert {topic for topic, _ in desk.clients["a"].told} == {"u"}


@pytest.mark.parametrize(
    ("change", "shares"),
    [
        pytest.param(lambda cluster: cluster.create_topic("later", [[0]]), {"t": 3, "later": 1}, id="created"),
        pytest.param(lambda cluster: cluster.grow(cluster.topics["t"], [[0]]), {"t": 4}, id="grown"),
        pytest.param(lambda cluster: cluster.delete_topic(cluster.topics["t"]), {}, id="deleted"),
    ],
)
def test_a_change_of_topics_is_taken_up_by_the_next_heartbeat(desk, change, shares):
    desk.join("a", ["t", "later"])
    change(desk.broker.cluster)
    assert desk.group.epoch == 1
    answer = desk.beat("a", member_epoch=1)
    assert desk.group.epoch == 2
    owned = desk.group.members["a"].assigned
    names = {topic.topic_id: name for name, topic in desk.broker.cluster.topics.items()}
    counted = {}
    for topic_id, _ in owned:
        counted[names.get(topic_id)] = counted.get(names.get(topic_id), 0) + 1
    assert counted == shares
    assert answer.error_code == E.NONE


def test_a_change_of_other_topics_is_nothing_to_it(desk):
    desk.join("a")
    desk.broker.cluster.create_topic("other", [[0]])
    desk.poll("a")
    assert desk.group.epoch == 1


# --- assignors --------------------------------------------------------------------------------------------------


def test_the_assignor_that_most_ask_for(desk):
    desk.join("a", server_assignor="range")
    assert desk.describe().assignor_name == "range"
    desk.join("b", server_assignor="uniform")
    desk.join("c", server_assignor="uniform")
    assert desk.describe().assignor_name == "uniform"


def test_the_first_of_the_configuration_if_nobody_asks():
    desk = Consumers(config={"group.consumer.assignors": "range,uniform"})
    desk.join("a")
    assert desk.describe().assignor_name == "range"


def test_an_assignor_that_the_broker_does_not_have_now():
    desk = Consumers(config={"group.consumer.assignors": "range"})
    assert desk.join("a", server_assignor="uniform").answer.error_code == E.UNSUPPORTED_ASSIGNOR


UNIFORM = [  # release, who has a partition of two
    ("3.9", ["a", "b"]),
    ("4.0", ["a", "b"]),
    ("4.1", ["b", "c"]),
    ("4.2", ["b", "c"]),
    ("all", ["b", "c"]),
]


@pytest.mark.parametrize(("release", "owners"), UNIFORM)
def test_uniform_is_that_of_the_release(release, owners):
    every_version = replace(RELEASES[release], everything=True)  # 3.9 had ConsumerGroupHeartbeat v0 only
    desk = Consumers(config={"group.coordinator.rebalance.protocols": "classic,consumer"}, release=every_version)
    for name in "abc":
        desk.join(name, ["later"])
    desk.broker.cluster.create_topic("later", [[0], [0]])
    desk.settle()
    assert [name for name, client in desk.clients.items() if client.owns] == owners


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize(("name", "share"), [("b", 0), ("z", 1)])
def test_a_member_without_topics_while_a_target_is_due(assignor, name, share):
    """Kafka goes by what it believed before: all subscribe alike. So the first member says to what."""
    desk = Consumers(topics={"t": 3}, config=SESSION | {"group.consumer.assignors": assignor})
    for member in ("c", "d", "x"):
        desk.join(member)
    desk.leave("x")
    desk.join(name, topics=())
    assert [len(desk.group.target_of(member)) for member in ("c", "d", name)] == [share] * 3
    assert desk.clients[name].owns == frozenset(), "it does not get what it does not subscribe to"


# --- epochs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        pytest.param(2, "all", E.NONE, id="its own"),
        pytest.param(1, "all", E.NONE, id="the one before, with what it has"),
        pytest.param(1, "some", E.NONE, id="the one before, with less"),
        pytest.param(1, "none", E.NONE, id="the one before, with nothing"),
        pytest.param(1, None, E.FENCED_MEMBER_EPOCH, id="the one before, and it does not say"),
        pytest.param(1, "more", E.FENCED_MEMBER_EPOCH, id="the one before, with more"),
        pytest.param(3, "all", E.FENCED_MEMBER_EPOCH, id="a later one"),
        pytest.param(99, None, E.FENCED_MEMBER_EPOCH, id="one far ahead"),
    ],
)
def test_epochs(desk, epoch, owned, error):
    desk.join("a")
    desk.join("b")
    desk.settle()
    has = desk.clients["a"].owns
    said = {"all": has, "some": frozenset(sorted(has)[:1]), "none": frozenset(), None: None}
    said["more"] = frozenset(("t", index) for index in range(3))
    lines = None if owned is None else desk.lines(said[owned])
    assert desk.beat("a", member_epoch=epoch, topic_partitions=lines).error_code == error


@pytest.mark.parametrize(
    ("name", "epoch", "error"),
    [("nobody", 1, E.UNKNOWN_MEMBER_ID), ("a", -1, E.NONE), ("nobody", -1, E.UNKNOWN_MEMBER_ID)],
)
def test_who_asks(desk, name, epoch, error):
    desk.join("a")
    assert desk.beat(name, member_epoch=epoch).error_code == error


@pytest.mark.parametrize("epoch", [1, -1])
def test_no_group(desk, epoch):
    answer = desk.beat("a", member_epoch=epoch)
    assert answer.error_code == E.GROUP_ID_NOT_FOUND
    assert "g" not in desk.broker.groups


def test_a_refused_join_leaves_no_group(desk):
    answer = desk.beat("a", member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_regex="((", topic_partitions=[])
    assert answer.error_code == E.INVALID_REGULAR_EXPRESSION
    assert "g" not in desk.broker.groups


def test_a_full_group(desk):
    desk = Consumers(config={"group.consumer.max.size": 1})
    desk.join("a")
    assert desk.join("b").answer.error_code == E.GROUP_MAX_SIZE_REACHED
    assert desk.poll("a").answer.error_code == E.NONE


# --- leaving, and members that say nothing ----------------------------------------------------------------------


def test_leaving_frees_partitions_for_the_next_heartbeat(desk):
    desk.join("a")
    desk.join("b")
    desk.settle()
    answer = desk.leave("b")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("b", -1, 0)
    assert desk.group.state_name == "Assigning"
    desk.poll("a")
    assert told(desk, "a") == (3, [0, 1, 2])


def test_the_last_one_leaves_an_empty_group(desk):
    desk.join("a")
    desk.leave("a")
    assert (desk.group.state_name, desk.group.epoch, desk.group.assignment_epoch) == ("Empty", 2, 1)
    assert [event.event for event in desk.journal.events][-1] == "empty"


@pytest.mark.parametrize(("seconds", "there"), [(5.9, True), (6.0, False)])
def test_session(desk, seconds, there):
    desk.join("a")
    desk.wait(seconds)
    assert ("a" in desk.group.members) is there


def test_a_heartbeat_keeps_the_session(desk):
    desk.join("a")
    for _ in range(3):
        desk.wait(5.0)
        desk.poll("a")
    assert "a" in desk.group.members


def test_who_does_not_give_up_is_out_after_its_rebalance_timeout(desk):
    desk.join("a", rebalance_timeout_ms=3_000)
    desk.join("b")
    desk.beat("a", member_epoch=1, topic_partitions=desk.lines(desk.clients["a"].told))
    desk.wait(2.9)
    desk.beat("a", member_epoch=1)
    desk.poll("b")
    assert "a" in desk.group.members
    desk.wait(0.2)
    assert "a" not in desk.group.members
    desk.poll("b")
    assert told(desk, "b") == (3, [0, 1, 2])


def test_who_gives_up_in_time_stays(desk):
    desk.join("a", rebalance_timeout_ms=3_000)
    desk.join("b")
    desk.poll("a")
    desk.poll("a")
    desk.wait(5.0)
    assert "a" in desk.group.members


# --- static members ---------------------------------------------------------------------------------------------


def test_a_name_that_somebody_has(desk):
    desk.join("a", instance_id="i")
    assert desk.join("b", instance_id="i").answer.error_code == E.UNRELEASED_INSTANCE_ID


def test_back_after_a_while_with_everything_and_no_new_epoch(desk):
    desk.join("a", instance_id="i")
    assert desk.leave("a", -2).member_epoch == -2
    assert desk.group.state_name == "Reconciling"
    desk.join("b", instance_id="i")
    assert told(desk, "b") == (1, [0, 1, 2])
    assert desk.group.epoch == 1
    assert desk.beat("a", member_epoch=1, instance_id="i").error_code == E.FENCED_INSTANCE_ID


def test_away_for_too_long(desk):
    desk.join("a", instance_id="i")
    desk.wait(3.0)
    desk.leave("a", -2)
    desk.wait(2.9)
    assert desk.group.members
    desk.wait(0.2)
    assert desk.group.state_name == "Empty", "the session runs on while it is away"


def test_a_name_that_nobody_has(desk):
    desk.join("a")
    assert desk.beat("a", member_epoch=1, instance_id="i").error_code == E.UNKNOWN_MEMBER_ID


def test_partitions_of_one_who_is_away_stay_its_own(desk):
    desk.join("a", instance_id="i")
    desk.leave("a", -2)
    desk.join("b")
    desk.settle()
    assert desk.owned() == {"b": []}
    desk.join("c", instance_id="i")
    desk.settle()
    assert sorted(index for share in desk.owned().values() for index in share) == [0, 1, 2]


def test_a_name_that_its_member_has_given_up(desk):
    """It is the member's until it goes, and then a name of nobody that nobody can take, as at Kafka."""
    desk.join("m", instance_id="a")
    desk.join("m", instance_id="b")
    assert desk.join("n", instance_id="a").answer.error_code == E.UNRELEASED_INSTANCE_ID
    desk.leave("m")
    answer = desk.join("n", instance_id="a").answer
    assert (answer.error_code, answer.error_message) == (E.UNKNOWN_MEMBER_ID, "Member m is not a member of group g.")
    for epoch in (1, -1, -2):
        assert desk.beat("m", member_epoch=epoch, instance_id="a").error_code == E.UNKNOWN_MEMBER_ID
    assert desk.join("n", instance_id="b").answer.error_code == E.NONE


@pytest.mark.parametrize("epoch", [-1, -2])
def test_an_instance_alone_is_nobody(desk, epoch):
    desk.join("m", instance_id="i")
    answer = desk.beat("" if epoch == -2 else "x", version=0, member_epoch=epoch, instance_id="i")
    assert answer.error_code == E.FENCED_INSTANCE_ID
    assert desk.group.members["m"].epoch == 1


# --- expressions ------------------------------------------------------------------------------------------------


def test_an_expression_is_resolved_after_the_answer(desk):
    desk.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="[tu]")
    assert told(desk, "a") == (1, [])
    desk.poll("a")
    assert {topic for topic, _ in desk.clients["a"].told} == {"t", "u"}
    assert desk.group.epoch == 2


def test_whole_names_match(desk):
    desk.broker.cluster.create_topic("tt", [[0]])
    desk.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="t")
    desk.poll("a")
    assert {topic for topic, _ in desk.clients["a"].told} == {"t"}


def test_new_topics_are_seen_but_not_at_once(desk):
    desk.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="t.*")
    desk.poll("a")
    desk.broker.cluster.create_topic("t2", [[0]])
    for _ in range(2):
        desk.wait(5.0)
        desk.poll("a")
    assert {topic for topic, _ in desk.clients["a"].told} == {"t"}, "not twice within ten seconds"
    desk.wait(0.1)
    desk.poll("a")
    desk.poll("a")
    assert {topic for topic, _ in desk.clients["a"].told} == {"t", "t2"}


def test_cleared(desk):
    desk.join("a", ["u"], subscribed_topic_regex="t")
    desk.poll("a")
    assert {topic for topic, _ in desk.clients["a"].told} == {"t", "u"}
    desk.poll("a", subscribed_topic_regex="")
    assert {topic for topic, _ in desk.clients["a"].told} == {"u"}


# --- what is told of it -----------------------------------------------------------------------------------------


def test_the_journal_tells_it(desk):
    desk.join("a")
    desk.join("b")
    desk.settle()
    moved = desk.owned()["b"]
    desk.leave("b")
    assert [(event.event, event.member_id, event.generation) for event in desk.journal.events] == [
        ("join", "a", 0),
        ("rebalance", "", 1),
        ("generation", "", 1),
        ("assign", "a", 1),
        ("join", "b", 0),
        ("rebalance", "", 2),
        ("generation", "", 2),
        ("assign", "b", 2),  # nothing is free yet
        ("assign", "a", 1),
        ("assign", "a", 2),  # it has given up
        ("assign", "b", 2),
        ("leave", "b", 2),
        ("rebalance", "", 3),
    ]
    last = [event for event in desk.journal.events if event.event == "assign"][-1]
    assert last.assignment == {"t": moved}


def test_journal_has_members_that_reach_an_epoch_unchanged(desk):
    """Else nobody who waits for a Stable group would be woken."""
    desk.join("a")
    desk.join("b", topics=["u"])
    assert desk.group.state_name == "Reconciling"
    desk.poll("a")
    assert desk.group.state_name == "Stable"
    last = desk.journal.events[-1]
    assert (last.event, last.member_id, last.generation, last.assignment) == ("assign", "a", 2, {"t": [0, 1, 2]})
