"""Batches in flight: runs of offsets with the same state, split and merged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mockbroker.share.in_flight import ACQUIRED, AVAILABLE, InFlightBatch, InFlightBatches, RecordState, Run


def batch(first: int, last: int) -> InFlightBatch:
    return InFlightBatch(Run(first, last, AVAILABLE, 0))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.sampled_from(list(RecordState))), max_size=20))
def test_runs_are_a_state_for_each_offset(changes):
    runs = batch(0, 30)
    expected = [AVAILABLE] * 31
    for one, other, state in changes:
        first, last = min(one, other), max(one, other)
        result = runs.runs_between(first, last)
        assert (result[0].first, result[-1].last) == (first, last)
        for run in result:
            run.state = state
        expected[first : last + 1] = [state] * (last - first + 1)
        if len(changes) % 2:
            runs.merge()
    assert [run.state for run in runs.runs for _ in range(run.size)] == expected
    assert [run.first for run in runs.runs[1:]] == [run.last + 1 for run in runs.runs[:-1]]


def test_merge_keeps_locks_of_other_members_apart():
    runs = batch(0, 3)
    for offset, member in enumerate("aabb"):
        (run,) = runs.runs_between(offset, offset)
        run.state, run.member_id, run.locked_until = ACQUIRED, member, 5.0
    runs.merge()
    assert [(run.first, run.last, run.member_id) for run in runs.runs] == [(0, 1, "a"), (2, 3, "b")]


def test_batches_are_found_by_offset():
    batches = InFlightBatches()
    first, second, third = batch(0, 4), batch(10, 14), batch(5, 7)
    for each in (first, second, third):
        batches.add(each)
    assert list(batches) == [first, third, second]
    assert batches.floor(9) is third
    assert batches.floor(-1) is None
    assert batches.beginning_in(1, 10) == [third, second]
    batches.remove_first(2)
    assert batches.first is batches.last is second
    batches.clear()
    assert not len(batches)


def test_overlap_with_an_offset_is_inside_of_a_batch():
    assert [batch(3, 5).overlaps(offset) for offset in (3, 4, 5, 6)] == [False, True, True, False]
