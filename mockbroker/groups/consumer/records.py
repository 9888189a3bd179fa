"""The records of a consumer group: group, members, target and current assignments, regular expressions (KIP-848).

Source: Kafka's GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from kwire.java import map_order
from mockbroker.groups.consumer.state import (
    ClassicMemberMetadata,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
    rebalance_timer,
)
from mockbroker.groups.coordinated import session_timer
from mockbroker.groups.group_type import Context
from mockbroker.groups.partition_sets import PartitionSet, by_topic_id, metadata_hash
from mockbroker.groups.records.image import Change, Record, encode, encoded_keys, tombstones
from mockbroker.groups.records.stored import StoredRecords
from mockbroker.groups.records.wall_time import WallClock

Current = ConsumerGroupCurrentMemberAssignmentValue
Metadata = ConsumerGroupMemberMetadataValue
Target = ConsumerGroupTargetAssignmentMemberValue


def records(group: ConsumerGroup, wall: WallClock) -> Iterator[Record]:
    """Yield key, value and value version of each record of a group, except the records of its offsets.

    Args:
        group: The group.
        wall: The clock of the timestamps in records.
    """
    for member in group.members.values():
        yield member_record(group, member)
    yield from regex_records(group, wall)
    yield group_epoch_record(group)
    for member_id in group.target:
        yield target_record(group, member_id)
    yield assignment_epoch_record(group)
    for member in group.members.values():
        yield current_assignment_record(group, member)


def changed_records(group: ConsumerGroup, wall: WallClock) -> Iterator[Change]:
    """Yield the encoded records of the entries in ``group.changes``, and tombstones for removed entries.

    ``group.changes`` contains what may have changed since records were written last. This function does not clear it.

    The order is that of Kafka's heartbeat: members, regular expressions, group, target assignments, current
    assignments.

    Args:
        group: The group.
        wall: The clock of the timestamps in records.
    """
    changes = group.changes
    members, resolved, targets = (changes.get(table, {}) for table in ("members", "resolved_regexes", "target"))
    for member_id in members:
        if member_id in group.members:
            yield encode(*member_record(group, group.members[member_id]))
        elif member_id is not None:
            yield from tombstones(member_keys(group.group_id, member_id))
    for regex in resolved:
        if regex is not None and regex not in group.resolved_regexes:
            yield encode_stored(regex_key(group.group_id, regex), 0), None
    for regex, topics in group.resolved_regexes.items() if resolved else ():
        if regex in resolved:
            yield encode(*regex_record(group.group_id, regex, topics, wall))
    if "epoch" in changes or "topic_metadata" in changes:
        yield encode(*group_epoch_record(group))
    for member_id in targets:
        if member_id is not None and member_id not in group.target:
            yield encode_stored(target_key(group.group_id, member_id), 0), None
    for member_id in map_order((each for each in targets if each in group.target), group.peak_member_count):
        yield encode(*target_record(group, member_id))
    if "assignment_epoch" in changes:
        yield encode(*assignment_epoch_record(group))
    for member_id in members:
        if member_id in group.members:
            yield encode(*current_assignment_record(group, group.members[member_id]))


def member_record(group: ConsumerGroup, member: ConsumerMember) -> Record:
    """Return the record with the client data and the subscription of a member (ConsumerGroupMemberMetadata)."""
    return ConsumerGroupMemberMetadataKey(group_id=group.group_id, member_id=member.member_id), _member_value(member), 0


def regex_records(group: ConsumerGroup, wall: WallClock) -> Iterator[Record]:
    """Yield the records of all resolved regular expressions.

    Args:
        group: The group.
        wall: The clock of the timestamps in records.
    """
    for regex, resolved in group.resolved_regexes.items():
        yield regex_record(group.group_id, regex, resolved, wall)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex, wall: WallClock) -> Record:
    """Return the record of a resolved regular expression.

    Args:
        group_id: The group id.
        regex: The regular expression.
        resolved: The topics that match it.
        wall: The clock of the timestamps in records.
    """
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=wall.to_ms(resolved.at)
    )
    return regex_key(group_id, regex), value, 0


def regex_key(group_id: str, regex: str) -> ConsumerGroupRegularExpressionKey:
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)


def group_epoch_record(group: ConsumerGroup) -> Record:
    """Return the record with the group epoch and the hash of the topic metadata."""
    value = ConsumerGroupMetadataValue(epoch=group.epoch, metadata_hash=metadata_hash(group.topic_metadata))
    return ConsumerGroupMetadataKey(group_id=group.group_id), value, 0


def target_record(group: ConsumerGroup, member_id: str) -> Record:
    """Return the record with the target assignment of a member.

    Args:
        group: The group.
        member_id: The member id.
    """
    assigned = _sorted(group.target[member_id])
    topic_partitions = [
        Target.TopicPartition(topic_id=topic_id, partitions=list(partitions)) for topic_id, partitions in assigned
    ]
    return target_key(group.group_id, member_id), Target(topic_partitions=topic_partitions), 0


def target_key(group_id: str, member_id: str) -> ConsumerGroupTargetAssignmentMemberKey:
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)


def assignment_epoch_record(group: ConsumerGroup) -> Record:
    """Return the record with the epoch of the target assignment."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=group.assignment_epoch)
    return ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id), value, 0


