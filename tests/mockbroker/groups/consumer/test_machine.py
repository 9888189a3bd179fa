"""The consumer protocol (KIP-848) in virtual time: docs/coordinator.md, from "ConsumerGroupHeartbeat" to the end.

The responses of real brokers, request by request, are in fixtures/conversations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tools.consumer_group_harness import ConsumerGroupHarness

from kwire import ErrorCode as E
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from mockbroker.base.effects import Ticket
from mockbroker.base.release import RELEASES
from mockbroker.groups.consumer import machine
from mockbroker.groups.consumer.state import REGEX_TIMER, ConsumerGroup, ConsumerMember, MemberState, ResolvedRegex
from mockbroker.groups.events import ConsumerHeartbeat, Evict, Rebalance

SESSION = {"group.consumer.session.timeout.ms": 6_000}


@pytest.fixture
def harness() -> ConsumerGroupHarness:
    return ConsumerGroupHarness(topics={"t": 3, "u": 2}, config=SESSION)


def last_assignment(harness: Any, name: str) -> tuple[Any, ...]:
    """Return epoch and assigned partitions of ``t`` in the last response; None if the assignment is null."""
    answer = harness.clients[name].answer
    assert answer.error_code == E.NONE, answer.error_message
    if answer.assignment is None:
        return answer.member_epoch, None
    return answer.member_epoch, sorted(index for _, index in harness.read(answer.assignment.topic_partitions))


# --- joining and reconciling --------------------------------------------------------------------------------------


def test_a_lone_member_gets_all_partitions_at_once(harness):
    harness.join("a")
    assert last_assignment(harness, "a") == (1, [0, 1, 2])
    assert harness.clients["a"].answer.heartbeat_interval_ms == 5_000
    assert harness.group.state_name == "Stable"


def test_partitions_are_assigned_only_after_revocation(harness):
    harness.join("a")
    harness.join("b")
    assert last_assignment(harness, "b") == (2, [])
    harness.clients["a"].owns = harness.clients["a"].assigned  # a has not revoked partitions yet
    answer = harness.beat("a", member_epoch=1, topic_partitions=harness.lines(harness.clients["a"].owns))
    assert answer.member_epoch == 1, "the epoch stays until the partitions are revoked"
    kept = harness.read(answer.assignment.topic_partitions)
    assert len(kept) == 2
    harness.poll("b")
    assert last_assignment(harness, "b") == (2, None)
    assert harness.group.state_name == "Reconciling"
    answer = harness.beat("a", member_epoch=1, topic_partitions=harness.lines(kept))
    assert (answer.member_epoch, answer.assignment) == (2, None)
    harness.poll("b")
    (epoch, moved) = last_assignment(harness, "b")
    assert epoch == 2
    assert len(moved) == 1
    assert harness.group.state_name == "Stable"


def test_null_owned_partitions_revoke_nothing(harness):
    harness.join("a")
    harness.join("b")
    harness.beat("a", member_epoch=1)
    for _ in range(3):
        assert harness.beat("a", member_epoch=1).member_epoch == 1, "null is not an empty list"
    assert harness.beat("a", member_epoch=1, topic_partitions=[]).member_epoch == 2


def test_a_full_request_gets_the_whole_assignment(harness):
    harness.join("a")
    harness.poll("a")
    assert last_assignment(harness, "a") == (1, None)
    harness.poll("a", rebalance_timeout_ms=60_000, subscribed_topic_names=["t"])
    assert last_assignment(harness, "a") == (1, [0, 1, 2])


def test_member_that_returns_with_epoch_0_gets_its_assignment(harness):
    harness.join("a")
    harness.join("a")
    assert last_assignment(harness, "a") == (1, [0, 1, 2])


@pytest.mark.parametrize("members", [2, 3, 4])
def test_each_partition_has_one_owner(harness, members):
    names = [f"m{number}" for number in range(members)]
    for name in names:
        harness.join(name)
    harness.settle()
    shares = list(harness.owned().values())
    assert sorted(index for share in shares for index in share) == [0, 1, 2]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


# --- group epochs -------------------------------------------------------------------------------------------------

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
def test_requests_that_bump_the_group_epoch(harness, fields, by):
    harness.join("a")
    before = harness.group.epoch
    harness.poll("a", **fields)
    assert harness.group.epoch - before == by


def test_unsubscribed_topics_are_revoked_at_once(harness):
    harness.join("a", ["t", "u"])
    harness.poll("a", subscribed_topic_names=["u"])
    assert {topic for topic, _ in harness.clients["a"].assigned} == {"u"}


@pytest.mark.parametrize(
    ("change", "shares"),
    [
        pytest.param(lambda cluster: cluster.create_topic("later", [[0]]), {"t": 3, "later": 1}, id="created"),
        pytest.param(lambda cluster: cluster.add_partitions(cluster.topics["t"], [[0]]), {"t": 4}, id="grown"),
        pytest.param(lambda cluster: cluster.delete_topic(cluster.topics["t"]), {}, id="deleted"),
    ],
)
def test_the_next_heartbeat_notices_changed_topics(harness, change, shares):
    harness.join("a", ["t", "later"])
    change(harness.broker.cluster)
    assert harness.group.epoch == 1
    answer = harness.beat("a", member_epoch=1)
    assert harness.group.epoch == 2
    owned = harness.group.members["a"].assigned
    names = {topic.topic_id: name for name, topic in harness.broker.cluster.topics.items()}
    counted = {}
    for topic_id, _ in owned:
        counted[names.get(topic_id)] = counted.get(names.get(topic_id), 0) + 1
    assert counted == shares
    assert answer.error_code == E.NONE


def test_changes_of_other_topics_do_not_bump_the_epoch(harness):
    harness.join("a")
    harness.broker.cluster.create_topic("other", [[0]])
    harness.poll("a")
    assert harness.group.epoch == 1


# --- assignors ----------------------------------------------------------------------------------------------------


def test_the_most_requested_assignor_is_used(harness):
    harness.join("a", server_assignor="range")
    assert harness.describe().assignor_name == "range"
    harness.join("b", server_assignor="uniform")
    harness.join("c", server_assignor="uniform")
    assert harness.describe().assignor_name == "uniform"


def test_the_first_configured_assignor_is_the_default():
    harness = ConsumerGroupHarness(config={"group.consumer.assignors": "range,uniform"})
    harness.join("a")
    assert harness.describe().assignor_name == "range"


def test_an_assignor_that_is_not_configured_is_unsupported():
    harness = ConsumerGroupHarness(config={"group.consumer.assignors": "range"})
    assert harness.join("a", server_assignor="uniform").answer.error_code == E.UNSUPPORTED_ASSIGNOR


UNIFORM = [  # release, owners of two partitions
    ("3.9", ["a", "b"]),
    ("4.0", ["a", "b"]),
    ("4.1", ["b", "c"]),
    ("4.2", ["b", "c"]),
    ("all", ["b", "c"]),
]


@pytest.mark.parametrize(("release", "owners"), UNIFORM)
def test_uniform_is_that_of_the_release(release, owners):
    every_version = replace(RELEASES[release], everything=True)  # 3.9 had ConsumerGroupHeartbeat v0 only
    harness = ConsumerGroupHarness(
        config={"group.coordinator.rebalance.protocols": "classic,consumer"}, release=every_version
    )
    for name in "abc":
        harness.join(name, ["later"])
    harness.broker.cluster.create_topic("later", [[0], [0]])
    harness.settle()
    assert [name for name, client in harness.clients.items() if client.owns] == owners


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize(("name", "share"), [("b", 0), ("z", 1)])
def test_member_without_topics_joins_before_a_new_target(assignor, name, share):
    """Kafka still considers the group homogeneous, so the subscription of the first member applies to all members."""
    harness = ConsumerGroupHarness(topics={"t": 3}, config=SESSION | {"group.consumer.assignors": assignor})
    for member in ("c", "d", "x"):
        harness.join(member)
    harness.leave("x")
    harness.join(name, topics=())
    assert [len(harness.group.target_of(member)) for member in ("c", "d", name)] == [share] * 3
    assert harness.clients[name].owns == frozenset(), "it does not get what it does not subscribe to"


# --- member epochs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        pytest.param(2, "all", E.NONE, id="current"),
        pytest.param(1, "all", E.NONE, id="previous, with all owned partitions"),
        pytest.param(1, "some", E.NONE, id="previous, with some owned partitions"),
        pytest.param(1, "none", E.NONE, id="previous, without owned partitions"),
        pytest.param(1, None, E.FENCED_MEMBER_EPOCH, id="previous, owned partitions not reported"),
        pytest.param(1, "more", E.FENCED_MEMBER_EPOCH, id="previous, with a partition that is not assigned"),
        pytest.param(3, "all", E.FENCED_MEMBER_EPOCH, id="next"),
        pytest.param(99, None, E.FENCED_MEMBER_EPOCH, id="far ahead"),
    ],
)
def test_valid_member_epochs(harness, epoch, owned, error):
    harness.join("a")
    harness.join("b")
    harness.settle()
    has = harness.clients["a"].owns
    reported = {"all": has, "some": frozenset(sorted(has)[:1]), "none": frozenset(), None: None}
    reported["more"] = frozenset(("t", index) for index in range(3))
    lines = None if owned is None else harness.lines(reported[owned])
    assert harness.beat("a", member_epoch=epoch, topic_partitions=lines).error_code == error


@pytest.mark.parametrize(
    ("name", "epoch", "error"),
    [("unknown", 1, E.UNKNOWN_MEMBER_ID), ("a", -1, E.NONE), ("unknown", -1, E.UNKNOWN_MEMBER_ID)],
)
def test_order_of_identity_checks(harness, name, epoch, error):
    harness.join("a")
    assert harness.beat(name, member_epoch=epoch).error_code == error


@pytest.mark.parametrize("epoch", [1, -1])
def test_heartbeat_to_an_unknown_group(harness, epoch):
    answer = harness.beat("a", member_epoch=epoch)
    assert answer.error_code == E.GROUP_ID_NOT_FOUND
    assert "g" not in harness.broker.groups


def test_a_rejected_join_creates_no_group(harness):
    answer = harness.beat("a", member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_regex="((", topic_partitions=[])
    assert answer.error_code == E.INVALID_REGULAR_EXPRESSION
    assert "g" not in harness.broker.groups


def test_a_full_group_rejects_new_members(harness):
    harness = ConsumerGroupHarness(config={"group.consumer.max.size": 1})
    harness.join("a")
    assert harness.join("b").answer.error_code == E.GROUP_MAX_SIZE_REACHED
    assert harness.poll("a").answer.error_code == E.NONE


# --- leaving and expiring -----------------------------------------------------------------------------------------


def test_leaving_releases_partitions(harness):
    harness.join("a")
    harness.join("b")
    harness.settle()
    answer = harness.leave("b")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("b", -1, 0)
    assert harness.group.state_name == "Assigning"
    harness.poll("a")
    assert last_assignment(harness, "a") == (3, [0, 1, 2])


def test_the_group_is_empty_after_the_last_member_leaves(harness):
    harness.join("a")
    harness.leave("a")
    assert (harness.group.state_name, harness.group.epoch, harness.group.assignment_epoch) == ("Empty", 2, 1)
    assert [event.event for event in harness.journal.events][-1] == "empty"


@pytest.mark.parametrize(("seconds", "there"), [(5.9, True), (6.0, False)])
def test_session_timeout(harness, seconds, there):
    harness.join("a")
    harness.wait(seconds)
    assert ("a" in harness.group.members) is there


def test_a_heartbeat_renews_the_session(harness):
    harness.join("a")
    for _ in range(3):
        harness.wait(5.0)
        harness.poll("a")
    assert "a" in harness.group.members


def test_member_that_does_not_revoke_is_fenced_after_its_timeout(harness):
    harness.join("a", rebalance_timeout_ms=3_000)
    harness.join("b")
    harness.beat("a", member_epoch=1, topic_partitions=harness.lines(harness.clients["a"].assigned))
    harness.wait(2.9)
    harness.beat("a", member_epoch=1)
    harness.poll("b")
    assert "a" in harness.group.members
    harness.wait(0.2)
    assert "a" not in harness.group.members
    harness.poll("b")
    assert last_assignment(harness, "b") == (3, [0, 1, 2])


def test_member_that_revokes_in_time_stays(harness):
    harness.join("a", rebalance_timeout_ms=3_000)
    harness.join("b")
    harness.poll("a")
    harness.poll("a")
    harness.wait(5.0)
    assert "a" in harness.group.members


# --- static members -----------------------------------------------------------------------------------------------


def test_instance_id_of_another_member_is_unreleased(harness):
    harness.join("a", instance_id="i")
    assert harness.join("b", instance_id="i").answer.error_code == E.UNRELEASED_INSTANCE_ID


def test_temporary_leave_keeps_partitions_and_epoch(harness):
    harness.join("a", instance_id="i")
    assert harness.leave("a", -2).member_epoch == -2
    assert harness.group.state_name == "Reconciling"
    harness.join("b", instance_id="i")
    assert last_assignment(harness, "b") == (1, [0, 1, 2])
    assert harness.group.epoch == 1
    assert harness.beat("a", member_epoch=1, instance_id="i").error_code == E.FENCED_INSTANCE_ID


def test_session_expires_after_a_temporary_leave(harness):
    harness.join("a", instance_id="i")
    harness.wait(3.0)
    harness.leave("a", -2)
    harness.wait(2.9)
    assert harness.group.members
    harness.wait(0.2)
    assert harness.group.state_name == "Empty", "the session runs on while it is away"


def test_unknown_instance_id(harness):
    harness.join("a")
    assert harness.beat("a", member_epoch=1, instance_id="i").error_code == E.UNKNOWN_MEMBER_ID


def test_partitions_stay_assigned_after_a_temporary_leave(harness):
    harness.join("a", instance_id="i")
    harness.leave("a", -2)
    harness.join("b")
    harness.settle()
    assert harness.owned() == {"b": []}
    harness.join("c", instance_id="i")
    harness.settle()
    assert sorted(index for share in harness.owned().values() for index in share) == [0, 1, 2]


def test_former_instance_id_of_a_member_stays_registered(harness):
    """As in Kafka, no member can use the instance id after its member has left."""
    harness.join("m", instance_id="a")
    harness.join("m", instance_id="b")
    assert harness.join("n", instance_id="a").answer.error_code == E.UNRELEASED_INSTANCE_ID
    harness.leave("m")
    answer = harness.join("n", instance_id="a").answer
    assert (answer.error_code, answer.error_message) == (E.UNKNOWN_MEMBER_ID, "Member m is not a member of group g.")
    for epoch in (1, -1, -2):
        assert harness.beat("m", member_epoch=epoch, instance_id="a").error_code == E.UNKNOWN_MEMBER_ID
    assert harness.join("n", instance_id="b").answer.error_code == E.NONE


@pytest.mark.parametrize("epoch", [-1, -2])
def test_leave_without_member_id_is_invalid(harness, epoch):
    harness.join("m", instance_id="i")
    answer = harness.beat("" if epoch == -2 else "x", version=0, member_epoch=epoch, instance_id="i")
    assert answer.error_code == E.FENCED_INSTANCE_ID
    assert harness.group.members["m"].epoch == 1


# --- regular expressions ------------------------------------------------------------------------------------------


def test_a_regex_is_resolved_after_the_response(harness):
    harness.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="[tu]")
    assert last_assignment(harness, "a") == (1, [])
    harness.poll("a")
    assert {topic for topic, _ in harness.clients["a"].assigned} == {"t", "u"}
    assert harness.group.epoch == 2


def test_a_regex_matches_whole_names(harness):
    harness.broker.cluster.create_topic("tt", [[0]])
    harness.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="t")
    harness.poll("a")
    assert {topic for topic, _ in harness.clients["a"].assigned} == {"t"}


def test_a_regex_is_resolved_again_for_new_topics(harness):
    harness.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="t.*")
    harness.poll("a")
    harness.broker.cluster.create_topic("t2", [[0]])
    for _ in range(2):
        harness.wait(5.0)
        harness.poll("a")
    assert {topic for topic, _ in harness.clients["a"].assigned} == {"t"}, "not resolved twice within 10 s"
    harness.wait(0.1)
    harness.poll("a")
    harness.poll("a")
    assert {topic for topic, _ in harness.clients["a"].assigned} == {"t", "t2"}


def test_a_regex_is_resolved_in_slices_between_requests(harness, monkeypatch):
    monkeypatch.setattr(machine, "REGEX_SLICE", 2)
    for number in range(3):  # with t and u, five topics
        harness.broker.cluster.create_topic(f"t{number}", [[0]])
    tick, after_ticks = harness.router.tick, []

    def watched(now: float) -> Any:
        outcomes = tick(now)
        topics = {topic for resolved in harness.group.resolved_regexes.values() for topic in resolved.topics}
        after_ticks.append((sorted(topics), harness.group.epoch))
        return outcomes

    monkeypatch.setattr(harness.router, "tick", watched)
    harness.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="t.*")
    matched = ["t", "t0", "t1", "t2"]
    assert after_ticks == [([], 1), ([], 1), (matched, 1), (matched, 2)], "three slices, then the new epoch"


def test_an_empty_subscription_replaces_the_old_one(harness):
    harness.join("a", ["u"], subscribed_topic_regex="t")
    harness.poll("a")
    assert {topic for topic, _ in harness.clients["a"].assigned} == {"t", "u"}
    harness.poll("a", subscribed_topic_regex="")
    assert {topic for topic, _ in harness.clients["a"].assigned} == {"u"}


# --- journal ------------------------------------------------------------------------------------------------------


def test_journal_events_of_a_reconciliation(harness):
    harness.join("a")
    harness.join("b")
    harness.settle()
    moved = harness.owned()["b"]
    harness.leave("b")
    assert [(event.event, event.member_id, event.generation) for event in harness.journal.events] == [
        ("join", "a", 0),
        ("rebalance", "", 1),
        ("generation", "", 1),
        ("assign", "a", 1),
        ("join", "b", 0),
        ("rebalance", "", 2),
        ("generation", "", 2),
        ("assign", "b", 2),  # no partition is released yet
        ("assign", "a", 1),
        ("assign", "a", 2),  # the member has revoked the partition
        ("assign", "b", 2),
        ("leave", "b", 2),
        ("rebalance", "", 3),
    ]
    last = [event for event in harness.journal.events if event.event == "assign"][-1]
    assert last.assignment == {"t": moved}


def test_journal_has_members_that_reach_an_epoch_unchanged(harness):
    """Without this event, ``wait_group`` would not notice that the group is Stable."""
    harness.join("a")
    harness.join("b", topics=["u"])
    assert harness.group.state_name == "Reconciling"
    harness.poll("a")
    assert harness.group.state_name == "Stable"
    last = harness.journal.events[-1]
    assert (last.event, last.member_id, last.generation, last.assignment) == ("assign", "a", 2, {"t": [0, 1, 2]})


# --- operations of administrators ---------------------------------------------------------------------------------


def test_evicted_member_is_unknown_and_its_partitions_move(harness):
    harness.join("a")
    harness.join("b")
    harness.settle()
    epoch = harness.group.epoch
    harness.administer("g", Evict("b", "evicted by an administrator"))
    expired, rebalance = harness.journal.events[-2:]
    assert (expired.event, expired.member_id, expired.reason) == ("expire", "b", "evicted by an administrator")
    assert (rebalance.event, rebalance.reason) == ("rebalance", "evicted by an administrator: b")
    assert harness.group.epoch == epoch + 1
    assert harness.beat("b", member_epoch=epoch).error_code == E.UNKNOWN_MEMBER_ID
    del harness.clients["b"]
    harness.settle()
    assert harness.owned() == {"a": [0, 1, 2]}


def test_evicted_static_member_frees_its_instance_id(harness):
    harness.join("a", instance_id="i")
    harness.administer("g", Evict("a", "evicted by an administrator"))
    assert harness.group.state_name == "Empty"
    harness.join("b", instance_id="i")
    assert harness.clients["b"].answer.error_code == E.NONE


def test_eviction_of_an_unknown_member_has_no_effects(harness):
    harness.join("a")
    events = len(harness.journal.events)
    harness.administer("g", Evict("z", "evicted by an administrator"))
    harness.administer("missing", Evict("a", "evicted by an administrator"))
    assert (len(harness.journal.events), list(harness.broker.groups)) == (events, ["g"])


def test_requested_rebalance_starts_an_epoch(harness):
    harness.join("a")
    harness.administer("g", Rebalance("on request"))
    assert (harness.group.epoch, harness.journal.events[-1].reason) == (2, "on request")
    harness.settle()
    assert (harness.clients["a"].epoch, harness.group.state_name) == (2, "Stable")


def test_requested_rebalance_of_an_empty_group_has_no_effects(harness):
    harness.join("a")
    harness.leave("a")
    harness.administer("g", Rebalance("on request"))
    assert harness.group.epoch == 2


# --- fields that a heartbeat leaves unchanged, and the reason of each change -----------------------------------------


FIELDS = [  # field of the heartbeat, attribute of the member, value, another value
    ("instance_id", "instance_id", "i", None),
    ("rack_id", "rack_id", "r", "s"),
    ("rebalance_timeout_ms", "rebalance_timeout", 5_000, 7_000),
    ("server_assignor", "assignor", "range", "uniform"),
    ("subscribed_topic_names", "topics", ["t", "u"], ["u"]),
    ("subscribed_topic_regex", "regex", "t.*", "u.*"),
]


@pytest.mark.parametrize(("field", "attribute", "value", "other"), FIELDS)
def test_omitted_field_keeps_its_value(harness, field: str, attribute: str, value: Any, other: Any) -> None:
    harness.join("a", **{field: value})
    first = getattr(harness.group.members["a"], attribute)
    assert first
    default = -1 if field == "rebalance_timeout_ms" else None
    given = {"member_epoch": harness.clients["a"].epoch, "instance_id": harness.group.members["a"].instance_id}
    harness.beat("a", **given | {field: default if field != "instance_id" else "i"})
    assert getattr(harness.group.members["a"], attribute) == first
    if other is not None:
        given["member_epoch"] = harness.group.members["a"].epoch
        assert harness.beat("a", **given | {field: other}).error_code == E.NONE
        assert getattr(harness.group.members["a"], attribute) not in (first, None)


def reasons(harness: ConsumerGroupHarness) -> list[tuple[str, str, str]]:
    """Return kind, member id and reason of the journal's events that have a reason."""
    return [(event.event, event.member_id, event.reason) for event in harness.journal.events if event.reason]


