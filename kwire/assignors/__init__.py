"""Who gets which partitions: Kafka's own assignors as pure functions.

>>> from uuid import UUID
>>> orders = UUID(int=1)
>>> members = {name: MemberSubscription(topic_ids=[orders]) for name in "ab"}
>>> assign("range", members, {orders: 3}) == {"a": {orders: [0, 1]}, "b": {orders: [2]}}
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwire.assignors import range as range_assignor
from kwire.assignors import uniform
from kwire.assignors.server import (
    AssignorError,
    GroupAssignment,
    MemberAssignment,
    Members,
    MemberSubscription,
    Partitions,
)

__all__ = [
    "SERVER",
    "AssignorError",
    "GroupAssignment",
    "MemberAssignment",
    "MemberSubscription",
    "Members",
    "Partitions",
    "assign",
]

SERVER: Mapping[str, Callable[[Members, Partitions, bool | None], GroupAssignment]] = {
    "uniform": uniform.assign,
    "range": range_assignor.assign,
}
"""Assignors of the broker by name, in the order of Kafka's ``group.consumer.assignors``: the first is the default."""


def assign(name: str, members: Members, partitions: Partitions, *, alike: bool | None = None) -> GroupAssignment:
    """The target assignment of a whole group, as Kafka 4.2's assignor of this name gives it.

    ``partitions``: topic id -> how many there are; ``alike``: whether all members gave the same topic names, None tells
    it by their topic ids. Partitions in ``assigned`` that are no more are nobody's. The time grows with members and
    partitions, not with their product, where members subscribe alike. Raises KeyError for a name that is not in
    ``SERVER``, AssignorError for a topic without metadata.
    """
    return SERVER[name](members, partitions, alike)
