"""Decoding of subscriptions and assignments of a group with protocol type ``consumer``.

The coordinator decodes subscriptions only to decide which offsets may be deleted, and assignments only to show them.
Bytes that cannot be decoded are no error. (In Kafka they may block the group.)
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire import WireError
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from mockbroker.groups.classic.state import ClassicGroup

CONSUMER = "consumer"


def subscribed_topics(group: ClassicGroup) -> set[str] | None:
    """Return the subscribed topics; None if they are not known.

    They are not known if the protocol type is not ``consumer``, or a subscription cannot be decoded.
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
    """Return an assignment as partitions by topic; None if it cannot be decoded or is not of a consumer."""
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