def test_journal_has_the_reason_of_each_epoch(harness):
    harness.join("a", instance_id="i")
    harness.poll("a", subscribed_topic_names=["t", "u"])
    harness.broker.cluster.add_partitions(harness.broker.cluster.topics["u"], [[0]])
    harness.poll("a")
    harness.leave("a", -2)
    harness.join("b", instance_id="i")
    harness.leave("b")
    harness.join("c")
    harness.wait(6.0)
    assert reasons(harness) == [
        ("rebalance", "", "a joined"),
        ("rebalance", "", "a subscribes to other topics"),
        ("rebalance", "", "subscribed topics changed"),
        ("away", "a", "static member left temporarily"),
        ("rejoin", "b", "static member i rejoined, a is replaced"),
        ("rebalance", "", "b subscribes to other topics"),
        ("leave", "b", "left"),
        ("rebalance", "", "left: b"),
        ("rebalance", "", "c joined"),
        ("expire", "c", "no heartbeat within the session timeout"),
        ("rebalance", "", "no heartbeat within the session timeout: c"),
    ]


def test_journal_has_the_reason_of_a_late_revocation(harness):
    harness.join("a", rebalance_timeout_ms=3_000)
    harness.join("b")
    harness.beat("a", member_epoch=1, topic_partitions=harness.lines(harness.clients["a"].assigned))
    harness.wait(3.0)
    assert reasons(harness)[-2:] == [
        ("expire", "a", "partitions were not revoked within the rebalance timeout"),
        ("rebalance", "", "partitions were not revoked within the rebalance timeout: a"),
    ]