def current_assignment_record(group: ConsumerGroup, member: ConsumerMember) -> Record:
    """Return the record with the current assignment of a member.

    The assignment consists of the assigned partitions, and of the partitions that the member still has to revoke.
    """
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group.group_id, member_id=member.member_id)
    return key, _current_assignment_value(member), 0


def member_keys(group_id: str, member_id: str) -> list[bytes]:
    """Return the keys of all records of a member, in the order in which Kafka writes their tombstones.

    Args:
        group_id: The group id.
        member_id: The member id.
    """
    kinds = (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupMemberMetadataKey,
    )
    return encoded_keys(kinds, group_id=group_id, member_id=member_id)


def _member_value(member: ConsumerMember) -> Metadata:
    classic = member.classic
    classic_metadata = Metadata.ClassicMemberMetadata
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
        else classic_metadata(
            session_timeout_ms=round(classic.session_timeout * 1000),
            supported_protocols=[
                classic_metadata.Protocol(name=name, metadata=data) for name, data in classic.protocols
            ],
        ),
    )


def _current_assignment_value(member: ConsumerMember) -> Current:
    element = Current.TopicPartition
    return Current(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        assigned_partitions=[
            element(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in _sorted(by_topic_id(member.assigned))
        ],
        partitions_pending_revocation=[
            element(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in _sorted(by_topic_id(member.pending_revocation))
        ],
    )


def _sorted(assignment: Mapping[UUID, list[int]]) -> list[tuple[UUID, list[int]]]:
    return sorted(assignment.items())


# --- loading a group from records ---------------------------------------------------------------------------------


def group_from_records(
    group_id: str, entries: Iterable[tuple[object, object]], context: Context, wall: WallClock, now: float
) -> ConsumerGroup | None:
    """Create a group from its records. Sessions restart at ``now``.

    Args:
        group_id: the group id.
        entries: decoded keys and latest values of the group's records, without deleted keys; at least one.
        context: data and functions shared by all groups.
        wall: the clock of the timestamps in records.
        now: the current time in seconds.

    Returns:
        The group; None if the record of the group itself is missing.

    Raises:
        DecodeError: The state of a member is not valid.
    """
    stored = StoredRecords(entries)
    stored_group = stored.value(ConsumerGroupMetadataValue)
    if stored_group is None:
        return None
    group = _build_group(group_id, stored, context, wall, now)
    group.epoch = stored_group.epoch
    metadata = group.subscribed_metadata(context.cluster)
    if metadata_hash(metadata) == stored_group.metadata_hash:  # else the next heartbeat reads the metadata again
        group.topic_metadata, group.metadata_version = metadata, context.cluster.epoch
    return group


def _build_group(group_id: str, stored: StoredRecords, context: Context, wall: WallClock, now: float) -> ConsumerGroup:
    kind = ConsumerGroupTargetAssignmentMetadataValue
    group = ConsumerGroup(group_id=group_id, assignment_epoch=(stored.value(kind) or kind()).assignment_epoch)
    current = stored.values(Current)
    # Also for members of the classic protocol.
    session_timeout = context.group_milliseconds(group_id, "consumer.session.timeout.ms") / 1000
    for member_id, metadata in stored.values(Metadata).items():
        member = _build_member(member_id, metadata, current.get(member_id))
        group.put_member(member)
        group.timers.set(session_timer(member_id), now + session_timeout)
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.rebalance_timeout >= 0:
            group.timers.set(rebalance_timer(member_id), now + member.rebalance_timeout)
    for member_id, target in stored.values(Target).items():
        group.target[member_id] = {each.topic_id: list(each.partitions) for each in target.topic_partitions}
    for regex, value in stored.values(ConsumerGroupRegularExpressionValue, "regular_expression").items():
        resolved = ResolvedRegex(frozenset(value.topics), value.version, wall.from_ms(value.timestamp))
        group.put_resolved_regex(regex, resolved)
    return group


def _build_member(
    member_id: str,
    metadata: ConsumerGroupMemberMetadataValue,
    current: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> ConsumerMember:
    classic = metadata.classic_member_metadata
    current = current or ConsumerGroupCurrentMemberAssignmentValue()
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
        else ClassicMemberMetadata(
            classic.session_timeout_ms / 1000, [(each.name, each.metadata) for each in classic.supported_protocols]
        ),
        epoch=current.member_epoch,
        previous_epoch=current.previous_member_epoch,
        state=_member_state(member_id, current.state),
        assigned=_partition_set(current.assigned_partitions),
        pending_revocation=_partition_set(current.partitions_pending_revocation),
    )


def _member_state(member_id: str, number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        name = ConsumerGroupCurrentMemberAssignmentValue.__name__
        raise DecodeError(f"member {member_id} has the invalid state {number}: expected 0 to 2", message=name) from None


def _partition_set(topics: Iterable[ConsumerGroupCurrentMemberAssignmentValue.TopicPartition]) -> PartitionSet:
    return frozenset((topic.topic_id, index) for topic in topics for index in topic.partitions)
