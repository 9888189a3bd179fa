"""The reconciliation of one member with its target assignment, one step per heartbeat.

The member first revokes partitions, then gets free partitions, and finally gets partitions that other members have
released. Source: Kafka's CurrentAssignmentBuilder (4.2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from uuid import UUID

from kwire.lazy_dataclass import dataclass
from mockbroker.groups.consumer.state import ConsumerMember, MemberState
from mockbroker.groups.partition_sets import NO_PARTITIONS, PartitionSet, TopicIdPartition

STABLE, UNREVOKED, UNRELEASED = MemberState


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationInput:
    """The data that determines the next reconciliation step of a member.

    Attributes:
        target_epoch: Epoch of the target assignment.
        target: Target assignment of the member.
        subscribed_topic_ids: Ids of the topics that the member subscribes to.
        partition_epochs: Member epoch of the owner, by owned partition.
        owned_partitions: Partitions that the member reports as owned; None if the request omits them, which means that
            the member still owns all of its partitions.
        has_changed_subscription: Whether the request changed the subscription of the member.
    """

    target_epoch: int
    target: PartitionSet
    subscribed_topic_ids: Collection[UUID]
    partition_epochs: Mapping[TopicIdPartition, int]
    owned_partitions: PartitionSet | None
    has_changed_subscription: bool = False

    def owns_any(self, partitions: PartitionSet) -> bool:
        """Return whether the member still owns at least one of the partitions, according to its request.

        If the request does not report owned partitions (None), the result is True, because the member still owns all of
        them.
        """
        return self.owned_partitions is None or not partitions.isdisjoint(self.owned_partitions)


def reconciled_member(member: ConsumerMember, inputs: ReconciliationInput) -> ConsumerMember:
    """Return the member after its next reconciliation step, or the same object if no step is possible.

    Args:
        member: The member.
        inputs: The data that determines the step.
    """
    if member.state is STABLE and member.epoch == inputs.target_epoch:
        return _remove_unsubscribed(member, inputs) if inputs.has_changed_subscription else member
    if member.state is UNREVOKED and inputs.owns_any(member.pending_revocation):
        return _remove_unsubscribed(member, inputs) if inputs.has_changed_subscription else member
    return _compute_next_assignment(member, inputs)


def _compute_next_assignment(member: ConsumerMember, inputs: ReconciliationInput) -> ConsumerMember:
    target = frozenset(partition for partition in inputs.target if partition[0] in inputs.subscribed_topic_ids)
    keep = member.assigned & target
    revoke = member.assigned - keep
    if revoke and inputs.owns_any(revoke):
        return replace(member, state=UNREVOKED, previous_epoch=member.epoch, assigned=keep, pending_revocation=revoke)
    missing = target - keep
    free = frozenset(
        partition
        for partition in missing
        if partition not in inputs.partition_epochs or partition in member.pending_revocation
    )
    return replace(
        member,
        state=STABLE if free == missing else UNRELEASED,
        epoch=inputs.target_epoch,
        previous_epoch=member.epoch,
        assigned=keep | free,
        pending_revocation=NO_PARTITIONS,
    )


def _remove_unsubscribed(member: ConsumerMember, inputs: ReconciliationInput) -> ConsumerMember:
    """Return the member without the partitions of the topics to which it no longer subscribes.

    The member must revoke these partitions, unless its request reports that it does not own them. The revocation does
    not wait for a new target assignment. The result is the same object if the member has no such partitions.

    Args:
        member: The member.
        inputs: The data that determines the next reconciliation step.
    """
    keep = frozenset(partition for partition in member.assigned if partition[0] in inputs.subscribed_topic_ids)
    if keep == member.assigned:
        return member
    revoke = member.pending_revocation | (member.assigned - keep)
    if inputs.owns_any(revoke):
        return replace(member, state=UNREVOKED, previous_epoch=member.epoch, assigned=keep, pending_revocation=revoke)
    return replace(member, previous_epoch=member.epoch, assigned=keep)