@pytest.mark.parametrize("how", ["leave", "evict", "static member"])
def test_removed_member_has_no_deadlines(harness, how: str) -> None:
    harness.join("a", rebalance_timeout_ms=3_000, instance_id="i")
    harness.join("b")
    harness.beat("a", member_epoch=1, instance_id="i", topic_partitions=harness.lines(harness.clients["a"].assigned))
    assert len([timer for timer in deadlines(harness) if timer[1] == "a"]) == 2
    if how == "leave":
        harness.leave("a")
    elif how == "evict":
        harness.administer("g", Evict("a", "evicted by an administrator"))
    else:
        harness.leave("a", -2)
        harness.join("c", instance_id="i")
    assert {timer[1] for timer in deadlines(harness)} == ({"b", "c"} if how == "static member" else {"b"})


def deadlines(harness: ConsumerGroupHarness) -> list[Any]:
    """Return the kinds and members of all deadlines of the group."""
    timers = harness.group.timers
    kinds = ("session", "rebalance", "join", "sync")
    return [(kind, member) for member in ("a", "b", "c") for kind in kinds if (kind, member) in timers]


def test_revocation_ends_the_rebalance_deadline(harness):
    harness.join("a", rebalance_timeout_ms=3_000)
    harness.join("b")
    harness.beat("a", member_epoch=1, topic_partitions=harness.lines(harness.clients["a"].assigned))
    assert ("rebalance", "a") in deadlines(harness)
    harness.beat("a", member_epoch=1, topic_partitions=[])
    assert deadlines(harness) == [("session", "a"), ("session", "b")]


