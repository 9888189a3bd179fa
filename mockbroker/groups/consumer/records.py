"""A group of the consumer protocol as records: of the group, its members, its target, its expressions (KIP-848).

Source: Kafka's GroupCoordinatorRecordHelpers. The hash of what the group knows of its topics is one of our own: whoever
reads another number looks at the topics again, and that is all that it is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from uuid import UUID

from kwire.blobs import encode_stored
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
)
from kwire.errors import DecodeError
from mockbroker.base.settings import Settings
from mockbroker.groups.consumer.state import (
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Resolved,
    Share,
    by_topic,
    rebalance_of,
)
from mockbroker.groups.coordinated import session_of
from mockbroker.groups.group_type import Context
from mockbroker.groups.records.image import Change, Record, encoded, tombstones
from mockbroker.groups.records.wall_time import Wall

Current = ConsumerGroupCurrentMemberAssignmentValue
Metadata = ConsumerGroupMemberMetadataValue
Target = ConsumerGroupTargetAssignmentMemberValue
KEYS = (
    ConsumerGroupMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupRegularExpressionKey,
)


def records(group: ConsumerGroup, wall: Wall) -> Iterator[Record]:
    """All of them: key, value and version of each."""
    for member in group.members.values():
        yield metadata(group, member)
    yield from expressions(group, wall)
    yield epoch(group)
    for member_id in group.target:
        yield target(group, member_id)
    yield assignment_epoch(group)
    for member in group.members.values():
        yield current(group, member)


def changed(group: ConsumerGroup, wall: Wall) -> Iterator[Change]:
    """Return what may have changed, in the order of what a heartbeat does: members, expressions, the group, targets,
    what members have."""
    changes = group.changes
    members, resolved, targets = (changes.get(table, {}) for table in ("members", "resolved", "target"))
    for member_id in members:
        if member_id in group.members:
            yield encoded(*metadata(group, group.members[member_id]))
        elif member_id is not None:
            yield from tombstones(keys_of(group.group_id, member_id))
    for regex in resolved:
        if regex is not None and regex not in group.resolved:
            yield encode_stored(expression_key(group.group_id, regex), 0), None
    for regex, found in group.resolved.items() if resolved else ():
        if regex in resolved:
            yield encoded(*expression(group.group_id, regex, found, wall))
    if "epoch" in changes or "metadata" in changes:
        yield encoded(*epoch(group))
    for member_id in targets:
        if member_id is not None and member_id not in group.target:
            yield encode_stored(target_key(group.group_id, member_id), 0), None
    for member_id in group.target if targets else ():
        if member_id in targets:
            yield encoded(*target(group, member_id))
    if "assignment_epoch" in changes:
        yield encoded(*assignment_epoch(group))
    for member_id in members:
        if member_id in group.members:
            yield encoded(*current(group, group.members[member_id]))


def metadata(group: ConsumerGroup, member: ConsumerMember) -> Record:
    """What a member said of itself."""
    return ConsumerGroupMemberMetadataKey(group_id=group.group_id, member_id=member.member_id), _metadata(member), 0


def expressions(group: ConsumerGroup, wall: Wall) -> Iterator[Record]:
    """What expressions matched."""
    for regex, resolved in group.resolved.items():
        yield expression(group.group_id, regex, resolved, wall)


def expression(group_id: str, regex: str, resolved: Resolved, wall: Wall) -> Record:
    """What one expression matched."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=wall.ms(resolved.at)
    )
    return expression_key(group_id, regex), value, 0


def expression_key(group_id: str, regex: str) -> ConsumerGroupRegularExpressionKey:
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)


def epoch(group: ConsumerGroup) -> Record:
    """The epoch of the group, and what it knows of its topics."""
    value = ConsumerGroupMetadataValue(epoch=group.epoch, metadata_hash=metadata_hash(group.metadata))
    return ConsumerGroupMetadataKey(group_id=group.group_id), value, 0


def target(group: ConsumerGroup, member_id: str) -> Record:
    """What a member shall have."""
    assigned = _sorted(group.target[member_id])
    lines = [Target.TopicPartition(topic_id=topic, partitions=list(which)) for topic, which in assigned]
    return target_key(group.group_id, member_id), Target(topic_partitions=lines), 0


