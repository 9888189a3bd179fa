"""Lookups in the broker's state for conditions of fault rules. An example is the lookup of a topic name by topic id."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call
from mockbroker.broker.broker import Broker
from mockbroker.faults.matching import Lookups


def broker_lookups(broker: Callable[[], Broker], principal: Callable[[int], str]) -> Lookups:
    """Return the functions that look up topic names and other values in the broker's state.

    Args:
        broker: Function that returns the current broker; a reset replaces the broker.
        principal: Function that returns the principal of a connection, by its number.
    """

    def topic_name(topic_id: UUID) -> str | None:
        topic = broker().cluster.by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_id(name: str) -> UUID | None:
        topic = broker().cluster.topics.get(name)
        return None if topic is None else topic.topic_id

    def fetch_partitions(call: Call[Any]) -> Iterable[tuple[str, int]] | None:
        if call.ticket.api_key == ApiKey.SHARE_FETCH:
            return share_session_partitions(broker(), call)
        keys = broker().fetch_sessions(call.client.node).partitions_of(call.request, call.ticket.version)
        if keys is None:
            return None
        named = ((name or topic_name(uuid), index) for name, uuid, index in keys)
        return [(name, index) for name, index in named if name is not None]

    return Lookups(
        topic_name=topic_name,
        topic_id=topic_id,
        topics=lambda: list(broker().cluster.topics),
        principal=principal,
        fetch_partitions=fetch_partitions,
    )


def share_session_partitions(broker: Broker, call: Call[Any]) -> list[tuple[str, int]] | None:
    """Return topic and index of the partitions that a ShareFetch in a share session reads; None for a request that
    creates or ends a session, only renews acquisition locks, or has no session.

    Partitions of deleted topics are omitted.

    Args:
        broker: The state of the cluster.
        call: The request.
    """
    keys = broker.share_sessions(call.client.node).partitions_of(call.request)
    topics = broker.cluster.by_id
    return None if keys is None else [(topics[topic_id].name, index) for topic_id, index in keys if topic_id in topics]