@pytest.mark.parametrize(
    ("config", "heartbeat", "session"),
    [
        ({}, 5_000, 6.0),
        ({"consumer.heartbeat.interval.ms": "7"}, 7, 6.0),
        ({"consumer.session.timeout.ms": "2500"}, 5_000, 2.5),
    ],
)
def test_timeouts_are_those_of_the_group(harness, config: dict[str, str], heartbeat: int, session: float) -> None:
    harness.broker.cluster.configure_group("g", config)
    assert harness.join("a").answer.heartbeat_interval_ms == heartbeat
    harness.wait(session - 0.001)
    assert "a" in harness.group.members
    harness.wait(0.001)
    assert "a" not in harness.group.members


MESSAGES = [  # member id, fields of the heartbeat, error, message
    ("x", {"member_epoch": 1}, E.UNKNOWN_MEMBER_ID, "Member x is not a member of group g."),
    ("a", {"member_epoch": 1, "instance_id": "z"}, E.UNKNOWN_MEMBER_ID, "Instance id z is unknown."),
    (
        "b",
        {"member_epoch": 1, "instance_id": "i"},
        E.FENCED_INSTANCE_ID,
        "Static member b with instance id i was fenced by member a.",
    ),
    (
        "b",
        {"member_epoch": 0, "instance_id": "i", "rebalance_timeout_ms": 1, "topic_partitions": []},
        E.UNRELEASED_INSTANCE_ID,
        "Static member b with instance id i cannot join the group because the instance id is owned by a member.",
    ),
]


