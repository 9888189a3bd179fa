"""A group changes its protocol while it lives: from classic to consumer and back (KIP-848, online migration).

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
from mockbroker.groups.consumer.state import (
    NOTHING,
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    Share,
    by_topic,
)
from mockbroker.groups.coordinated import Becomes, Turn, session_of
from mockbroker.groups.events import ConsumerHeartbeat
from mockbroker.groups.group_type import Context, Refused
from mockbroker.topics.model import Cluster

UPGRADES = {"upgrade", "bidirectional"}
DOWNGRADES = {"downgrade", "bidirectional"}


class NoUpgrade(Exception):
    """A classic group that stays what it is. ``text``: why, None if Kafka does not say."""

    def __init__(self, text: str | None, error: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND) -> None:
        super().__init__(text)
        self.text = text
        self.error = error


# --- classic to consumer ----------------------------------------------------------------------------------------


def check_upgrade(group: ClassicGroup, settings: Settings) -> None:
    """Whether it may be tried at all. Raises: NoUpgrade."""
    why = _why(group)
    if settings.group_consumer_migration_policy not in UPGRADES:
        raise NoUpgrade(f"{why} online upgrade is disabled.")
    if group.protocol_type != CONSUMER:
        raise NoUpgrade(f"{why} the group does not use the consumer embedded protocol.")
    if len(group.members) > settings.group_consumer_max_size:
        raise NoUpgrade(f"{why} the group size exceeds the consumer group maximum size.")


def _why(group: ClassicGroup) -> str:
    return f"Cannot upgrade classic group {group.group_id} to consumer group because"


def upgraded(group: ClassicGroup, cluster: Cluster, now: float) -> ConsumerGroup:
    """The consumer group that a classic group with members becomes; its members go on by the classic protocol.

    The classic group is left as it is. Raises: NoUpgrade.
    """
    new = ConsumerGroup(
        group_id=group.group_id, epoch=group.generation, assignment_epoch=group.generation, offsets=group.offsets
    )
    try:
        for member in group.in_map_order():
            upgraded_member = _upgraded(group, member, cluster)
            if not upgraded_member.assigned.isdisjoint(new.owners):
                raise NoUpgrade(None, ErrorCode.UNKNOWN_SERVER_ERROR)  # the leader gave a partition to two members
            new.put(upgraded_member)
            new.target[member.member_id] = by_topic(upgraded_member.assigned)
            new.waits.set(session_of(member.member_id), now + member.session_timeout)
    except WireError:
        raise NoUpgrade(f"{_why(group)} the embedded consumer protocol is malformed.") from None
    return new


def _upgraded(group: ClassicGroup, member: Member, cluster: Cluster) -> ConsumerMember:
    """Raises: WireError; NoUpgrade."""
    assigned = NOTHING
    if member.assignment:
        assignment, _ = decode_stored(ConsumerProtocolAssignment, member.assignment)
        if assignment.user_data:
            raise NoUpgrade(
                f"{_why(group)} an unsupported custom assignor is in use. Please refer to the documentation or"
                " switch to a default assignor before re-attempting the upgrade."
            )
        assigned = share_of(assignment.assigned_partitions, cluster)
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
        classic=ClassicSide(member.session_timeout, member.protocols),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=assigned,
    )


def upgrade(group: ClassicGroup, event: ConsumerHeartbeat, context: Context, now: float) -> Turn:
    """A member of the consumer protocol joins a classic group with members.

    Pending JoinGroups and SyncGroups are answered with REBALANCE_IN_PROGRESS before it is known whether the group can
    be converted, as at Kafka. Raises: Refused, if it is not even tried.
    """
    event = consumer.with_member_id(event, context)
    consumer.check_joins(group.group_id, group, event)
    try:
        check_upgrade(group, context.settings)
    except NoUpgrade as why:
        raise Refused(why.error, why.text) from None
    answers = phases.turn_away(group, ErrorCode.REBALANCE_IN_PROGRESS)
    try:
        new = upgraded(group, context.cluster, now)
        effects = consumer.heartbeat(new, event, context, now)
    except NoUpgrade as why:
        return [*answers, consumer.refused_heartbeat(event.ticket, Refused(why.error, why.text))]
    except Refused as refused:
        return [*answers, consumer.refused_heartbeat(event.ticket, refused)]
    members = tuple(member_id for member_id in new.members if member_id in group.members)
    note = Note(event=EventKind.UPGRADE, group=group.group_id, generation=group.generation, members=members)
    return [*answers, note, Becomes(new), *effects]


# --- consumer to classic ----------------------------------------------------------------------------------------


def may_downgrade(group: ConsumerGroup, without: Collection[ConsumerMember], settings: Settings, *, left: int) -> bool:
    """True if without these, who go or are replaced, the group can go on as a classic one of ``left`` members."""
    consumer_members = len(group.members) - group.classic_members
    return (
        sum(member.classic is None for member in without) == consumer_members
        and left > 0
        and settings.group_consumer_migration_policy in DOWNGRADES
        and left <= settings.group_max_size
    )


def downgrade(
    group: ConsumerGroup, without: Collection[ConsumerMember], context: Context, now: float, reason: str
) -> Turn:
    """Turn the group into a classic one; with a rebalance if there is a reason for one."""
    new = downgraded(group, without, context, now)
    note = Note(event=EventKind.DOWNGRADE, group=group.group_id, generation=new.generation, members=tuple(new.members))
    return [note, *(phases.rebalance(new, reason, now) if reason else []), Becomes(new)]


def downgrade_without(
    group: ConsumerGroup, without: Collection[ConsumerMember], context: Context, now: float, reason: str
) -> Turn | None:
    """Turn the group into a classic one if only classic members remain without these; else None."""
    if not may_downgrade(group, without, context.settings, left=len(group.members) - len(without)):
        return None
    return downgrade(group, without, context, now, reason)


def downgraded(group: ConsumerGroup, without: Collection[ConsumerMember], context: Context, now: float) -> ClassicGroup:
    """The classic group that a consumer group becomes without some members: Stable, everybody with its target. No
    rebalance is begun."""
    new = ClassicGroup.configured(group.group_id, context.settings, now)
    gone = {member.member_id for member in without}
    new.state, new.since = State.STABLE, now
    new.generation, new.protocol_type = group.epoch, CONSUMER
    new.offsets = group.offsets
    for member in group.in_map_order():
        if member.member_id in gone:
            continue
        assert member.classic is not None
        new.add(
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout=member.classic.session_timeout,
                rebalance_timeout=member.rebalance_timeout,
                protocols=member.classic.protocols,
                new=False,
            )
        )
    new.protocol = rules.choose_protocol(new)
    for classic_member in new.members.values():
        share = group.target_of(classic_member.member_id)
        classic_member.assignment = written(share, classic_member.metadata(new.protocol), context.cluster)
        membership.renew(new, classic_member, now)
    membership.inherit(new)
    return new


# --- shares in the words of the classic protocol ----------------------------------------------------------------


Named = ConsumerProtocolAssignment.TopicPartition | ConsumerProtocolSubscription.TopicPartition


def share_of(topics: Collection[Named], cluster: Cluster) -> Share:
    """Partitions that stand under the names of their topics; those of topics that are not there are left out."""
    found: set[tuple[UUID, int]] = set()
    for named in topics:
        if topic := cluster.topics.get(named.topic):
            found.update((topic.topic_id, index) for index in named.partitions)
    return frozenset(found)


def written(share: Share, metadata: bytes, cluster: Cluster) -> bytes:
    """A share as ConsumerProtocol has it, in the version of the member's own metadata."""
    found = ((cluster.by_id.get(topic_id), partitions) for topic_id, partitions in by_topic(share).items())
    line = ConsumerProtocolAssignment.TopicPartition
    lines = [line(topic=topic.name, partitions=partitions) for topic, partitions in found if topic is not None]
    version = min(stored_version(ConsumerProtocolAssignment, metadata), 3)
    return encode_stored(ConsumerProtocolAssignment(assigned_partitions=lines), version)
