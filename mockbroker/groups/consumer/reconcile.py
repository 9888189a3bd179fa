"""One member's next step towards its target: give up first, then take what is free, the rest when it becomes free.

Source: Kafka's CurrentAssignmentBuilder (4.2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from mockbroker.groups.consumer.state import FREE, NOTHING, ConsumerMember, MemberState, Share, TopicPartition

STABLE, UNREVOKED, UNRELEASED = MemberState


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Where a member goes. ``epoch``, ``target``: of the assignment; ``topics``: ids that it subscribes to.

    ``owners``: epochs of partitions that somebody has. ``owned``: what the member says that it has; None if it does
    not say, which counts as everything. ``changed``: its subscription changed just now.
    """

    epoch: int
    target: Share
    topics: Collection[UUID]
    owners: Mapping[TopicPartition, int]
    owned: Share | None
    changed: bool = False

    def still_has(self, partitions: Share) -> bool:
        return self.owned is None or not partitions.isdisjoint(self.owned)


def next_step(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member after this heartbeat, or itself if it cannot move."""
    if member.state is STABLE and member.epoch == goal.epoch:
        return _shrunk(member, goal) if goal.changed else member
    if member.state is UNREVOKED and goal.still_has(member.revoking):
        return _shrunk(member, goal) if goal.changed else member
    return _moved(member, goal)


def _moved(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    target = frozenset(partition for partition in goal.target if partition[0] in goal.topics)
    keep = member.assigned & target
    revoke = member.assigned - keep
    if revoke and goal.still_has(revoke):
        return replace(
            member, state=UNREVOKED, epoch=member.epoch, previous_epoch=member.epoch, assigned=keep, revoking=revoke
        )
    missing = target - keep
    free = frozenset(
        partition for partition in missing if goal.owners.get(partition, FREE) == FREE or partition in member.revoking
    )
    return replace(
        member,
        state=STABLE if free == missing else UNRELEASED,
        epoch=goal.epoch,
        previous_epoch=member.epoch,
        assigned=keep | free,
        revoking=NOTHING,
    )


def _shrunk(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Partitions of topics that are not subscribed any more go at once, without waiting for a new target."""
    keep = frozenset(partition for partition in member.assigned if partition[0] in goal.topics)
    if keep == member.assigned:
        return member
    revoke = member.revoking | (member.assigned - keep)
    if goal.still_has(revoke):
        return replace(member, state=UNREVOKED, previous_epoch=member.epoch, assigned=keep, revoking=revoke)
    return replace(member, previous_epoch=member.epoch, assigned=keep)