@pytest.mark.parametrize(("member_id", "fields", "error", "message"), MESSAGES)
def test_refused_heartbeat_has_kafkas_message(
    harness, member_id: str, fields: dict[str, Any], error: E, message: str
) -> None:
    harness.join("a", instance_id="i")
    if fields["member_epoch"] == 0:
        fields = {**fields, "subscribed_topic_names": ["t"]}
    answer = harness.beat(member_id, **fields)
    assert (answer.error_code, answer.error_message) == (error, message)


@pytest.mark.parametrize(
    ("epoch", "message"),
    [(1, "Consumer group g not found."), (-1, "Group g not found."), (-2, "Group g not found.")],
)
def test_unknown_group_is_named(harness, epoch: int, message: str) -> None:
    answer = harness.beat("a", member_epoch=epoch, instance_id="i" if epoch == -2 else None)
    assert (answer.error_code, answer.error_message) == (E.GROUP_ID_NOT_FOUND, message)


def test_member_that_shares_a_regex_gets_its_topics_at_once(harness):
    harness.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="t.*")
    harness.poll("a")
    epoch = harness.group.epoch
    harness.join("b", [], subscribed_topic_names=None, subscribed_topic_regex="t.*")
    assert harness.group.epoch == epoch + 1
    assert reasons(harness)[-1] == ("rebalance", "", "b subscribes to another regular expression")
    harness.settle()
    assert sorted(index for share in harness.owned().values() for index in share) == [0, 1, 2]


