"""Initialization of share partitions by the group coordinator.

When a topic is first subscribed, the group coordinator records its partitions as initializing, and the share
coordinator creates their share state. Then the group coordinator records the partitions as initialized, and the next
heartbeat assigns them.

Source: Kafka's GroupMetadataManager (4.2): subscribedTopicsChangeMap, initializeShareGroupState,
initializedAssignmentPending, maybeCleanupShareGroupState.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from uuid import UUID

from kwire import ErrorCode
from mockbroker.groups.group_type import Context
from mockbroker.groups.share.state import INITIALIZE_TIMER, SharedTopic, ShareGroup
from mockbroker.share.state import UNINITIALIZED, StateKey
from mockbroker.topics.model import Topic

AT_ONCE = 200  # partitions that are initialized before other requests; they take about 20 ms
RETRY_INTERVAL = 30.0  # seconds, group.share.initialize.retry.interval.ms


def begin(group: ShareGroup, context: Context, now: float) -> None:
    """Record the partitions of subscribed topics that are not initialized, and schedule their initialization.

    A topic whose share state is being deleted is removed from ``group.deleting``, and is initialized again.

    Args:
        group: the group.
        context: data and functions shared by all groups.
        now: the broker's time in seconds.
    """
    missing = _uninitialized(group, context)
    if not missing:
        return
    group.set_shared_topics(initializing=combined(group.initializing, missing))
    revived = missing.keys() & group.deleting.keys()
    if revived:
        group.set_shared_topics(deleting={key: name for key, name in group.deleting.items() if key not in revived})
    group.timers.set(INITIALIZE_TIMER, now)


def finish(group: ShareGroup, context: Context, now: float) -> None:
    """Create the state of the initializing partitions at the share coordinator, and record them as initialized.

    One call initializes at most AT_ONCE partitions. If more partitions are initializing, the timer for the next call is
    due immediately. If the share coordinator of a partition is not available, the timer is due after RETRY_INTERVAL.

    Partitions of deleted topics are no longer recorded as initializing.

    Args:
        group: The group.
        context: Data and functions shared by all groups.
        now: The current time in seconds.
    """
    states = context.share_states
    assert states is not None
    done: dict[UUID, SharedTopic] = {}
    waiting: dict[UUID, SharedTopic] = {}
    room, failures = AT_ONCE, False
    for topic_id, shared in group.initializing.items():
        if topic_id not in context.cluster.by_id:
            continue
        tried = sorted(shared.partitions)[:room]
        room -= len(tried)
        initialized = frozenset(
            index
            for index in tried
            if not states.initialize(StateKey(group.group_id, topic_id, index), group.epoch, UNINITIALIZED, now)
        )
        failures |= len(initialized) < len(tried)
        if initialized:
            done[topic_id] = shared._replace(partitions=initialized)
        if shared.partitions - initialized:
            waiting[topic_id] = shared._replace(partitions=shared.partitions - initialized)
    group.set_shared_topics(initializing=waiting, initialized=combined(group.initialized, done))
    if waiting:
        group.timers.set(INITIALIZE_TIMER, now + RETRY_INTERVAL if failures else now)


def is_assignment_pending(group: ShareGroup) -> bool:
    """Return whether initialized partitions of subscribed topics are missing from the target assignment.

    The result False is stored in ``group.target_is_checked`` until the group changes, so the next call is fast.
    """
    if group.target_is_checked:
        return False
    assigned: dict[UUID, set[int]] = {}
    for target in group.target.values():
        for topic_id, indexes in target.items():
            assigned.setdefault(topic_id, set()).update(indexes)
    pending = any(
        shared.name in group.subscribed_names and assigned.get(topic_id, set()) != shared.partitions
        for topic_id, shared in group.initialized.items()
    )
    group.target_is_checked = not pending
    return pending


def remove_topics(group: ShareGroup, gone: AbstractSet[UUID]) -> None:
    """Remove deleted topics from the group. ``gone``: ids of the topics."""
    if not gone & (group.initializing.keys() | group.initialized.keys() | group.deleting.keys()):
        return
    group.set_shared_topics(
        initializing={key: value for key, value in group.initializing.items() if key not in gone},
        initialized={key: value for key, value in group.initialized.items() if key not in gone},
        deleting={key: value for key, value in group.deleting.items() if key not in gone},
    )


def delete_states(group: ShareGroup, context: Context, now: float) -> ErrorCode:
    """Delete the share state of all partitions of a group, before the group is deleted.

    If the state of one partition cannot be deleted, all topics of the group are moved to ``group.deleting``.

    Args:
        group: the group.
        context: data and functions shared by all groups.
        now: the current time in seconds.

    Returns:
        NONE; COORDINATOR_NOT_AVAILABLE if the state of a partition could not be deleted.

    Source: Kafka's GroupMetadataManager.shareGroupBuildPartitionDeleteRequest.
    """
    states = context.share_states
    assert states is not None
    error = ErrorCode.NONE
    topics = combined(group.initialized, group.initializing)
    for topic_id, shared in topics.items():
        for index in sorted(shared.partitions):
            error = states.delete(StateKey(group.group_id, topic_id, index), now) or error
    if error:
        names = {topic_id: shared.name for topic_id, shared in topics.items()}
        group.set_shared_topics(initializing={}, initialized={}, deleting=group.deleting | names)
    return error


def combined(first: Mapping[UUID, SharedTopic], second: Mapping[UUID, SharedTopic]) -> dict[UUID, SharedTopic]:
    """Return the union of ``first`` and ``second``, two sets of partitions that are grouped by topic id."""
    union = dict(first)
    for topic_id, shared in second.items():
        before = union.get(topic_id)
        union[topic_id] = (
            shared if before is None else shared._replace(partitions=before.partitions | shared.partitions)
        )
    return union


def _uninitialized(group: ShareGroup, context: Context) -> dict[UUID, SharedTopic]:
    """Return the partitions of existing subscribed topics that are neither initialized nor being initialized.

    The result is grouped by topic id.

    Args:
        group: The group.
        context: Data and functions shared by all groups.
    """
    missing: dict[UUID, SharedTopic] = {}
    for name in group.subscribed_names:
        topic = context.cluster.topics.get(name)
        if topic is None:
            continue
        known = _partitions_of(group.initialized, topic) | _partitions_of(group.initializing, topic)
        if len(known) < len(topic.partitions):
            indexes = frozenset(range(len(topic.partitions))) - known
            missing[topic.topic_id] = SharedTopic(name, indexes)
    return missing


def _partitions_of(topics: Mapping[UUID, SharedTopic], topic: Topic) -> frozenset[int]:
    shared = topics.get(topic.topic_id)
    return frozenset() if shared is None else shared.partitions
