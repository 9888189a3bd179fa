"""The records of a share group: group, members, assignments and the status of its share partitions (KIP-932).

Source: Kafka's GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from kwire.blobs import encode_stored
from kwire.blobs.offsets_topic import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from mockbroker.groups.coordinated import session_timer
from mockbroker.groups.group_type import Context
from mockbroker.groups.partition_sets import by_topic_id, metadata_hash
from mockbroker.groups.records.image import Change, Record, encode, encoded_keys, tombstones
from mockbroker.groups.records.stored import StoredRecords
from mockbroker.groups.share.initialization import RETRY_INTERVAL
from mockbroker.groups.share.state import INITIALIZE_TIMER, SharedTopic, ShareGroup, ShareMember

Current = ShareGroupCurrentMemberAssignmentValue
Metadata = ShareGroupMemberMetadataValue
Target = ShareGroupTargetAssignmentMemberValue
Status = ShareGroupStatePartitionMetadataValue
STABLE = 0  # state of a member, always the same
STATUS_FIELDS = ("initializing", "initialized", "deleting")


def records(group: ShareGroup) -> Iterator[Record]:
    """Yield key, value and value version of each record of a group."""
    for member in group.members.values():
        yield _member_record(group, member)
    yield _group_epoch_record(group)
    for member_id in group.target:
        yield _target_record(group, member_id)
    yield _assignment_epoch_record(group)
    for member in group.members.values():
        yield _current_assignment_record(group, member)
    if group.initializing or group.initialized or group.deleting:
        yield _status_record(group)


def changed_records(group: ShareGroup) -> Iterator[Change]:
    """Yield the records of all fields that were set since the last write, and tombstones.

    The records are in the order in which Kafka writes the records of a heartbeat.
    """
    changes = group.changes
    members, targets = changes.get("members", {}), changes.get("target", {})
    for member_id in members:
        if member_id in group.members:
            yield encode(*_member_record(group, group.members[member_id]))
        elif member_id is not None:
            yield from tombstones(_member_keys(group.group_id, member_id))
    if "epoch" in changes or "topic_metadata" in changes:
        yield encode(*_group_epoch_record(group))
    for member_id in targets:
        if member_id is not None and member_id not in group.target:
            yield encode_stored(_target_key(group.group_id, member_id), 0), None
    for member_id in group.target if targets else ():
        if member_id in targets:
            yield encode(*_target_record(group, member_id))
    if "assignment_epoch" in changes:
        yield encode(*_assignment_epoch_record(group))
    for member_id in members:
        if member_id in group.members:
            yield encode(*_current_assignment_record(group, group.members[member_id]))
    if any(name in changes for name in STATUS_FIELDS):
        record = _status_record(group)
        if group.initializing or group.initialized or group.deleting:
            yield encode(*record)
        else:
            yield encode_stored(record[0], 0), None


def _member_record(group: ShareGroup, member: ShareMember) -> Record:
    value = Metadata(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    return ShareGroupMemberMetadataKey(group_id=group.group_id, member_id=member.member_id), value, 0


def _group_epoch_record(group: ShareGroup) -> Record:
    value = ShareGroupMetadataValue(epoch=group.epoch, metadata_hash=metadata_hash(group.topic_metadata))
    return ShareGroupMetadataKey(group_id=group.group_id), value, 0


def _target_record(group: ShareGroup, member_id: str) -> Record:
    topic_partitions = [
        Target.TopicPartition(topic_id=topic_id, partitions=list(partitions))
        for topic_id, partitions in sorted(group.target[member_id].items())
    ]
    return _target_key(group.group_id, member_id), Target(topic_partitions=topic_partitions), 0


def _target_key(group_id: str, member_id: str) -> ShareGroupTargetAssignmentMemberKey:
    return ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)


def _assignment_epoch_record(group: ShareGroup) -> Record:
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=group.assignment_epoch)
    return ShareGroupTargetAssignmentMetadataKey(group_id=group.group_id), value, 0


def _current_assignment_record(group: ShareGroup, member: ShareMember) -> Record:
    value = Current(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=STABLE,
        assigned_partitions=[
            Current.TopicPartition(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic_id(member.assigned).items()
        ],
    )
    return ShareGroupCurrentMemberAssignmentKey(group_id=group.group_id, member_id=member.member_id), value, 0


def _status_record(group: ShareGroup) -> Record:
    value = Status(
        initializing_topics=_topics(group.initializing),
        initialized_topics=_topics(group.initialized),
        deleting_topics=[
            Status.Topic(topic_id=topic_id, topic_name=name) for topic_id, name in sorted(group.deleting.items())
        ],
    )
    return ShareGroupStatePartitionMetadataKey(group_id=group.group_id), value, 0


def _topics(topics: Mapping[UUID, SharedTopic]) -> list[Status.TopicPartitions]:
    return [
        Status.TopicPartitions(topic_id=topic_id, topic_name=shared.name, partitions=sorted(shared.partitions))
        for topic_id, shared in sorted(topics.items())
    ]


def _member_keys(group_id: str, member_id: str) -> list[bytes]:
    """Return the keys of all records of a member, in the order in which Kafka writes their tombstones.

    Args:
        group_id: The group id.
        member_id: The member id.
    """
    kinds = (
        ShareGroupCurrentMemberAssignmentKey,
        ShareGroupTargetAssignmentMemberKey,
        ShareGroupMemberMetadataKey,
    )
    return encoded_keys(kinds, group_id=group_id, member_id=member_id)


# --- loading a group from records ---------------------------------------------------------------------------------


def group_from_records(
    group_id: str, entries: Iterable[tuple[object, object]], context: Context, now: float
) -> ShareGroup | None:
    """Create a group from its records. The sessions of all members start at ``now``.

    Args:
        group_id: group id.
        entries: decoded keys and latest values of the group's records, without deleted keys; at least one.
        context: data and functions shared by all groups.
        now: the broker's time in seconds.

    Returns:
        The group; None if there is neither a group record nor a record of share partitions.
    """
    stored = StoredRecords(entries)
    stored_group, status = stored.value(ShareGroupMetadataValue), stored.value(Status)
    if stored_group is None and status is None:  # a group that was created by setting start offsets has only the status
        return None
    stored_group, status = stored_group or ShareGroupMetadataValue(), status or Status()
    kind = ShareGroupTargetAssignmentMetadataValue
    assignment_epoch = (stored.value(kind) or kind()).assignment_epoch
    group = ShareGroup(group_id=group_id, epoch=stored_group.epoch, assignment_epoch=assignment_epoch)
    current = stored.values(Current)
    session_timeout = context.group_milliseconds(group_id, "share.session.timeout.ms") / 1000
    for member_id, metadata in stored.values(Metadata).items():
        group.put_member(_build_member(member_id, metadata, current.get(member_id) or Current()))
        group.timers.set(session_timer(member_id), now + session_timeout)
    for member_id, target in stored.values(Target).items():
        group.target[member_id] = {each.topic_id: list(each.partitions) for each in target.topic_partitions}
    group.set_shared_topics(
        initializing=_shared_topics(status.initializing_topics),
        initialized=_shared_topics(status.initialized_topics),
        deleting={each.topic_id: each.topic_name for each in status.deleting_topics},
    )
    if group.initializing:
        group.timers.set(INITIALIZE_TIMER, now + RETRY_INTERVAL)
    metadata_now = group.subscribed_metadata(context.cluster)
    if metadata_hash(metadata_now) == stored_group.metadata_hash:  # else the next heartbeat reads the metadata again
        group.topic_metadata, group.metadata_version = metadata_now, context.cluster.epoch
    return group


def _build_member(member_id: str, metadata: Metadata, current: Current) -> ShareMember:
    return ShareMember(
        member_id=member_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topics=frozenset(metadata.subscribed_topic_names),
        epoch=current.member_epoch,
        previous_epoch=current.previous_member_epoch,
        assigned=frozenset((each.topic_id, index) for each in current.assigned_partitions for index in each.partitions),
    )


def _shared_topics(topics: Iterable[Status.TopicPartitions]) -> dict[UUID, SharedTopic]:
    return {each.topic_id: SharedTopic(each.topic_name, frozenset(each.partitions)) for each in topics}