def test_regex_matches_a_topic_that_others_subscribe_to_by_name():
    harness = ConsumerGroupHarness(topics={"u": 2})
    harness.join("a", ["u"])
    harness.join("b", [], subscribed_topic_names=None, subscribed_topic_regex="u.*")
    harness.settle()
    assert {name: len(client.owns) for name, client in harness.clients.items()} == {"a": 1, "b": 1}


@pytest.mark.parametrize("fields", [{}, {"topics": frozenset({"u"})}, {"regex": "t.*"}, {"rack_id": "r"}])
def test_subscription_is_the_topics_and_the_regex(fields):
    before = ConsumerMember(member_id="a", topics=frozenset({"t"}))
    changed = machine._has_changed_subscription(before, replace(before, **fields))
    assert changed is bool({"topics", "regex"} & fields.keys())


def test_all_regexes_of_a_group_are_resolved_together(harness):
    for name, regex in (("a", "t.*"), ("b", "u.*"), ("c", "v.*")):
        harness.join(name, [], subscribed_topic_names=None, subscribed_topic_regex=regex)
    for _ in range(3):
        harness.wait(3.5)
        for name in "abc":
            harness.poll(name)
    resolved = harness.group.resolved_regexes
    assert {regex: each.at for regex, each in resolved.items()} == dict.fromkeys(("t.*", "u.*", "v.*"), harness.now)


def test_regex_is_resolved_again_after_its_refresh_interval():
    harness = ConsumerGroupHarness(topics={"t": 1}, config={"group.consumer.regex.refresh.interval.ms": 20_000})
    harness.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="t.*")
    first = next(iter(harness.group.resolved_regexes.values())).at
    for seconds, again in ((20.0, False), (0.1, True)):
        harness.wait(seconds)
        harness.poll("a")
        assert (next(iter(harness.group.resolved_regexes.values())).at > first) is again


def test_regex_matches_only_topics_that_may_be_described(harness):
    harness.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="t.*")
    group = harness.group
    assert group.may_describe is None
    assert [resolved.topics for resolved in group.resolved_regexes.values()] == [frozenset({"t"})]


@pytest.mark.parametrize(("seconds", "again"), [(-0.5, False), (0.0, True)])
def test_metadata_is_read_again_after_the_refresh_interval(seconds: float, again: bool) -> None:
    harness = ConsumerGroupHarness(topics={"t": 3}, config={"group.consumer.session.timeout.ms": 60_000})
    harness.join("a")
    first = harness.group.metadata_refresh_at
    assert first == harness.now + machine.METADATA_REFRESH_INTERVAL
    while harness.now + 30.0 < first + seconds:
        harness.wait(30.0)
        harness.poll("a")
    harness.wait(first + seconds - harness.now)
    harness.poll("a")
    assert (harness.group.metadata_refresh_at > first) is again
    assert harness.group.epoch == 1


