"""A group of the consumer protocol as records: of the group, its members, its target, its expressions (KIP-848).

Source: Kafka's GroupCoordinatorRecordHelpers. The hash of what the group knows of its topics is one of our own: whoever
reads another number looks at the topics again, and that is all that it is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import TypeAlias
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
from mockbroker.groups.consumer.state import ConsumerGroup, ConsumerMember, Resolved, by_topic
from mockbroker.groups.records.wall_time import Wall

Record: TypeAlias = tuple[object, object, int]
Current = ConsumerGroupCurrentMemberAssignmentValue
Metadata = ConsumerGroupMemberMetadataValue
Target = ConsumerGroupTargetAssignmentMemberValue


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
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group.group_id, member_id=member_id)
    return key, Target(topic_partitions=lines), 0


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
