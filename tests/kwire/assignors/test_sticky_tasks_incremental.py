"""The incremental form of the task assignor: the same target assignments as the computation for all members."""

from __future__ import annotations

from collections.abc import Mapping

from effort import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.assignors.sticky_tasks import SubtopologyTasks, TaskMember, Tasks, assign_tasks
from kwire.assignors.sticky_tasks_incremental import BalancedTasks
from kwire.java import map_order

TASKS = st.integers(1, 12).map(lambda count: SubtopologyTasks(count, stateful=False))
SUBTOPOLOGIES = st.dictionaries(st.sampled_from(["0", "1", "2", "10"]), TASKS, min_size=1)
MEMBERS = st.lists(st.integers(0, 99).map("member-{}".format), min_size=2, max_size=40, unique=True)


def for_all(
    ids: list[str], target: Mapping[str, Tasks], subtopologies: Mapping[str, SubtopologyTasks]
) -> dict[str, Tasks]:
    members = {each: TaskMember(f"p-{each}", target.get(each, Tasks())) for each in map_order(ids)}
    return assign_tasks(members, subtopologies)


@given(SUBTOPOLOGIES, MEMBERS)
@settings(max_examples=amount(150, 1_000), deadline=None)
def test_equals_the_computation_for_all_members(subtopologies, members):
    ids, target, balanced = [], {}, None
    for member_id in members:
        ids.append(member_id)
        expected = for_all(ids, target, subtopologies)
        if balanced is not None and balanced.join(member_id, f"p-{member_id}") and balanced.is_for(subtopologies):
            target |= balanced.update(target)
            assert target == expected
        else:
            target = expected
            balanced = BalancedTasks.of(target, {each: f"p-{each}" for each in ids}, subtopologies)
            assert balanced is not None


def test_only_a_member_with_a_process_of_its_own_joins():
    subtopologies = {"0": SubtopologyTasks(5, stateful=False)}
    target = {"a": Tasks(frozenset({("0", 0), ("0", 2), ("0", 4)})), "b": Tasks(frozenset({("0", 1), ("0", 3)}))}
    assert BalancedTasks.of(target, {"a": "p", "b": "p"}, subtopologies) is None
    balanced = BalancedTasks.of(target, {"a": "p", "b": "q"}, subtopologies)
    assert balanced.is_for(subtopologies)
    assert not balanced.is_for({"0": SubtopologyTasks(6, stateful=False)})
    assert not balanced.join("c", "q")
    assert balanced.join("c", "r")
    assert not balanced.join("d", "s")  # one at a time
    assert not balanced.is_for(subtopologies)  # the share is 1


def test_standby_tasks_and_unbalanced_targets_are_not_prepared():
    subtopologies = {"0": SubtopologyTasks(2, stateful=True)}
    one, other = frozenset({("0", 0)}), frozenset({("0", 1)})
    processes = {"a": "p", "b": "q"}
    assert BalancedTasks.of({"a": Tasks(one), "b": Tasks(other)}, processes, subtopologies) is not None
    assert BalancedTasks.of({"a": Tasks(one, standby=other), "b": Tasks(other)}, processes, subtopologies) is None
    assert BalancedTasks.of({"a": Tasks(one), "b": Tasks(one)}, processes, subtopologies) is None
    assert BalancedTasks.of({"a": Tasks(one | other), "b": Tasks()}, processes, subtopologies) is None
    assert BalancedTasks.of({}, {}, subtopologies) is None
