"""The incremental form of uniform: the same target assignments as the computation for all members."""

from __future__ import annotations

from uuid import UUID

from effort import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.assignors import uniform
from kwire.assignors.server import GroupAssignment, MemberSubscription
from kwire.assignors.uniform_incremental import UniformTarget
from kwire.java import map_order

T1, T2, T3 = UUID(int=1), UUID(int=2 << 64), UUID(int=3)
COUNTS = st.dictionaries(st.sampled_from([T1, T2, T3]), st.integers(1, 30), min_size=1)
MEMBER = st.integers(0, 30).map("consumer-{}".format)
ROUNDS = st.lists(
    st.lists(MEMBER, max_size=3), max_size=30
)  # in each round these members join, or leave if they are in the group


def for_all(ids: list[str], peak: int, counts: dict[UUID, int], target: GroupAssignment) -> GroupAssignment:
    members = {each: MemberSubscription(list(counts), target.get(each, {})) for each in map_order(ids, peak)}
    return uniform.assign(members, counts, homogeneous=True)


@given(COUNTS, st.lists(MEMBER, min_size=1, unique=True), ROUNDS)
@settings(max_examples=amount(150, 1_000), deadline=None)
def test_equals_the_computation_for_all_members(counts, ids, rounds):
    peak = len(ids)
    target = for_all(ids, peak, counts, {})
    own = {member: dict(each) for member, each in target.items()}
    update = UniformTarget.of(own, ids, peak, counts)
    for changes in rounds:
        for member in changes:
            if member in ids:
                ids.remove(member)
                update.remove(member, own.pop(member, None))
            else:
                ids.append(member)
                update.add(member)
            peak = max(peak, len(ids))
        target = for_all(ids, peak, counts, {member: each for member, each in target.items() if member in own})
        if not update.is_for(counts, peak):
            if not ids:
                return
            own = {member: dict(each) for member, each in target.items()}
            update = UniformTarget.of(own, ids, peak, counts)
            continue
        assert update.first_member == map_order(ids, peak)[0]
        update.update()
        assert {m: list(each.items()) for m, each in own.items()} == {
            m: list(each.items()) for m, each in target.items()
        }


def test_a_group_with_other_partitions_or_share_is_not_updated():
    target = {"a": {T1: [0, 1]}, "b": {T1: [2]}}
    update = UniformTarget.of(target, ["a", "b"], 2, {T1: 3})
    assert update.is_for({T1: 3}, 2)
    assert not update.is_for({T1: 4}, 2)
    assert not update.is_for({T1: 3}, 13)  # the map has more buckets
    update.add("c")
    assert update.is_for({T1: 3}, 3)
    update.add("d")  # the share is 0
    assert not update.is_for({T1: 3}, 4)
    for member in "abcd":
        update.remove(member, target.get(member))
    assert not update.is_for({T1: 3}, 4)


def test_an_assignment_that_is_not_balanced_is_not_prepared():
    assert UniformTarget.of({"a": {T1: [0, 1]}, "b": {T1: [1]}}, ["a", "b"], 2, {T1: 2}) is None
    assert UniformTarget.of({"a": {T1: [0, 1]}, "b": {}}, ["a", "b"], 2, {T1: 2}) is None
    assert UniformTarget.of({"a": {T1: [0]}, "b": {}}, ["a", "b"], 2, {T1: 1}) is not None
