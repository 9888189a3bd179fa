"""Kafka's client-side assignors, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwire.assignors.client import Assignor
from kwire.assignors.client_range import RangeAssignor
from kwire.assignors.roundrobin import RoundRobinAssignor
from kwire.assignors.server import AssignorError
from kwire.assignors.sticky import CooperativeStickyAssignor, FirstStickyAssignor, StickyAssignor

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