def target_key(group_id: str, member_id: str) -> ConsumerGroupTargetAssignmentMemberKey:
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)


def assignment_epoch(group: ConsumerGroup) -> Record:
    """For which epoch the target was made."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=group.assignment_epoch)
    return ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id), value, 0


def current(group: ConsumerGroup, member: ConsumerMember) -> Record:
    """What a member has, and has to give up."""
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group.group_id, member_id=member.member_id)
    return key, _current(member), 0


def keys_of(group_id: str, member_id: str) -> list[bytes]:
    """The keys of all that is told of a member, in the order in which it is taken back."""
    return [
        encode_stored(kind(group_id=group_id, member_id=member_id), 0)
        for kind in (
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupMemberMetadataKey,
        )
    ]


def metadata_hash(metadata: Mapping[str, tuple[UUID, int]]) -> int:
    """A number for topics with their ids and partitions; 0 if there are none."""
    if not metadata:
        return 0
    told = repr(sorted((name, topic_id.hex, count) for name, (topic_id, count) in metadata.items()))
    return int.from_bytes(blake2b(told.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


def _metadata(member: ConsumerMember) -> Metadata:
    classic = member.classic
    side = Metadata.ClassicMemberMetadata
    return Metadata(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=round(member.rebalance_timeout * 1000),
        server_assignor=member.assignor,
        classic_member_metadata=None
        if classic is None
        else side(
            session_timeout_ms=round(classic.session_timeout * 1000),
            supported_protocols=[side.Protocol(name=name, metadata=data) for name, data in classic.protocols],
        ),
    )


def _current(member: ConsumerMember) -> Current:
    line = Current.TopicPartition
    return Current(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        assigned_partitions=[
            line(topic_id=topic, partitions=list(which)) for topic, which in _sorted(by_topic(member.assigned))
        ],
        partitions_pending_revocation=[
            line(topic_id=topic, partitions=list(which)) for topic, which in _sorted(by_topic(member.revoking))
        ],
    )


def _sorted(assignment: Mapping[UUID, list[int]]) -> list[tuple[UUID, list[int]]]:
    return sorted(assignment.items())


# --- records to a group -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _GroupRecords:
    """What the records say of one group. ``group``: None if they say nothing of the group itself."""

    group: ConsumerGroupMetadataValue | None = None
    target_epoch: int = 0
    members: dict[str, Metadata] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    current: dict[str, Current] = field(default_factory=dict)
    expressions: dict[str, ConsumerGroupRegularExpressionValue] = field(default_factory=dict)

    def read(self, key: object, value: object) -> None:
        """Keep a record."""
        match key, value:
            case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue():
                self.group = value
            case ConsumerGroupTargetAssignmentMetadataKey(), ConsumerGroupTargetAssignmentMetadataValue():
                self.target_epoch = value.assignment_epoch
            case ConsumerGroupMemberMetadataKey(), ConsumerGroupMemberMetadataValue():
                self.members[key.member_id] = value
            case ConsumerGroupTargetAssignmentMemberKey(), ConsumerGroupTargetAssignmentMemberValue():
                self.targets[key.member_id] = value
            case ConsumerGroupCurrentMemberAssignmentKey(), ConsumerGroupCurrentMemberAssignmentValue():
                self.current[key.member_id] = value
            case ConsumerGroupRegularExpressionKey(), ConsumerGroupRegularExpressionValue():
                self.expressions[key.regular_expression] = value
            case _:
                pass


def rebuilt(
    group_id: str, found: Iterable[tuple[object, object]], context: Context, wall: Wall, now: float
) -> ConsumerGroup | None:
    """Return the group of these keys and values; None without the record of the group itself.

    Sessions begin again at ``now``. Raises: DecodeError for a state of a member that there is not.
    """
    told = _GroupRecords()
    for key, value in found:
        told.read(key, value)
    if told.group is None:
        return None
    group = _group(group_id, told, context.settings, wall, now)
    group.epoch = told.group.epoch
    seen = group.seen_in(context.cluster)
    if metadata_hash(seen) == told.group.metadata_hash:  # else the next heartbeat finds out
        group.metadata, group.version = seen, context.cluster.epoch
    return group


def _group(group_id: str, told: _GroupRecords, settings: Settings, wall: Wall, now: float) -> ConsumerGroup:
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
