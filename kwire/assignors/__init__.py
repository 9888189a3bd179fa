"""Partition assignors of Kafka as pure functions, and the interface for assignors of your own.

Client-side assignors take the subscriptions that members send in JoinGroup:

>>> members = {name: Subscription(["orders"]) for name in "ab"}
>>> share = assignor("range").assign(without_racks({"orders": 3}), members)
>>> share["a"].partitions, share["b"].partitions
([('orders', 0), ('orders', 1)], [('orders', 2)])

Server-side assignors (KIP-848) take the current target assignment:

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
"""Server-side assignors by name, in the order of Kafka's ``group.consumer.assignors``: the first is the default."""

CLIENT: Mapping[str, Callable[[], Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    "sticky-0.11": FirstStickyAssignor,
}
"""Client-side assignors by name. A member keeps its instance, which may have state. ``sticky-0.11``: before 2.4."""

DEFAULT = ("range", "cooperative-sticky")
"""Default assignors of the Java consumer: the group is eager until all members have removed ``range``."""


def assignor(name: str) -> Assignor:
    """Return a new instance of a client-side assignor. Raises: AssignorError for an unknown name."""
    if name not in CLIENT:
        raise AssignorError(f"unknown assignor {name!r}: use one of {', '.join(CLIENT)}")
    return CLIENT[name]()


_UNIFORM: Mapping[str, Callable[[Members, Partitions, bool | None], GroupAssignment]] = {
    "4.2": uniform.assign,
    "4.0": partial(uniform.assign, first_are_larger=True),
    "3.9": uniform_3_9.assign,
}  # by Kafka release; 4.1 equals 4.2


def assign(
    name: str, members: Members, partitions: Partitions, *, homogeneous: bool | None = None, release: str = "4.2"
) -> GroupAssignment:
    """Return the target assignment of a group from a server-side assignor.

    Partitions in ``assigned`` that no longer exist are ignored. The time grows with members plus partitions, not with
    their product, if all members subscribe to the same topics.

    Args:
        name: a key of ``SERVER``.
        partitions: number of partitions by topic id.
        homogeneous: whether all members subscribe to the same topic names; None to compare their topic ids.
        release: of Kafka, 4.2, 4.0 or 3.9: ``uniform`` differs between them, ``range`` does not.

    Raises: KeyError for an unknown name or release; AssignorError for a subscribed topic that is not in ``partitions``.
    """
    return (_UNIFORM[release] if name == "uniform" else SERVER[name])(members, partitions, homogeneous)
