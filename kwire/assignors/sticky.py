"""The client-side assignors ``sticky`` and ``cooperative-sticky``: balanced assignments in which members keep most
partitions.

Both use the same algorithm. Members of ``sticky`` revoke all partitions before they join, and report their previous
partitions in the user data. Members of ``cooperative-sticky`` report owned partitions in the subscription. With
``cooperative-sticky``, a partition that moves to another member is assigned to this member one generation later.
Source: StickyAssignor, CooperativeStickyAssignor and AbstractStickyAssignor of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kwire import codec
from kwire.assignors import sticky_heterogeneous, sticky_homogeneous
from kwire.assignors.client import (
    COOPERATIVE,
    EAGER,
    UNKNOWN_GENERATION,
    Assignment,
    Assignor,
    GroupAssignment,
    Racks,
    Subscription,
    Subscriptions,
    TopicPartition,
    Topics,
    assigned,
    by_topic,
    in_map_order,
    subscribed_topics,
)
from kwire.assignors.sticky_history import Claim, owned_now, owners_before, subscribe_to_same_topics
from kwire.blobs.sticky import CooperativeStickyUserData, StickyUserData, decode_user_data
from kwire.errors import DecodeError
from kwire.java import grouped_order


def share_out(topics: Topics, members: Subscriptions, *, always_heterogeneous: bool = False) -> GroupAssignment:
    """Return the assigned partitions of ``sticky`` by member id.

    Args:
        topics: topics with their partitions.
        members: subscriptions of the members, with their member ids.
        always_heterogeneous: True for the algorithm before Kafka 2.4.
    """
    return _share_out(topics, members, claim, always_heterogeneous=always_heterogeneous)[0]


def share_out_cooperatively(topics: Topics, members: Subscriptions) -> GroupAssignment:
    """Return the assigned partitions of ``cooperative-sticky`` by member id.

    A partition that moves is not assigned in this generation.
    """
    shares, moved = _share_out(topics, members, cooperative_claim)
    for partition, member_id in moved.items():
        shares[member_id].remove(partition)
    return shares


def claim(member: Subscription) -> Claim:
    """Return the partitions that a member of ``sticky`` reports as owned in its user data, with their generation.

    Without user data, the claim has no partitions and the generation None. For invalid user data, the claim has no
    partitions and UNKNOWN_GENERATION.
    """
    if not member.user_data:
        return Claim()
    try:
        decoded, version, _ = decode_user_data(member.user_data)
    except DecodeError:
        return Claim((), UNKNOWN_GENERATION)
    owned = [(part.topic, number) for part in decoded.previous_assignment for number in part.partitions]
    return Claim(owned, decoded.generation if version else None)


def cooperative_claim(member: Subscription) -> Claim:
    """Return the partitions that a member of ``cooperative-sticky`` reports as owned, with their generation.

    The partitions are in the subscription. The generation is in the subscription since v2; before v2, it is in the user
    data.
    """
    if member.generation >= 0:
        return Claim(member.owned, member.generation)
    if member.user_data is None:
        return Claim(member.owned)
    try:
        decoded, _ = codec.decode_at(CooperativeStickyUserData, member.user_data, 0, 0)
    except DecodeError:
        return Claim(member.owned, UNKNOWN_GENERATION)
    return Claim(member.owned, decoded.generation)


class StickyAssignor(Assignor):
    """The client-side assignor ``sticky`` of Kafka 2.4 and later."""

    name = "sticky"

    def __init__(self) -> None:
        self._given: Assignment | None = None
        self._generation = UNKNOWN_GENERATION

    def user_data(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002
        """Return user data v1: the partitions and the generation of this member's last assignment.

        The result is None before the first assignment.
        """
        if self._given is None:
            return None
        grouped = by_topic(self._given.partitions)
        order = grouped_order(topic for topic, _ in self._given.partitions)
        owned = [StickyUserData.TopicPartition(topic=topic, partitions=grouped[topic]) for topic in order]
        return codec.encode(StickyUserData(previous_assignment=owned, generation=self._generation), 1)

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        return assigned(share_out(topics, members))

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        self._given = assignment
        self._generation = generation


class FirstStickyAssignor(StickyAssignor):
    """The assignor ``sticky`` of Kafka 0.11 to 2.3, which had a single algorithm for all groups."""

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        return assigned(share_out(topics, members, always_heterogeneous=True))


class CooperativeStickyAssignor(Assignor):
    """The client-side assignor ``cooperative-sticky``, with the algorithm of ``share_out_cooperatively``."""

    name = "cooperative-sticky"
    protocols = (COOPERATIVE, EAGER)

    def __init__(self) -> None:
        self._generation = UNKNOWN_GENERATION

    def user_data(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002
        return codec.encode(CooperativeStickyUserData(generation=self._generation), 0)

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        return assigned(share_out_cooperatively(topics, members))

    def on_assignment(self, assignment: Assignment, generation: int) -> None:  # noqa: ARG002
        self._generation = generation


def _share_out(
    topics: Topics,
    members: Subscriptions,
    claim_of: Callable[[Subscription], Claim],
    *,
    always_heterogeneous: bool = False,
) -> tuple[GroupAssignment, dict[TopicPartition, str]]:
    """Run the sticky algorithm.

    Args:
        topics: partitions by topic name.
        members: subscription of each member, by member id.
        claim_of: function that returns the owned partitions that a member reports.
        always_heterogeneous: True for the algorithm before Kafka 2.4.

    Returns: the assigned partitions by member id; and for each partition that moves, the member to which it moves.
    """
    if not members:
        return {}, {}
    listed = in_map_order(members)
    existing = subscribed_topics(topics, listed)
    claims = {member_id: claim_of(member) for member_id, member in listed}
    before = owned_now(existing, listed, claims)
    racks = Racks.of(existing, listed)
    if subscribe_to_same_topics(listed) and not always_heterogeneous:
        shares, moved = sticky_homogeneous.share_out(existing, before, racks)
    else:
        earlier = owners_before(listed, claims, before.newest)
        shares = sticky_heterogeneous.share_out(existing, listed, before, earlier, racks)
        moved = _moved(members, shares)
    return {member_id: shares[member_id] for member_id in members}, moved


def _moved(members: Subscriptions, shares: GroupAssignment) -> dict[TopicPartition, str]:
    """Return the partitions that move: one member reports them as owned, but they were assigned to another member.

    The result contains for each partition the member to which it was assigned.
    """
    added: dict[TopicPartition, str] = {}
    given_up: set[TopicPartition] = set()
    for member_id, share in shares.items():
        owned = set(members[member_id].owned)
        added |= dict.fromkeys((partition for partition in share if partition not in owned), member_id)
        given_up |= owned.difference(share)
    return {partition: member_id for partition, member_id in added.items() if partition in given_up}
