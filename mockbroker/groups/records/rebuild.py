"""Groups made of the records of the offsets topic and of nothing else.

Source: Kafka's GroupCoordinatorShard.replay and GroupMetadataManager.onLoaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kwire.blobs import decode_record
from kwire.blobs.offsets_topic import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kwire.errors import DecodeError, UnknownApi
from mockbroker.base.settings import Settings
from mockbroker.groups.classic.state import ClassicGroup, session_of
from mockbroker.groups.consumer.state import (
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Resolved,
    Share,
    rebalance_of,
)
from mockbroker.groups.offsets import Committed, Offsets, Place
from mockbroker.groups.records import classic as classic_records
from mockbroker.groups.records import consumer as consumer_records
from mockbroker.groups.records import offsets as offset_records
from mockbroker.groups.records.replay import Kept, Replay
from mockbroker.groups.records.wall_time import Wall
from mockbroker.topics.model import OFFSETS_TOPIC, Cluster


@dataclass(slots=True)
class _Told:
    """What the records say of one group; None where they say nothing."""

    classic: GroupMetadataValue | None = None
    consumer: ConsumerGroupMetadataValue | None = None
    target_epoch: int = 0
    members: dict[str, ConsumerGroupMemberMetadataValue] = field(default_factory=dict)
    targets: dict[str, ConsumerGroupTargetAssignmentMemberValue] = field(default_factory=dict)
    current: dict[str, ConsumerGroupCurrentMemberAssignmentValue] = field(default_factory=dict)
    expressions: dict[str, ConsumerGroupRegularExpressionValue] = field(default_factory=dict)
    offsets: dict[Place, tuple[int, OffsetCommitValue]] = field(default_factory=dict)
    pending: dict[int, dict[Place, tuple[int, OffsetCommitValue]]] = field(default_factory=dict)

    @property
    def nothing(self) -> bool:
        return self.classic is None and self.consumer is None and not self.offsets and not self.pending


def rebuilt(
    found: Replay,
    cluster: Cluster,
    settings: Settings,
    wall: Wall,
    now: float,
    *,
    java_coordinator: bool = True,
) -> dict[str, ClassicGroup | ConsumerGroup]:
    """Groups by id. Sessions begin anew at ``now``.

    Records of types that are newer than we know are passed over, as Kafka does. Raises: DecodeError for one that is
    damaged, or says what cannot be.
    """
    told: dict[str, _Told] = {}
    for key, value, order in _decoded(found.live):
        _read(told, key, value, order)
    for producer_id, held in found.pending.items():
        for key, value, order in _decoded(held):
            if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                places = told.setdefault(key.group, _Told()).pending.setdefault(producer_id, {})
                places[key.topic, key.partition] = order, value
    return {
        group_id: _group(group_id, each, cluster, settings, wall, now, java_coordinator=java_coordinator)
        for group_id, each in told.items()
        if not each.nothing
    }


def _decoded(live: Mapping[bytes, Kept]) -> Iterator[tuple[object, object, int]]:
    """Key, value and offset of each record of a type that we know."""
    for key, (value, order) in live.items():
        try:
            yield *decode_record(OFFSETS_TOPIC, key, value), order
        except UnknownApi:
            continue


def _read(told: dict[str, _Told], key: object, value: object, order: int) -> None:
    match key, value:
        case OffsetCommitKey(), OffsetCommitValue():
            told.setdefault(key.group, _Told()).offsets[key.topic, key.partition] = order, value
        case GroupMetadataKey(), GroupMetadataValue():
            told.setdefault(key.group, _Told()).classic = value
        case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue():
            told.setdefault(key.group_id, _Told()).consumer = value
        case ConsumerGroupTargetAssignmentMetadataKey(), ConsumerGroupTargetAssignmentMetadataValue():
            told.setdefault(key.group_id, _Told()).target_epoch = value.assignment_epoch
        case ConsumerGroupMemberMetadataKey(), ConsumerGroupMemberMetadataValue():
            told.setdefault(key.group_id, _Told()).members[key.member_id] = value
        case ConsumerGroupTargetAssignmentMemberKey(), ConsumerGroupTargetAssignmentMemberValue():
            told.setdefault(key.group_id, _Told()).targets[key.member_id] = value
        case ConsumerGroupCurrentMemberAssignmentKey(), ConsumerGroupCurrentMemberAssignmentValue():
            told.setdefault(key.group_id, _Told()).current[key.member_id] = value
        case ConsumerGroupRegularExpressionKey(), ConsumerGroupRegularExpressionValue():
            told.setdefault(key.group_id, _Told()).expressions[key.regular_expression] = value
        case _:  # share groups, Streams groups
            pass


def _group(
    group_id: str,
    told: _Told,
    cluster: Cluster,
    settings: Settings,
    wall: Wall,
    now: float,
    *,
    java_coordinator: bool,
) -> ClassicGroup | ConsumerGroup:
    offsets = Offsets()
    offsets.restore(_committed(told.offsets, wall))
    for producer_id, held in told.pending.items():
        offsets.restore_held(producer_id, _committed(held, wall))
    group: ClassicGroup | ConsumerGroup
    if told.consumer is not None:
        group = _consumer_group(group_id, told, settings, wall, now)
        group.epoch = told.consumer.epoch
        seen = group.seen_in(cluster)
        if consumer_records.metadata_hash(seen) == told.consumer.metadata_hash:  # else the next heartbeat finds out
            group.metadata, group.version = seen, cluster.epoch
    elif told.classic is not None:
        group = classic_records.rebuilt(group_id, told.classic, settings, wall, now, java_coordinator=java_coordinator)
    else:
        group = ClassicGroup.configured(group_id, settings, now, java_coordinator=java_coordinator)
    group.offsets = offsets
    return group


def _committed(told: Mapping[Place, tuple[int, OffsetCommitValue]], wall: Wall) -> dict[Place, tuple[int, Committed]]:
    return {place: (order, offset_records.committed(value, wall)) for place, (order, value) in told.items()}


def _consumer_group(group_id: str, told: _Told, settings: Settings, wall: Wall, now: float) -> ConsumerGroup:
    group = ConsumerGroup(group_id=group_id, assignment_epoch=told.target_epoch)
    for member_id, metadata in told.members.items():
        member = _member(member_id, metadata, told.current.get(member_id))
        group.put(member)
        group.waits.set(session_of(member_id), now + settings.group_consumer_session_timeout_ms / 1000)  # classic too
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.rebalance_timeout >= 0:
            group.waits.set(rebalance_of(member_id), now + member.rebalance_timeout)
    for member_id, target in told.targets.items():
        group.target[member_id] = {line.topic_id: list(line.partitions) for line in target.topic_partitions}
    for expression, found in told.expressions.items():
        resolved = Resolved(frozenset(found.topics), found.version, wall.at(found.timestamp))
        group.resolve(expression, resolved)
    return group


def _member(
    member_id: str,
    metadata: ConsumerGroupMemberMetadataValue,
    current: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> ConsumerMember:
    classic = metadata.classic_member_metadata
    told = current or ConsumerGroupCurrentMemberAssignmentValue()
    return ConsumerMember(
        member_id=member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout=metadata.rebalance_timeout_ms / 1000,
        topics=frozenset(metadata.subscribed_topic_names),
        regex=metadata.subscribed_topic_regex or "",
        assignor=metadata.server_assignor,
        classic=None
        if classic is None
        else ClassicSide(
            classic.session_timeout_ms / 1000, [(each.name, each.metadata) for each in classic.supported_protocols]
        ),
        epoch=told.member_epoch,
        previous_epoch=told.previous_member_epoch,
        state=_state(member_id, told.state),
        assigned=_share(told.assigned_partitions),
        revoking=_share(told.partitions_pending_revocation),
    )


def _state(member_id: str, number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        name = ConsumerGroupCurrentMemberAssignmentValue.__name__
        raise DecodeError(f"state {number} of member {member_id}", message=name) from None


def _share(lines: Iterable[ConsumerGroupCurrentMemberAssignmentValue.TopicPartition]) -> Share:
    return frozenset((line.topic_id, index) for line in lines for index in line.partitions)
