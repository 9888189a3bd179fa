"""Start offsets of share groups: administrators alter and delete them while a group has no members (KIP-932).

Source: Kafka's GroupMetadataManager (4.2): alterShareGroupOffsets, sharePartitionsEligibleForOffsetDeletion,
completeDeleteShareGroupOffsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from kwire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kwire.schema import ZERO_UUID
from mockbroker.base.texts import OF_ERRORS
from mockbroker.groups.events import AlterShareOffsets, DeleteShareOffsets
from mockbroker.groups.group_type import Context, Refused
from mockbroker.groups.share.initialization import combined
from mockbroker.groups.share.state import SharedTopic, ShareGroup
from mockbroker.share.state import StateKey
from mockbroker.topics.model import Topic

Altered = AlterShareGroupOffsetsResponse.Topic
Deleted = DeleteShareGroupOffsetsResponse.Topic
UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOTHING_TO_DELETE = "There is no offset information to delete."


def alter(group: ShareGroup, event: AlterShareOffsets, context: Context, now: float) -> AlterShareGroupOffsetsResponse:
    """Set the start offsets of share partitions, by initializing their share state again. Return the response.

    Errors of single partitions, such as an unknown topic, are in the response. An unknown topic without partitions is
    not.

    Args:
        group: The group.
        event: The request.
        context: Data and functions shared by all groups.
        now: The current time in seconds.

    Raises: Refused if the group has members.
    """
    _check_empty(group)
    done: dict[UUID, SharedTopic] = {}
    responses: list[Altered] = []
    for name, offsets in event.offsets.items():
        topic = context.cluster.topics.get(name)
        if topic is None:
            partitions = [_altered(index, UNKNOWN_PARTITION) for index in offsets]
            responses += [Altered(topic_name=name, partitions=partitions)] if partitions else []
            continue
        errors = {index: _initialize(group, topic, index, offset, context, now) for index, offset in offsets.items()}
        initialized = frozenset(index for index, error in errors.items() if not error)
        if initialized:
            done[topic.topic_id] = SharedTopic(name, initialized)
        partitions = [_altered(index, error) for index, error in errors.items()]
        responses.append(Altered(topic_name=name, topic_id=topic.topic_id, partitions=partitions))
    if done:
        group.set_shared_topics(
            initializing=_without(group.initializing, done),
            initialized=combined(group.initialized, done),
            deleting={topic_id: name for topic_id, name in group.deleting.items() if topic_id not in done},
        )
    return AlterShareGroupOffsetsResponse(responses=responses)


def delete(
    group: ShareGroup, event: DeleteShareOffsets, context: Context, now: float
) -> DeleteShareGroupOffsetsResponse:
    """Delete the share state of all partitions of the topics in a request, and return the response.

    Errors of single topics are in the response, after the topics with offsets. As in Kafka, the response contains a
    topic with offsets once, and any other topic as often as the request.

    Args:
        group: The group.
        event: The request.
        context: Data and functions shared by all groups.
        now: The current time in seconds.

    Raises: Refused if the group has members.
    """
    _check_empty(group)
    deleted: dict[str, Deleted] = {}
    without_offsets: list[Deleted] = []
    for name in event.topics:
        if name in deleted:
            continue
        answered = _delete_topic(group, name, context, now)
        if answered.topic_id == ZERO_UUID:
            without_offsets.append(answered)
        else:
            deleted[name] = answered
    return DeleteShareGroupOffsetsResponse(responses=[*deleted.values(), *without_offsets])


def _check_empty(group: ShareGroup) -> None:
    if not group.empty:
        raise Refused(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def _initialize(group: ShareGroup, topic: Topic, index: int, offset: int, context: Context, now: float) -> ErrorCode:
    if topic.partition(index) is None:
        return UNKNOWN_PARTITION
    assert context.share_states is not None
    key = StateKey(group.group_id, topic.topic_id, index)
    return context.share_states.initialize(key, group.epoch, offset, now)


def _altered(index: int, error: ErrorCode) -> Altered.Partition:
    return Altered.Partition(partition_index=index, error_code=error, error_message=OF_ERRORS.get(error))


def _without(topics: Mapping[UUID, SharedTopic], done: Mapping[UUID, SharedTopic]) -> dict[UUID, SharedTopic]:
    """Return the partitions in ``topics`` that are not in ``done``.

    ``topics``, ``done`` and the result are grouped by topic id.
    """
    remaining = {
        topic_id: shared._replace(partitions=shared.partitions - done[topic_id].partitions)
        if topic_id in done
        else shared
        for topic_id, shared in topics.items()
    }
    return {topic_id: shared for topic_id, shared in remaining.items() if shared.partitions}


def _delete_topic(group: ShareGroup, name: str, context: Context, now: float) -> Deleted:
    topic = context.cluster.topics.get(name)
    if topic is None:
        return Deleted(topic_name=name, error_code=UNKNOWN_PARTITION, error_message=OF_ERRORS[UNKNOWN_PARTITION])
    shared = group.initialized.get(topic.topic_id)
    if shared is not None:
        partitions = shared.partitions
    elif topic.topic_id in group.deleting:
        partitions = frozenset(range(len(topic.partitions)))
    else:
        return Deleted(topic_name=name, error_code=UNKNOWN_PARTITION, error_message=NOTHING_TO_DELETE)
    assert context.share_states is not None
    error = ErrorCode.NONE
    for index in sorted(partitions):
        error = context.share_states.delete(StateKey(group.group_id, topic.topic_id, index), now) or error
    deleting = {key: value for key, value in group.deleting.items() if key != topic.topic_id}
    group.set_shared_topics(
        initialized={key: value for key, value in group.initialized.items() if key != topic.topic_id},
        deleting=deleting | {topic.topic_id: name} if error else deleting,
    )
    return Deleted(topic_name=name, topic_id=topic.topic_id, error_code=error, error_message=OF_ERRORS.get(error))
