"""The tables of a consumer group that are derived from its members."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from mockbroker.groups.consumer.group_type import CONSUMER_TYPE
from mockbroker.groups.consumer.state import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ClassicMemberMetadata,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
    rebalance_timer,
)
from mockbroker.groups.offsets import Committed

T, U = UUID(int=1), UUID(int=2)
REGEXES = {"t.*": frozenset({"t", "t2"}), "u.*": frozenset({"u", "t2"})}


def check(group: ConsumerGroup) -> None:
    """Compare the derived tables with the members."""
    members = group.members.values()
    assert group.subscribed_names == Counter(topic for each in members for topic in each.topics)
    assert group.subscribed_regexes == Counter(each.regex for each in members if each.regex)
    assert group.requested_assignors == Counter(each.assignor for each in members if each.assignor)
    assert group.classic_member_count == sum(each.classic is not None for each in members)
    resolved = [each.topics for each in group.resolved_regexes.values()]
    assert group.regex_topics == Counter(topic for topics in resolved for topic in topics)
    assert set(group.resolved_regexes) <= set(group.subscribed_regexes)
    assert group.partition_epochs == {
        partition: each.epoch for each in members for partition in each.assigned | each.pending_revocation
    }
    by_name = [count == len(members) for count in group.subscribed_names.values()]
    assert group.homogeneous is (all(by_name) and set(group.regex_topics) <= set(group.subscribed_names))
    assert set(group.target) <= set(group.members)


def random_member(random: Random, name: str, epoch: int) -> ConsumerMember:
    """Return a member whose partitions no other member has."""
    number = int(name[1:])
    return ConsumerMember(
        member_id=name,
        instance_id=random.choice([None, f"i{number}"]),
        topics=frozenset(random.sample(["t", "u"], random.randint(0, 2))),
        regex=random.choice(["", "", *REGEXES]),
        assignor=random.choice([None, "range", "uniform"]),
        classic=random.choice([None, ClassicMemberMetadata(10.0, [("range", b"")])]),
        epoch=epoch,
        assigned=frozenset((T, index) for index in random.sample(range(10 * number, 10 * number + 5), 2)),
        pending_revocation=frozenset({(U, number)}) if random.random() < 0.3 else frozenset(),
    )


@pytest.mark.parametrize("seed", range(5))
def test_derived_tables_follow_the_members(seed: int) -> None:
    random, group = Random(seed), ConsumerGroup(group_id="g")
    largest = 0
    for step in range(150):
        name = f"m{random.randrange(6)}"
        match random.random():
            case chance if chance < 0.6:
                group.put_member(random_member(random, name, step))
                group.target[name] = {T: [step]}
            case chance if chance < 0.8 and name in group.members:
                group.remove_member(group.members[name])
            case _:
                for regex in group.subscribed_regexes:
                    group.put_resolved_regex(regex, ResolvedRegex(REGEXES[regex], 1, 1.0))
                group.homogeneous = group._is_homogeneous()
        largest = max(largest, len(group.members))
        check(group)
        assert group.peak_member_count == largest


def member(name: str, epoch: int = 1, **fields: object) -> ConsumerMember:
    return replace(ConsumerMember(member_id=name, epoch=epoch, topics=frozenset({"t"})), **fields)  # type: ignore[arg-type]


def test_static_member_takes_over_target_and_regex() -> None:
    group = ConsumerGroup(group_id="g")
    old = member("a", instance_id="i", regex="t.*", assigned=frozenset({(T, 0)}))
    group.put_member(old)
    group.put_resolved_regex("t.*", ResolvedRegex(REGEXES["t.*"], 1, 1.0))
    group.target["a"] = {T: [0]}
    group.replace_static_member(old, replace(old, member_id="b"))
    assert (list(group.members), group.static_members, group.target) == (["b"], {"i": "b"}, {"b": {T: [0]}})
    assert group.resolved_regexes["t.*"].topics == REGEXES["t.*"]
    check(group)
    group.remove_member(group.members["b"])
    assert (group.static_members, group.target, group.resolved_regexes, group.regex_topics) == ({}, {}, {}, {})


def test_former_member_does_not_free_an_instance_id() -> None:
    group = ConsumerGroup(group_id="g")
    for name in ("a", "b"):
        group.put_member(member(name, instance_id="i"))
    group.remove_member(group.members["a"])
    assert group.static_members == {"i": "b"}


def test_new_member_epoch_ends_the_rebalance_deadline() -> None:
    group = ConsumerGroup(group_id="g")
    group.put_member(member("a"))
    timer = rebalance_timer("a")
    for epoch, kept in ((1, True), (2, False)):
        group.timers.set(timer, 9.0)
        group.put_member(member("a", epoch))
        assert (timer in group.timers) is kept


STATES = [  # group epoch, assignment epoch, member epoch, state of the member, name
    (2, 1, 1, MemberState.STABLE, "Assigning"),
    (2, 2, 2, MemberState.STABLE, "Stable"),
    (2, 2, 1, MemberState.STABLE, "Reconciling"),
    (2, 2, 2, MemberState.UNREVOKED_PARTITIONS, "Reconciling"),
    (2, 2, 2, MemberState.UNRELEASED_PARTITIONS, "Reconciling"),
]


@pytest.mark.parametrize(("epoch", "assignment_epoch", "member_epoch", "state", "name"), STATES)
def test_state_depends_on_the_epochs(
    epoch: int, assignment_epoch: int, member_epoch: int, state: MemberState, name: str
) -> None:
    group = ConsumerGroup(group_id="g", epoch=epoch, assignment_epoch=assignment_epoch)
    assert group.state_name == "Empty"
    group.put_member(member("a", member_epoch, state=state))
    assert group.state_name == name
    group.put_member(member("b", assignment_epoch))
    assert group.state_name == name, "all members have to be reconciled"


def test_topics_of_a_member_are_those_of_both_subscriptions() -> None:
    group = ConsumerGroup(group_id="g")
    members = [member("a", regex="u.*"), member("b", regex="u.*", topics=frozenset()), member("c")]
    for each in members:
        group.put_member(each)
    assert [group.topics_of(each) for each in members] == [{"t"}, frozenset(), {"t"}]
    group.put_resolved_regex("u.*", ResolvedRegex(REGEXES["u.*"], 1, 1.0))
    assert [group.topics_of(each) for each in members] == [{"t", "t2", "u"}, {"t2", "u"}, {"t"}]
    assert [group.is_subscribed_to(topic) for topic in ("t", "u", "v")] == [True, True, False]
    assert set(group.subscribed_topics()) == {"t", "u", "t2"}


@pytest.mark.parametrize(
    ("names", "supported"), [(["range"], True), (["other"], False), (["other", "range"], True), ([], False)]
)
def test_protocol_is_supported_by_all_classic_members(names: list[str], supported: bool) -> None:
    group = ConsumerGroup(group_id="g")
    group.put_member(member("new"))
    assert group.supports_classic_protocols(names) is bool(names)
    group.put_member(member("a", classic=ClassicMemberMetadata(1.0, [("range", b""), ("other", b"")])))
    group.put_member(member("b", classic=ClassicMemberMetadata(1.0, [("range", b"")])))
    assert group.supports_classic_protocols(names) is supported


def test_target_of_a_member_is_a_set_of_partitions() -> None:
    group = ConsumerGroup(group_id="g")
    group.target["a"] = {T: [0, 2], U: [1]}
    assert group.target_of("a") == {(T, 0), (T, 2), (U, 1)}
    assert group.target_of("b") == frozenset()


def test_new_matches_of_a_regex_replace_the_old_ones() -> None:
    group = ConsumerGroup(group_id="g")
    group.put_member(member("a", regex="t.*"))
    for topics in (frozenset({"t", "t2"}), frozenset({"t2", "t3"})):
        group.put_resolved_regex("t.*", ResolvedRegex(topics, 1, 1.0))
        assert group.regex_topics == Counter(topics)


def test_regex_stays_resolved_while_a_member_subscribes_to_it() -> None:
    group = ConsumerGroup(group_id="g")
    for name in ("a", "b"):
        group.put_member(member(name, regex="t.*"))
    group.put_resolved_regex("t.*", ResolvedRegex(REGEXES["t.*"], 1, 1.0))
    group.remove_member(group.members["a"])
    assert group.resolved_regexes["t.*"].topics == REGEXES["t.*"]
    group.remove_member(group.members["b"])
    assert group.resolved_regexes == {}


def test_new_group_has_no_epoch() -> None:
    group = ConsumerGroup(group_id="g")
    assert (group.epoch, group.assignment_epoch, group.metadata_version, group.peak_member_count) == (0, 0, -1, 0)
    assert (group.classic_member_count, group.matches_changed, group.homogeneous) == (0, False, True)
    assert (ConsumerMember(member_id="a").epoch, ConsumerMember(member_id="a").previous_epoch) == (0, -1)
    numbers = {state.name: state.value for state in MemberState}
    assert numbers == {"STABLE": 0, "UNREVOKED_PARTITIONS": 1, "UNRELEASED_PARTITIONS": 2}


@pytest.mark.parametrize(("topic", "start"), [("t", None), ("t2", None), ("u", 5.0)])
def test_offsets_of_subscribed_topics_do_not_expire(topic: str, start: float | None) -> None:
    group = ConsumerGroup(group_id="g")
    group.put_member(member("a", regex="t.*"))
    group.put_resolved_regex("t.*", ResolvedRegex(REGEXES["t.*"], 1, 1.0))
    assert CONSUMER_TYPE.retention_start(group)(topic, Committed(offset=1, at=5.0)) == start


def test_only_members_of_the_group_are_described() -> None:
    group = ConsumerGroup(group_id="g")
    group.put_member(member("a"))
    context: Any = SimpleNamespace(group_milliseconds=lambda group_id, name: len(group_id + name))
    (described,) = CONSUMER_TYPE.describe_members(group, ["a", "gone"], {}, context)
    assert (described.member_id, described.session_timeout_ms) == ("a", len("gconsumer.session.timeout.ms"))


def test_special_member_epochs_are_those_of_kafka() -> None:
    assert (JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH) == (0, -1, -2)


def test_static_replacement_needs_a_target_for_all() -> None:
    group = ConsumerGroup(group_id="g")
    old = ConsumerMember(member_id="a", instance_id="i")
    group.put_member(old)
    group.target["a"] = {T: [0]}
    group.uniform_target = SimpleNamespace(add=lambda _: None, remove=lambda *_: None)  # type: ignore[assignment]
    group.replace_static_member(old, replace(old, member_id="b"))
    assert (group.uniform_target, group.target, group.static_members) == (None, {"b": {T: [0]}}, {"i": "b"})


def test_subscriptions_are_compared_again_with_the_metadata() -> None:
    """A resolved regular expression has no effect before the next comparison."""
    cluster: Any = SimpleNamespace(epoch=3, topics={})
    group = ConsumerGroup(group_id="g")
    group.put_member(ConsumerMember(member_id="a", topics=frozenset({"t"})))
    group.put_resolved_regex("u.*", ResolvedRegex(frozenset({"u"}), 3, 0.0))
    assert group.homogeneous
    group.refresh_metadata(cluster, 1.0, 10.0)
    assert not group.homogeneous
