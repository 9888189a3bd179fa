"""A group of the consumer protocol as records: of the group, its members, its target, its expressions (KIP-848).

Source: Kafka's GroupCoordinatorRecordHelpers. The hash of what the group knows of its topics is one of our own: whoever
reads another number looks at the topics again, and that is all that it is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import TypeAlias
from uuid import UUID

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
from mockbroker.durable.clock import Wall
from mockbroker.group.consumer_state import ConsumerGroup, ConsumerMember, by_topic

Record: TypeAlias = tuple[object, object, int]
Current = ConsumerGroupCurrentMemberAssignmentValue
Metadata = ConsumerGroupMemberMetadataValue
Target = ConsumerGroupTargetAssignmentMemberValue


def records(group: ConsumerGroup, wall: Wall) -> Iterator[Record]:
    """Key, value and version of each."""
    name = group.group_id
    for member in group.members.values():
        yield ConsumerGroupMemberMetadataKey(group_id=name, member_id=member.member_id), _metadata(member), 0
    for expression, resolved in group.resolved.items():
        yield (
            ConsumerGroupRegularExpressionKey(group_id=name, regular_expression=expression),
            ConsumerGroupRegularExpressionValue(
                topics=sorted(resolved.topics), version=resolved.version, timestamp=wall.ms(resolved.at)
            ),
            0,
        )
    yield (
        ConsumerGroupMetadataKey(group_id=name),
        ConsumerGroupMetadataValue(epoch=group.epoch, metadata_hash=metadata_hash(group.metadata)),
        0,
    )
    for member_id, target in group.target.items():
        lines = [Target.TopicPartition(topic_id=topic, partitions=list(which)) for topic, which in _sorted(target)]
        key = ConsumerGroupTargetAssignmentMemberKey(group_id=name, member_id=member_id)
        yield key, Target(topic_partitions=lines), 0
    yield (
        ConsumerGroupTargetAssignmentMetadataKey(group_id=name),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=group.assignment_epoch),
        0,
    )
    for member in group.members.values():
        yield ConsumerGroupCurrentMemberAssignmentKey(group_id=name, member_id=member.member_id), _current(member), 0


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
        subscribed_topic_regex=member.regex or None,
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
