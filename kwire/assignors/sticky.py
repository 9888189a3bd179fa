"""``sticky`` and ``cooperative-sticky``: as equal as can be, and what a member owned stays with it where that allows.

Both share out alike. Members that give up everything before they join say in their user data what they owned; those
that keep it say so in the subscription, and get what others still own only in the generation after. Source:
StickyAssignor, CooperativeStickyAssignor and AbstractStickyAssignor of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kwire import codec
from kwire.assignors import sticky_alike, sticky_mixed
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
    subscribed_topics,
    walked,
)
from kwire.assignors.sticky_history import Claim, alike, owned_now, owners_before
from kwire.blobs.sticky import CooperativeStickyUserData, StickyUserData, decode_user_data
from kwire.errors import DecodeError
from kwire.java import grouped_order


def share_out(topics: Topics, members: Subscriptions, *, always_mixed: bool = False) -> GroupAssignment:
    """The assignment of ``sticky``; ``always_mixed``: as before 2.4, however members subscribe."""
    return _share_out(topics, members, claim, always_mixed=always_mixed)[0]


def share_out_cooperatively(topics: Topics, members: Subscriptions) -> GroupAssignment:
    """The assignment of ``cooperative-sticky``: what moves is nobody's in this generation."""
    shares, moved = _share_out(topics, members, cooperative_claim)
    for partition, member_id in moved.items():
        shares[member_id].remove(partition)
    return shares


def claim(member: Subscription) -> Claim:
    """What the user data of ``sticky`` claims. What cannot be read claims nothing, in an unknown generation."""
    if not member.user_data:
        return Claim()
    try:
        said, version, _ = decode_user_data(member.user_data)
    except DecodeError:
        return Claim((), UNKNOWN_GENERATION)
    owned = [(part.topic, number) for part in said.previous_assignment for number in part.partitions]
    return Claim(owned, said.generation if version else None)


def cooperative_claim(member: Subscription) -> Claim:
    """What a subscription claims; before v2 it has no generation, which then is in the user data."""
    if member.generation >= 0:
        return Claim(member.owned, member.generation)
    if member.user_data is None:
        return Claim(member.owned)
    try:
        said, _ = codec.decode_at(CooperativeStickyUserData, member.user_data, 0, 0)
    except DecodeError:
        return Claim(member.owned, UNKNOWN_GENERATION)
    return Claim(member.owned, said.generation)


class StickyAssignor(Assignor):
    name = "sticky"

    def __init__(self) -> None:
        self._given: Assignment | None = None
        self._generation = UNKNOWN_GENERATION

    def user_data(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002
        """v1; None before the first assignment."""
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
    """``sticky`` of 0.11 to 2.3, which had one way for all groups."""

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        return assigned(share_out(topics, members, always_mixed=True))


class CooperativeStickyAssignor(Assignor):
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
    topics: Topics, members: Subscriptions, claim_of: Callable[[Subscription], Claim], *, always_mixed: bool = False
) -> tuple[GroupAssignment, dict[TopicPartition, str]]:
    """The assignment, and which partitions move, with who has them now."""
    if not members:
        return {}, {}
    listed = walked(members)
    found = subscribed_topics(topics, listed)
    claims = {member_id: claim_of(member) for member_id, member in listed}
    before = owned_now(found, listed, claims)
    racks = Racks.of(found, listed)
    if alike(listed) and not always_mixed:
        shares, moved = sticky_alike.share_out(found, before, racks)
    else:
        earlier = owners_before(listed, claims, before.newest)
        shares = sticky_mixed.share_out(found, listed, before, earlier, racks)
        moved = _moved(members, shares)
    return {member_id: shares[member_id] for member_id in members}, moved


def _moved(members: Subscriptions, shares: GroupAssignment) -> dict[TopicPartition, str]:
    """What somebody gets that somebody else says to own, with who gets it."""
    added: dict[TopicPartition, str] = {}
    given_up: set[TopicPartition] = set()
    for member_id, share in shares.items():
        owned = set(members[member_id].owned)
        added |= dict.fromkeys((partition for partition in share if partition not in owned), member_id)
        given_up |= owned.difference(share)
    return {partition: member_id for partition, member_id in added.items() if partition in given_up}
