"""Who gets which partitions: Kafka's own assignors as pure functions, and the interface of those you write yourself.

Those that members carry along take what they say in JoinGroup:

>>> members = {name: Subscription(["orders"]) for name in "ab"}
>>> share = assignor("range").assign(without_racks({"orders": 3}), members)
>>> share["a"].partitions, share["b"].partitions
([('orders', 0), ('orders', 1)], [('orders', 2)])

Those of the broker take its target assignment so far:

>>> from uuid import UUID
>>> orders = UUID(int=1)
>>> members = {name: MemberSubscription(topic_ids=[orders]) for name in "ab"}
>>> assign("range", members, {orders: 3}) == {"a": {orders: [0, 1]}, "b": {orders: [2]}}
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kwire.assignors import range as range_assignor
from kwire.assignors import uniform, uniform_3_9
from kwire.assignors.client import (
    COOPERATIVE,
    EAGER,
    Assignment,
    Assignor,
    Partition,
    PlainAssignor,
    Subscription,
    Subscriptions,
    TopicPartition,
    Topics,
    by_name,
    check,
    common_protocol,
    read_assignment,
    read_subscription,
    without_racks,
    write_assignment,
    write_subscription,
)
from kwire.assignors.client_range import RangeAssignor
from kwire.assignors.roundrobin import RoundRobinAssignor
from kwire.assignors.server import (
    AssignorError,
    GroupAssignment,
    MemberAssignment,
    Members,
    MemberSubscription,
    Partitions,
)
from kwire.assignors.sticky import CooperativeStickyAssignor, FirstStickyAssignor, StickyAssignor

__all__ = [
    "CLIENT",
    "COOPERATIVE",
    "DEFAULT",
    "EAGER",
    "SERVER",
    "Assignment",
    "Assignor",
    "AssignorError",
    "CooperativeStickyAssignor",
    "FirstStickyAssignor",
    "GroupAssignment",
    "MemberAssignment",
    "MemberSubscription",
    "Members",
    "Partition",
    "Partitions",
    "PlainAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
    "Subscriptions",
    "TopicPartition",
    "Topics",
    "assign",
    "assignor",
    "by_name",
    "check",
    "common_protocol",
    "read_assignment",
    "read_subscription",
    "without_racks",
    "write_assignment",
    "write_subscription",
]

SERVER: Mapping[str, Callable[[Members, Partitions, bool | None], GroupAssignment]] = {
    "uniform": uniform.assign,
    "range": range_assignor.assign,
}
"""Assignors of the broker by name, in the order of Kafka's ``group.consumer.assignors``: the first is the default."""

CLIENT: Mapping[str, Callable[[], Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    "sticky-0.11": FirstStickyAssignor,
}
"""Assignors of members by name. A member keeps one: sticky ones remember. ``sticky-0.11`` is ``sticky`` before 2.4."""

DEFAULT = ("range", "cooperative-sticky")
"""What a Java member carries if it is not told otherwise: eager, until all members leave ``range`` out."""


def assignor(name: str) -> Assignor:
    """A new assignor for a member. Raises AssignorError, which lists those that there are."""
    if name not in CLIENT:
        raise AssignorError(f"there is no assignor {name!r}, only {', '.join(CLIENT)}")
    return CLIENT[name]()


_UNIFORM: Mapping[str, Callable[[Members, Partitions, bool | None], GroupAssignment]] = {
    "4.2": uniform.assign,
    "4.0": partial(uniform.assign, first_are_larger=True),
    "3.9": uniform_3_9.assign,
}  # by release; 4.1 is as 4.2


def assign(
    name: str, members: Members, partitions: Partitions, *, alike: bool | None = None, release: str = "4.2"
) -> GroupAssignment:
    """The target assignment of a whole group, as the assignor of this name gives it.

    ``release``: of Kafka, 4.2, 4.0 or 3.9: ``uniform`` is another in each, ``range`` the same.
    ``partitions``: topic id -> how many there are; ``alike``: whether all members gave the same topic names, None tells
    it by their topic ids. Partitions in ``assigned`` that are no more are nobody's. The time grows with members and
    partitions, not with their product, where members subscribe alike. Raises KeyError for a name that is not in
    ``SERVER`` or a release that is not there, AssignorError for a topic without metadata.
    """
    return (_UNIFORM[release] if name == "uniform" else SERVER[name])(members, partitions, alike)
