"""Start offsets of share groups; the handlers of the requests have tests of their own."""

from __future__ import annotations

from uuid import UUID

from mockbroker.groups.share.offsets import _without
from mockbroker.groups.share.state import SharedTopic

T, U = UUID(int=1), UUID(int=2)


def test_partitions_with_a_new_start_offset_are_not_initializing() -> None:
    topics = {T: SharedTopic("t", frozenset({0, 1})), U: SharedTopic("u", frozenset({0}))}
    assert _without(topics, {T: SharedTopic("t", frozenset({0, 5}))}) == {
        T: SharedTopic("t", frozenset({1})),
        U: SharedTopic("u", frozenset({0})),
    }
    assert _without(topics, {T: topics[T], U: topics[U]}) == {}