def test_regex_matches_no_topic_that_the_client_may_not_describe(harness):
    harness.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="[tu]")
    group = harness.group
    group.may_describe = lambda topic: topic == "u"
    machine._resolve_regex(group, "[tu]", harness.broker.groups.context)
    assert group.resolved_regexes["[tu]"].topics == {"u"}


def test_topics_of_a_regex_are_those_that_its_client_describes(harness):
    harness.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="[tu]")
    group, context = harness.group, harness.broker.groups.context
    harness.wait(machine.REGEX_REFRESH_MIN_INTERVAL + 0.1)

    def only_u(topic: str) -> bool:
        return topic == "u"

    event = ConsumerHeartbeat(
        ticket=Ticket(1, 1, 0, 0),
        member_id="b",
        epoch=0,
        client_id="b",
        client_host="/127.0.0.1",
        rebalance_timeout=60.0,
        regex="[tu].*",
        owned_partitions=frozenset(),
        may_describe=only_u,
    )
    machine.heartbeat(group, event, context, harness.now)
    assert group.may_describe is only_u


def test_unchanged_heartbeat_keeps_the_permissions_of_regexes(harness):
    """A resolution uses the permissions of the client whose request started it."""
    harness.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="[tu]")
    harness.settle()
    group = harness.group
    member = group.members["a"]
    event = ConsumerHeartbeat(
        ticket=Ticket(1, 1, 0, 0),
        member_id="a",
        epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        may_describe=lambda topic: topic == "u",
    )
    machine.heartbeat(group, event, harness.broker.groups.context, harness.now)
    assert group.may_describe is None


def test_second_member_keeps_the_permissions_of_a_resolution(harness):
    """The second member subscribes during the resolution: the timer is due, and topics are matched afterwards."""
    context = harness.broker.groups.context
    group = ConsumerGroup(group_id="g")
    before = ConsumerMember(member_id="a")
    member = replace(before, regex="t.*")
    machine.update_member(group, None, before, member, None, context, 5.0)
    second = replace(member, member_id="b")
    machine.update_member(group, None, replace(before, member_id="b"), second, lambda _: False, context, 5.0)
    assert (group.may_describe, group.timers.earliest) == (None, 5.0)


def test_member_without_a_regex_resolves_none(harness):
    harness.join("a")
    assert REGEX_TIMER not in harness.group.timers


def test_member_without_its_regex_starts_an_epoch(harness):
    harness.join("a", ["t"], subscribed_topic_regex="u.*")
    harness.settle()
    epoch = harness.group.epoch
    harness.poll("a", subscribed_topic_regex="")
    assert (harness.group.epoch, harness.group.members["a"].regex) == (epoch + 1, "")
    assert harness.clients["a"].owns == {("t", index) for index in range(3)}


def test_unresolved_regex_takes_the_topics_of_the_former_one(harness):
    harness.join("a", [], subscribed_topic_regex="t.*")
    harness.settle()
    assert harness.clients["a"].owns == {("t", index) for index in range(3)}
    client = harness.clients["a"]
    answer = harness.beat(
        "a", member_epoch=client.epoch, subscribed_topic_regex="u.*", topic_partitions=harness.lines(client.owns)
    )
    assert (answer.member_epoch, answer.assignment.topic_partitions) == (client.epoch, [])


def test_new_client_id_computes_no_target(harness):
    harness.join("a")
    harness.settle()
    before = [event.event for event in harness.journal.events]
    client = harness.clients["a"]
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=client.epoch)
    assert harness.ask(request, 1, client_id="other").error_code == E.NONE
    assert harness.group.members["a"].client_id == "other"
    assert [event.event for event in harness.journal.events] == before


def test_static_member_returns_with_the_same_fields(harness):
    def beat(name: str, epoch: int) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=name,
            member_epoch=epoch,
            instance_id="i",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        return harness.ask(request, 1, client_id="same")

    assert beat("a", 0).error_code == E.NONE
    assert beat("a", -2).error_code == E.NONE
    answer = beat("b", 0)
    assert (answer.error_code, answer.member_id) == (E.NONE, "b")
    assert len(harness.read(answer.assignment.topic_partitions)) == 3
    assert list(harness.group.members) == ["b"]


def test_replacing_static_member_begins_with_epoch_0():
    group = ConsumerGroup(group_id="g")
    group.put_member(ConsumerMember(member_id="a", instance_id="i", epoch=-2, previous_epoch=4))
    group.put_member(ConsumerMember(member_id="b", epoch=5))
    old, new = machine.join_static(group, "c", "i", uses_classic_protocol=False)
    assert (old, new.member_id) == (group.members["a"], "c")
    assert (new.epoch, new.previous_epoch) == (0, 0)
    assert machine.join_static(group, "b", "new", uses_classic_protocol=False) == (group.members["b"],) * 2
    assert machine.join_static(group, "d", "new", uses_classic_protocol=False) == (None, ConsumerMember(member_id="d"))


@pytest.mark.parametrize(
    ("member_id", "epoch", "made"), [("", 0, True), ("", 3, True), ("", -1, False), ("m", 0, False)]
)
def test_member_id_is_made_for_a_member_that_does_not_leave(harness, member_id: str, epoch: int, made: bool):
    event = ConsumerHeartbeat(
        ticket=Ticket(1, 1, 68, 0), member_id=member_id, epoch=epoch, client_id="", client_host=""
    )
    assert (machine.with_member_id(event, harness.broker.groups.context) is not event) is made


