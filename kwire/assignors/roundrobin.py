"""The client-side assignor ``roundrobin``, which assigns the partitions of all topics, in order, to the members in
turn.

Members form a ring, static members first. A member that does not subscribe to a topic is skipped. Each topic begins at
the member of the ring after the last assigned member. Source: RoundRobinAssignor of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from kwire.assignors.client import (
    Assignment,
    Assignor,
    GroupAssignment,
    Subscriptions,
    Topics,
    assigned,
    in_map_order,
    static_first,
    subscribed_topics,
)
from kwire.java import utf16


def share_out(topics: Topics, members: Subscriptions) -> GroupAssignment:
    """Return the assigned partitions of ``roundrobin`` by member id.

    The order of ``members`` matters only for members with equal instance ids.
    """
    listed = in_map_order(members)
    subscribed = {member_id: set(member.topics) for member_id, member in listed}
    shares: GroupAssignment = {member_id: [] for member_id in members}
    ring = cycle(static_first(listed))
    for topic in sorted(subscribed_topics(topics, listed), key=utf16):
        for number in range(len(topics[topic])):
            member_id = next(member_id for member_id in ring if topic in subscribed[member_id])
            shares[member_id].append((topic, number))
    return shares


class RoundRobinAssignor(Assignor):
    """The client-side assignor ``roundrobin``, with the algorithm of ``share_out``."""

    name = "roundrobin"

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        return assigned(share_out(topics, members))
