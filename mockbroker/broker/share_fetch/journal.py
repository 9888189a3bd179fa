"""The journal events of the records that members of share groups acquire and acknowledge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mockbroker.base.effects import Call, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.share.acknowledge import AcknowledgeType
from mockbroker.share.sessions import PartitionKey
from mockbroker.share.state import StateKey

NAMES: Mapping[int, str] = {  # of what a member does with records, by type of acknowledgement
    AcknowledgeType.GAP: "gap",
    AcknowledgeType.ACCEPT: "accepted",
    AcknowledgeType.RELEASE: "released",
    AcknowledgeType.REJECT: "rejected",
    AcknowledgeType.RENEW: "renewed",
}
Counts = dict[tuple[str, int], Mapping[str, int]]  # numbers of records by topic name and partition


def acquired_note(broker: Broker, call: Call[Any], responses: Mapping[PartitionKey, Any]) -> list[Note]:
    """Return the event for the records in a ShareFetch response, or an empty list without records.

    Args:
        broker: The state of the cluster.
        call: The ShareFetch.
        responses: The partitions of the response.
    """
    counts: Counts = {}
    for (topic_id, index), partition in responses.items():
        records = sum(each.last_offset - each.first_offset + 1 for each in partition.acquired_records)
        if records:
            counts[broker.cluster.by_id[topic_id].name, index] = {"acquired": records}
    return _note(call, counts)


def acknowledged_note(
    broker: Broker, call: Call[Any], topics: Iterable[Any], results: Mapping[PartitionKey, object]
) -> list[Note]:
    """Return the event for the successful acknowledgements of a request; an empty list if none was successful.

    Args:
        broker: the state of the cluster.
        call: the request.
        topics: the topics of the request, with partitions and acknowledgement batches.
        results: partition -> error; None for a partition without an error.
    """
    counts: Counts = {}
    for topic in topics:
        for partition in topic.partitions:
            key = topic.topic_id, partition.partition_index
            if partition.acknowledgement_batches and key in results and results[key] is None:
                counts[broker.cluster.by_id[key[0]].name, key[1]] = _by_type(partition.acknowledgement_batches)
    return _note(call, counts)


def expired_note(broker: Broker, key: StateKey, ended: Mapping[str, int]) -> list[Note]:
    """Return the event for records whose acquisition locks have expired, or an empty list if the topic is deleted.

    Args:
        broker: The state of the cluster.
        key: The share partition.
        ended: Numbers of records by their new state, ``released`` or ``archived``.
    """
    topic = broker.cluster.by_id.get(key.topic_id)
    if topic is None:
        return []
    records: Counts = {(topic.name, key.partition): ended}
    reason = "acquisition locks have ended"
    return [Note(event=EventKind.SHARE_RECORDS, group=key.group_id, reason=reason, records=records)]


def _by_type(batches: Iterable[Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for batch in batches:
        types = batch.acknowledge_types
        size = batch.last_offset - batch.first_offset + 1 if len(types) == 1 else 1
        for number in types:
            name = NAMES[number]
            counts[name] = counts.get(name, 0) + size
    return counts


def _note(call: Call[Any], counts: Counts) -> list[Note]:
    request = call.request
    if not counts:
        return []
    return [
        Note(
            event=EventKind.SHARE_RECORDS,
            group=request.group_id or "",
            member_id=request.member_id or "",
            client_id=call.client.client_id,
            records=counts,
        )
    ]