def test_changed_topics_start_one_epoch_with_a_leaving_member(harness):
    harness.join("a")
    harness.join("b")
    harness.settle()
    cluster = harness.broker.cluster
    cluster.add_partitions(cluster.topics["t"], cluster.place(1, 1))
    epoch = harness.group.epoch
    harness.leave("b")
    assert (harness.group.epoch, harness.group.topic_metadata["t"][1]) == (epoch + 1, 4)
    harness.poll("a")
    assert harness.group.epoch == epoch + 1


def test_range_assigns_for_all_members_again():
    harness = ConsumerGroupHarness(topics={"t": 4}, config={"group.consumer.assignors": "range"})
    for name in "abc":
        harness.join(name)
        assert harness.group.uniform_target is None
    harness.settle()
    assert sorted(map(len, harness.owned().values())) == [1, 1, 2]


@pytest.mark.parametrize(("seconds", "due"), [(0.0, False), (10.0, False), (10.001, True)])
def test_regexes_are_resolved_at_most_every_ten_seconds(harness, seconds: float, due: bool):
    group = ConsumerGroup(group_id="g")
    group.put_member(ConsumerMember(member_id="a", regex="new.*"))
    resolved = {"old.*": ResolvedRegex(frozenset(), harness.broker.cluster.epoch, 5.0)}
    assert machine._should_resolve_regexes(group, resolved, harness.broker.groups.context, 5.0 + seconds) is due


def test_member_that_leaves_for_a_while_revokes_at_once(harness):
    harness.join("a", instance_id="i")
    harness.settle()
    member = harness.group.members["a"]
    some = frozenset(list(member.assigned)[:1])
    harness.group.put_member(replace(member, assigned=member.assigned - some, pending_revocation=some))
    assert harness.beat("a", member_epoch=-2, instance_id="i").error_code == E.NONE
    left = harness.group.members["a"]
    assert (left.epoch, left.pending_revocation, left.assigned) == (-2, frozenset(), member.assigned - some)
    assert harness.group.partition_epochs.keys() == left.assigned


def test_regex_without_a_subscriber_is_not_resolved(harness):
    """The member that subscribed to the regular expression has left during the resolution."""
    group = ConsumerGroup(group_id="g")
    group.put_member(ConsumerMember(member_id="a", regex="u.*"))
    group.regexes_to_resolve, group.resolving_since = ["u.*", "gone"], 0.0
    for _ in range(5):
        machine._resolve_regexes(group, harness.broker.groups.context, 0.0)
    assert (set(group.resolved_regexes), group.regexes_to_resolve) == ({"u.*"}, None)


@pytest.mark.parametrize(("count", "calls"), [(1_999, 1), (2_000, 3)])
def test_one_slice_of_2000_topics_is_resolved_at_once(count: int, calls: int):
    """With more topics than a slice has, including the internal topic, the new epoch starts in a separate call."""
    context = ConsumerGroupHarness(topics={f"t{number}": 1 for number in range(count)}).broker.groups.context
    group = ConsumerGroup(group_id="g")
    group.put_member(ConsumerMember(member_id="a", regex="t.*"))
    needed = 0
    while not group.epoch:
        machine._resolve_regexes(group, context, 0.0)
        needed += 1
    assert needed == calls


def test_revocation_within_an_epoch_ends_the_deadline(harness):
    harness.join("a", [], subscribed_topic_regex="t.*")
    harness.settle()
    client, deadline = harness.clients["a"], ("rebalance", "a")
    epoch = client.epoch
    owned = harness.lines(client.owns)
    harness.beat("a", member_epoch=epoch, subscribed_topic_regex="u.*", topic_partitions=owned)
    assert harness.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert harness.group.timers.at(deadline) == harness.now + 60.0
    harness.group.assignment_epoch = epoch  # the regular expression is not resolved yet
    group, context = harness.group, harness.broker.groups.context
    machine.reconcile(group, "a", frozenset(), context, harness.now, changed=False)
    assert (group.members["a"].epoch, group.timers.at(deadline)) == (epoch, None)


def test_resolution_starts_an_epoch_only_for_changes():
    harness = ConsumerGroupHarness(topics={"t": 1})
    cluster, context = harness.broker.cluster, harness.broker.groups.context
    group = ConsumerGroup(group_id="g")
    group.put_member(ConsumerMember(member_id="a", regex="none.*"))
    assert (machine._resolve_regexes(group, context, 0.0), group.epoch) == ([], 0)
    group.put_member(ConsumerMember(member_id="a", regex="t.*"))
    machine._resolve_regexes(group, context, 0.0)
    assert group.epoch == 1
    assert (machine._resolve_regexes(group, context, 0.0), group.epoch) == ([], 1)
    cluster.add_partitions(cluster.topics["t"], cluster.place(1, 1))
    machine._resolve_regexes(group, context, 0.0)
    assert (group.epoch, group.topic_metadata["t"][1]) == (2, 2)


@pytest.mark.parametrize(("regex", "due"), [("", None), ("t.*", 5.0)])
def test_new_member_with_a_regex_causes_a_resolution(harness, regex: str, due: float | None):
    group = ConsumerGroup(group_id="g")
    before = ConsumerMember(member_id="a")
    after = replace(before, topics=frozenset({"t"}), regex=regex)
    machine.update_member(group, None, before, after, None, harness.broker.groups.context, 5.0)
    assert group.timers.at(REGEX_TIMER) == due
