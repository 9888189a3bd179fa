"""The durable state of a share partition: the combination of overlapping state batches."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.share.state import ShareState, StateBatch, StateKey, combined

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4

# Name, batches, start offset, combined batches.
CASES: list[tuple[str, list[tuple[int, int, int, int]], int, list[tuple[int, int, int, int]]]] = [
    ("adjacent and equal", [(0, 4, 2, 1), (5, 9, 2, 1)], -1, [(0, 9, 2, 1)]),
    ("adjacent with other state", [(0, 4, 2, 1), (5, 9, 4, 1)], -1, [(0, 4, 2, 1), (5, 9, 4, 1)]),
    ("higher delivery count inside", [(0, 9, 0, 1), (3, 5, 0, 2)], -1, [(0, 2, 0, 1), (3, 5, 0, 2), (6, 9, 0, 1)]),
    ("higher state inside", [(0, 9, 0, 1), (3, 5, 2, 1)], -1, [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
    ("lower delivery count inside", [(0, 9, 2, 2), (3, 5, 2, 1)], -1, [(0, 9, 2, 2)]),
    ("before the start offset", [(0, 9, 2, 1), (10, 12, 0, 1)], 10, [(10, 12, 0, 1)]),
    ("across the start offset", [(0, 9, 2, 1)], 5, [(5, 9, 2, 1)]),
    ("with a gap", [(7, 9, 2, 1), (0, 4, 2, 1)], -1, [(0, 4, 2, 1), (7, 9, 2, 1)]),
]


@pytest.mark.parametrize(
    ("batches", "start", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_overlaps_are_resolved_as_in_kafka(batches, start, expected):
    assert combined([StateBatch(*batch) for batch in batches], start) == expected


@st.composite
def state_batches(draw: st.DrawFn) -> StateBatch:
    first = draw(st.integers(0, 30))
    return StateBatch(first, first + draw(st.integers(0, 8)), draw(st.sampled_from([0, 2, 4])), draw(st.integers(1, 4)))


@given(st.lists(state_batches(), max_size=12), st.integers(-1, 20))
def test_each_offset_has_its_highest_delivery_count(batches, start):
    expected: dict[int, tuple[int, int]] = {}
    for first, last, state, deliveries in batches:
        for offset in range(max(first, start), last + 1):
            expected[offset] = max(expected.get(offset, (0, 0)), (deliveries, state))
    result = combined(batches, start)
    results = {
        offset: (batch.deliveries, batch.state) for batch in result for offset in range(batch.first, batch.last + 1)
    }
    assert results == expected
    assert all(one.last < other.first for one, other in pairwise(result))


def test_combining_in_steps_gives_the_same_batches():
    state = ShareState(state_epoch=1, start_offset=2)
    state.add([StateBatch(0, 9, AVAILABLE, 1)])
    assert state.batches == [StateBatch(2, 9, AVAILABLE, 1)]
    state.add([StateBatch(4, 5, ACKNOWLEDGED, 2), StateBatch(6, 6, ARCHIVED, 5)])
    state.start_offset = 4
    assert state.batches == [
        StateBatch(4, 5, ACKNOWLEDGED, 2),
        StateBatch(6, 6, ARCHIVED, 5),
        StateBatch(7, 9, AVAILABLE, 1),
    ]


def test_key_of_the_coordinator_is_kafkas_text():
    key = StateKey("g", UUID(int=1), 3)
    assert key.coordinator_key == "g:AAAAAAAAAAAAAAAAAAAAAQ:3"
