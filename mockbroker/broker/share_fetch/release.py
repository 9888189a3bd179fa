"""The release of acquired records at the end of a share session."""

from __future__ import annotations

from uuid import UUID

from mockbroker.broker.broker import Broker
from mockbroker.share.sessions import SessionKey
from mockbroker.share.share_partitions import RELOADED_AFTER, reported_error
from mockbroker.share.state import StateKey
from mockbroker.topics.model import NO_LEADER


def release_session(broker: Broker, node: int, key: SessionKey, now: float) -> list[StateKey]:
    """End a share session, and release the records that its member has acquired from the broker.

    If a partition of the session has a new leader, the records that the member acquired from the old leader are not
    released.

    Source: Kafka's SharePartitionManager.releaseSession.

    Args:
        broker: The state of the cluster.
        node: Id of the broker with the session.
        key: Group id and member id of the session.
        now: The broker's time in seconds.

    Returns: the share partitions of the session that the broker leads. Other members may now acquire the released
    records.
    """
    session = broker.share_sessions(node).remove(key)
    if session is None:
        return []
    keys = [
        StateKey(key.group_id, topic_id, index)
        for topic_id, index in session.partitions
        if leader_of(broker, topic_id, index) == node
    ]
    for each in keys:
        share = broker.share_partitions.loaded.get(each)
        if share is not None and reported_error(share.release_member(key.member_id, now)) in RELOADED_AFTER:
            broker.share_partitions.unload(each)
    return keys


def leader_of(broker: Broker, topic_id: UUID, index: int) -> int:
    """Return the id of the broker that leads a partition; NO_LEADER if the partition has no leader or does not exist.

    Args:
        broker: The state of the cluster.
        topic_id: Topic id.
        index: Partition index.
    """
    topic = broker.cluster.by_id.get(topic_id)
    if topic is None or index >= len(topic.partitions):
        return NO_LEADER
    return topic.partitions[index].leader
