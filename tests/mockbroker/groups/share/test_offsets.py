"""Start offsets of share groups; the handlers of the requests have tests of their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kwire import ErrorCode as E
from mockbroker.base.effects import Ticket
from mockbroker.groups.events import DeleteShareOffsets
from mockbroker.groups.share.offsets import _without, delete
from mockbroker.groups.share.state import SharedTopic, ShareGroup

T, U = UUID(int=1), UUID(int=2)


def test_partitions_with_a_new_start_offset_are_not_initializing() -> None:
    topics = {T: SharedTopic("t", frozenset({0, 1})), U: SharedTopic("u", frozenset({0}))}
    assert _without(topics, {T: SharedTopic("t", frozenset({0, 5}))}) == {
        T: SharedTopic("t", frozenset({1})),
        U: SharedTopic("u", frozenset({0})),
    }
    assert _without(topics, {T: topics[T], U: topics[U]}) == {}


class States:
    """A share coordinator that refuses the first deletion."""

    def __init__(self) -> None:
        self.deleted: list[int] = []

    def delete(self, key: Any, _now: float) -> E:
        self.deleted.append(key.partition)
        return E.NONE if len(self.deleted) > 1 else E.NOT_COORDINATOR


def test_error_of_one_partition_is_that_of_its_topic() -> None:
    group = ShareGroup(group_id="g", initialized={T: SharedTopic("t", frozenset({1, 0}))})
    states = States()
    topics = {"t": SimpleNamespace(topic_id=T, partitions=[0, 1])}
    context: Any = SimpleNamespace(cluster=SimpleNamespace(topics=topics), share_states=states)
    event = DeleteShareOffsets(ticket=Ticket(1, 1, 92, 0), topics=["t"])
    (deleted,) = delete(group, event, context, 0.0).responses
    assert (deleted.error_code, states.deleted) == (E.NOT_COORDINATOR, [0, 1])
    assert (group.initialized, group.deleting) == ({}, {T: "t"})
    (deleted,) = delete(group, event, context, 0.0).responses
    assert (deleted.error_code, group.deleting) == (E.NONE, {})
