"""Kafka's server-side assignors (KIP-848), by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kwire.assignors import range as range_assignor
from kwire.assignors import uniform, uniform_3_9
from kwire.assignors.server import GroupAssignment, Members, Partitions

SERVER: Mapping[str, Callable[[Members, Partitions, bool | None], GroupAssignment]] = {
    "uniform": uniform.assign,
    "range": range_assignor.assign,
}
"""Server-side assignors by name, in the order of Kafka's ``group.consumer.assignors``: the first is the default."""

_UNIFORM: Mapping[str, Callable[[Members, Partitions, bool | None], GroupAssignment]] = {
    "4.2": uniform.assign,
    "4.0": partial(uniform.assign, first_are_larger=True),
    "3.9": uniform_3_9.assign,
}  # by Kafka release; 4.1 equals 4.2


def assign(
    name: str, members: Members, partitions: Partitions, *, homogeneous: bool | None = None, release: str = "4.2"
) -> GroupAssignment:
    """Return the target assignment of a group: member id -> topic id -> partition numbers.

    Partitions in ``assigned`` that no longer exist are ignored. The time grows with members plus partitions, not with
    their product, if all members subscribe to the same topics.

    Args:
        name: name of the assignor, a key of ``SERVER``.
        members: subscription and current assignment of each member, by member id.
        partitions: number of partitions by topic id.
        homogeneous: whether all members subscribe to the same topic names; None to compare their topic ids.
        release: Kafka release, 4.2, 4.0 or 3.9. ``uniform`` differs between the releases, ``range`` does not.

    Raises: KeyError for an unknown name or release; AssignorError for a subscribed topic that is not in ``partitions``.
    """
    return (_UNIFORM[release] if name == "uniform" else SERVER[name])(members, partitions, homogeneous)
