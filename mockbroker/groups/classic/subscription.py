"""Decoders of subscriptions and assignments in a group with protocol type ``consumer``.

The coordinator decodes subscriptions only to decide which offsets may be deleted, and assignments only for snapshots
and ``mockbroker import``. Bytes that cannot be decoded are not an error. (In Kafka, such bytes may block the group.)
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire import WireError
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from mockbroker.groups.classic.state import ClassicGroup

CONSUMER = "consumer"


def subscribed_topics(group: ClassicGroup) -> set[str] | None:
    """Return the names of the subscribed topics, or None if the coordinator cannot determine them.

    The coordinator cannot determine the topics in three cases: the protocol type is not ``consumer``, no protocol is
    selected, or a subscription cannot be decoded.
    """
    if group.protocol_type != CONSUMER or group.protocol is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        try:
            subscription, _ = decode_stored(ConsumerProtocolSubscription, member.metadata(group.protocol))
        except (WireError, StopIteration):  # cannot be decoded, or the member joined with other protocols
            return None
        topics.update(subscription.topics)
    return topics


def decode_assignment(protocol_type: str, assignment: bytes) -> Mapping[str, list[int]] | None:
    """Return the assigned partition indexes: topic name -> indexes.

    The result is {} for an empty assignment. It is None if the bytes cannot be decoded or the protocol type is not
    ``consumer``.

    Args:
        protocol_type: Protocol type of the group.
        assignment: Encoded assignment of a member.
    """
    if protocol_type != CONSUMER:
        return None
    if not assignment:
        return {}
    try:
        decoded, _ = decode_stored(ConsumerProtocolAssignment, assignment)
    except WireError:
        return None
    partitions: dict[str, list[int]] = {}
    for assigned in decoded.assigned_partitions:
        partitions.setdefault(assigned.topic, []).extend(assigned.partitions)
    return partitions
