"""``roundrobin``: all partitions of all topics, in order, to one member after the other.

Members stand in a ring, static ones first; who does not subscribe to a topic is passed over, and the ring goes on over
topics. Source: RoundRobinAssignor of kafka-clients.
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
    static_first,
    subscribed_topics,
    walked,
)
from kwire.java import utf16


def share_out(topics: Topics, members: Subscriptions) -> GroupAssignment:
    """The assignment; the order of members decides only between equal instance ids."""
    listed = walked(members)
    subscribed = {member_id: set(member.topics) for member_id, member in listed}
    shares: GroupAssignment = {member_id: [] for member_id in members}
    ring = cycle(static_first(listed))
    for topic in sorted(subscribed_topics(topics, listed), key=utf16):
        for number in range(len(topics[topic])):
            member_id = next(member_id for member_id in ring if topic in subscribed[member_id])
            shares[member_id].append((topic, number))
    return shares


class RoundRobinAssignor(Assignor):
    name = "roundrobin"

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        return assigned(share_out(topics, members))
