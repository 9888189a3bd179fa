"""The release of acquired records at the end of a share session."""

from __future__ import annotations

from mockbroker.broker.broker import Broker
from mockbroker.share.sessions import SessionKey, ShareSessions
from mockbroker.share.share_partitions import RELOADED_AFTER, reported_error
from mockbroker.share.state import StateKey


def release_session(broker: Broker, sessions: ShareSessions, key: SessionKey, now: float) -> list[StateKey]:
    """End a session; return the share partitions of the session, whose records may be available now.

    Source: Kafka's SharePartitionManager.releaseSession.
    """
    session = sessions.remove(key)
    if session is None:
        return []
    keys = [StateKey(key.group_id, topic_id, index) for topic_id, index in session.partitions]
    for each in keys:
        share = broker.share_partitions.loaded.get(each)
        if share is not None and reported_error(share.release_member(key.member_id, now)) in RELOADED_AFTER:
            broker.share_partitions.unload(each)
    return keys
