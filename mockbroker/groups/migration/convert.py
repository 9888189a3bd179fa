"""Conversion of a group with members from a classic to a consumer group and back (KIP-848, online migration).

Source: Kafka's ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup and GroupMetadataManager (4.2).
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from kwire import ErrorCode, WireError
from kwire.blobs import decode_stored, encode_stored, stored_version
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.settings import Settings
from mockbroker.groups.classic import membership, phases, rules
from mockbroker.groups.classic.state import ClassicGroup, Member, State
from mockbroker.groups.classic.subscription import CONSUMER
from mockbroker.groups.consumer import machine as consumer
from mockbroker.groups.consumer.state import ClassicMemberMetadata, ConsumerGroup, ConsumerMember
from mockbroker.groups.coordinated import GroupEffects, RegisterGroup, session_timer
from mockbroker.groups.events import ConsumerHeartbeat
from mockbroker.groups.group_type import Context, Refused
from mockbroker.groups.partition_sets import NO_PARTITIONS, PartitionSet, by_topic_id, by_topic_name
from mockbroker.topics.model import ClusterState

UPGRADE_POLICIES = {"upgrade", "bidirectional"}
DOWNGRADE_POLICIES = {"downgrade", "bidirectional"}


class UpgradeRefused(Exception):
    """The error for a classic group that cannot be converted to a consumer group.

    Attributes:
        message: The error message; None if Kafka returns no message.
        error: The error code.
    """

    def __init__(self, message: str | None, error: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND) -> None:
        super().__init__(message)
        self.message = message
        self.error = error


# --- classic to consumer ------------------------------------------------------------------------------------------


def check_upgrade(group: ClassicGroup, settings: Settings) -> None:
    """Check that the settings and the state of a classic group allow an upgrade.

    Raises: UpgradeRefused if they do not allow the upgrade.
    """
    prefix = _upgrade_error_prefix(group)
    if settings.group_consumer_migration_policy not in UPGRADE_POLICIES:
        raise UpgradeRefused(f"{prefix} online upgrade is disabled.")
    if group.protocol_type != CONSUMER:
        raise UpgradeRefused(f"{prefix} the group does not use the consumer embedded protocol.")
    if len(group.members) > settings.group_consumer_max_size:
        raise UpgradeRefused(f"{prefix} the group size exceeds the consumer group maximum size.")


def _upgrade_error_prefix(group: ClassicGroup) -> str:
    return f"Cannot upgrade classic group {group.group_id} to consumer group because"


def to_consumer_group(group: ClassicGroup, cluster: ClusterState, now: float) -> ConsumerGroup:
    """Return a consumer group that is created from a classic group. The classic group does not change.

    The members of the classic group continue to use the classic protocol.

    Args:
        group: The classic group.
        cluster: Cluster that has the topics.
        now: The current time in seconds.

    Raises:
        UpgradeRefused: The group cannot be converted.
    """
    consumer_group = ConsumerGroup(
        group_id=group.group_id, epoch=group.generation, assignment_epoch=group.generation, offsets=group.offsets
    )
    try:
        for member in group.in_map_order():
            upgraded_member = _to_consumer_member(group, member, cluster)
            if not upgraded_member.assigned.isdisjoint(consumer_group.partition_epochs):
                # the leader assigned a partition to two members
                raise UpgradeRefused(None, ErrorCode.UNKNOWN_SERVER_ERROR)
            consumer_group.put_member(upgraded_member)
            consumer_group.target[member.member_id] = by_topic_id(upgraded_member.assigned)
            consumer_group.timers.set(session_timer(member.member_id), now + member.session_timeout)
    except WireError:
        raise UpgradeRefused(f"{_upgrade_error_prefix(group)} the embedded consumer protocol is malformed.") from None
    return consumer_group


def _to_consumer_member(group: ClassicGroup, member: Member, cluster: ClusterState) -> ConsumerMember:
    """Return a member of a consumer group that is created from a member of a classic group.

    Args:
        group: The classic group.
        member: The member of the classic group.
        cluster: Cluster that has the topics.

    Raises:
        WireError: The subscription or the assignment of the member cannot be decoded.
        UpgradeRefused: The group cannot be converted because of the member.
    """
    assigned = NO_PARTITIONS
    if member.assignment:
        assignment, _ = decode_stored(ConsumerProtocolAssignment, member.assignment)
        if assignment.user_data:
            raise UpgradeRefused(
                f"{_upgrade_error_prefix(group)} an unsupported custom assignor is in use. Please refer to the"
                " documentation or switch to a default assignor before re-attempting the upgrade."
            )
        assigned = to_partition_set(assignment.assigned_partitions, cluster)
    names = [name for name, _ in member.protocols]
    protocol = group.protocol if group.protocol in names else names[0]
    assert protocol is not None
    subscription, _ = decode_stored(ConsumerProtocolSubscription, member.metadata(protocol))
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout,
        topics=frozenset(subscription.topics),
        classic=ClassicMemberMetadata(member.session_timeout, member.protocols),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=assigned,
    )


def upgrade(group: ClassicGroup, event: ConsumerHeartbeat, context: Context, now: float) -> GroupEffects:
    """Convert a classic group with members to a consumer group, because a member joins with ConsumerGroupHeartbeat.

    Return the effects: responses, journal events, and new groups to register. As in Kafka, pending JoinGroups and
    SyncGroups are answered with REBALANCE_IN_PROGRESS before the assignments and subscriptions are decoded, even if the
    conversion then fails.

    Args:
        group: the classic group.
        event: the heartbeat.
        context: data and functions shared by all groups.
        now: the current time in seconds.

    Raises:
        Refused: The member epoch is not 0, or the settings or the group do not allow the upgrade; nothing has changed.
    """
    event = consumer.with_member_id(event, context)
    consumer.check_may_create(group.group_id, group, event)
    try:
        check_upgrade(group, context.settings)
    except UpgradeRefused as refused:
        raise Refused(refused.error, refused.message) from None
    replies = phases.fail_pending_requests(group, ErrorCode.REBALANCE_IN_PROGRESS)
    try:
        new = to_consumer_group(group, context.cluster, now)
        effects = consumer.heartbeat(new, event, context, now)
    except UpgradeRefused as refused:
        return [*replies, consumer.heartbeat_error(event.ticket, Refused(refused.error, refused.message))]
    except Refused as refused:
        return [*replies, consumer.heartbeat_error(event.ticket, refused)]
    members = tuple(member_id for member_id in new.members if member_id in group.members)
    note = Note(event=EventKind.UPGRADE, group=group.group_id, generation=group.generation, members=members)
    return [*replies, note, RegisterGroup(new), *effects]


# --- consumer to classic ------------------------------------------------------------------------------------------


def can_downgrade(
    group: ConsumerGroup, without: Collection[ConsumerMember], settings: Settings, *, remaining: int
) -> bool:
    """Return whether a consumer group can be converted to a classic group.

    This is so if three conditions hold: ``without`` contains all members that use the consumer protocol,
    group.consumer.migration.policy allows a downgrade, and ``remaining`` is neither 0 nor more than group.max.size.

    Args:
        group: The consumer group.
        without: The members that leave or are replaced.
        settings: The settings of the brokers.
        remaining: Number of members of the resulting classic group.
    """
    consumer_members = len(group.members) - group.classic_member_count
    return (
        sum(member.classic is None for member in without) == consumer_members
        and remaining > 0
        and settings.group_consumer_migration_policy in DOWNGRADE_POLICIES
        and remaining <= settings.group_max_size
    )


def downgrade(
    group: ConsumerGroup, without: Collection[ConsumerMember], context: Context, now: float, reason: str
) -> GroupEffects:
    """Convert a consumer group to a classic group.

    Return the effects: responses, journal events, and new groups to register.

    Args:
        group: the group.
        without: the members that leave; the classic group does not contain them.
        context: data and functions shared by all groups.
        now: the current time in seconds.
        reason: reason for a rebalance; "" for no rebalance.
    """
    new = to_classic_group(group, without, context, now)
    note = Note(event=EventKind.DOWNGRADE, group=group.group_id, generation=new.generation, members=tuple(new.members))
    return [note, *(phases.rebalance(new, reason, now) if reason else []), RegisterGroup(new)]


def downgrade_without(
    group: ConsumerGroup, without: Collection[ConsumerMember], context: Context, now: float, reason: str
) -> GroupEffects | None:
    """Convert a consumer group to a classic group, if all remaining members use the classic protocol.

    The downgrade must be possible with these members and settings, see ``can_downgrade``. Otherwise nothing changes.

    Args:
        group: The group.
        without: The members that leave.
        context: Data and functions shared by all groups.
        now: The current time in seconds.
        reason: Why the members leave, as text for the journal.

    Returns:
        The effects; None if the group was not converted.
    """
    if not can_downgrade(group, without, context.settings, remaining=len(group.members) - len(without)):
        return None
    return downgrade(group, without, context, now, reason)


def to_classic_group(
    group: ConsumerGroup, without: Collection[ConsumerMember], context: Context, now: float
) -> ClassicGroup:
    """Return a classic group in state Stable that is created from a consumer group.

    The assignment of each member is its target assignment in the consumer group. No rebalance starts.

    Args:
        group: The consumer group.
        without: Members of the consumer group that the classic group does not contain.
        context: Data and functions shared by all groups.
        now: The current time in seconds.
    """
    classic_group = ClassicGroup.from_settings(group.group_id, context.settings, now)
    removed = {member.member_id for member in without}
    classic_group.state, classic_group.state_since = State.STABLE, now
    classic_group.generation, classic_group.protocol_type = group.epoch, CONSUMER
    classic_group.offsets = group.offsets
    classic_group.has_record = True  # also if a rebalance begins in the same step
    for member in group.in_map_order():
        if member.member_id in removed:
            continue
        assert member.classic is not None
        classic_group.add_member(
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout=member.classic.session_timeout,
                rebalance_timeout=member.rebalance_timeout,
                protocols=member.classic.protocols,
                is_new=False,
            )
        )
    classic_group.protocol = rules.select_protocol(classic_group)
    for classic_member in classic_group.members.values():
        target = group.target_of(classic_member.member_id)
        metadata = classic_member.metadata(classic_group.protocol)
        classic_member.assignment = encode_assignment(target, metadata, context.cluster)
        membership.renew_session(classic_group, classic_member, now)
    membership.ensure_leader(classic_group)
    return classic_group


# --- assignments of the classic protocol ------------------------------------------------------------------


NamedPartitions = ConsumerProtocolAssignment.TopicPartition | ConsumerProtocolSubscription.TopicPartition


def to_partition_set(topics: Collection[NamedPartitions], cluster: ClusterState) -> PartitionSet:
    """Return partitions as topic ids with partition indexes. Topics that do not exist are omitted.

    Args:
        topics: Topic names with partition indexes.
        cluster: Cluster that has the topics.
    """
    partitions: set[tuple[UUID, int]] = set()
    for named in topics:
        if topic := cluster.topics.get(named.topic):
            partitions.update((topic.topic_id, index) for index in named.partitions)
    return frozenset(partitions)


def encode_assignment(assigned: PartitionSet, metadata: bytes, cluster: ClusterState) -> bytes:
    """Return partitions as an encoded ConsumerProtocolAssignment.

    The version of the encoding is that of the member's subscription, but at most 3.

    Args:
        assigned: topic ids and partition indexes.
        metadata: encoded subscription of the member.
        cluster: cluster that has the topics. Partitions of topics that do not exist are omitted.
    """
    element = ConsumerProtocolAssignment.TopicPartition
    topic_partitions = [
        element(topic=name, partitions=partitions) for name, partitions in by_topic_name(assigned, cluster).items()
    ]
    version = min(stored_version(ConsumerProtocolAssignment, metadata), 3)
    return encode_stored(ConsumerProtocolAssignment(assigned_partitions=topic_partitions), version)
