"""Placement of replicas on brokers."""

from __future__ import annotations

from collections import Counter

import pytest

from mockbroker.topics.placement import place

PLACES = [  # brokers, partitions, replicas, first broker, replicas by partition
    ([0], 3, 1, 0, [[0], [0], [0]]),
    ([0, 1, 2], 4, 1, 0, [[0], [1], [2], [0]]),
    ([0, 1, 2], 3, 2, 1, [[1, 2], [2, 0], [0, 1]]),
    ([0, 1, 2], 1, 3, 2, [[2, 0, 1]]),
    ([4, 7], 2, 2, 9, [[7, 4], [4, 7]]),
    ([0, 1], 0, 1, 0, []),
]


@pytest.mark.parametrize(("nodes", "partitions", "replicas", "start", "placed"), PLACES)
def test_place(nodes, partitions, replicas, start, placed):
    assert place(nodes, partitions, replicas, start) == placed


def test_leaders_are_spread_and_replicas_are_on_distinct_brokers():
    placed = place([0, 1, 2], 30, 2, 5)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {10}
    assert all(len(set(replicas)) == 2 for replicas in placed)
