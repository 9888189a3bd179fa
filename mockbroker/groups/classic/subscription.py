"""What a group of type ``consumer`` reads, as far as its members' bytes can be understood.

The only place where the coordinator looks into them, and nothing depends on it but which offsets may go. Bytes that
make no sense are no error: Kafka's coordinator hangs a group on them, ours must not.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire import WireError
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from mockbroker.groups.classic.state import ClassicGroup

CONSUMER = "consumer"


def subscribed_topics(group: ClassicGroup) -> set[str] | None:
    """Topics that some member subscribes to; None if the group is of another type or cannot be understood."""
    if group.protocol_type != CONSUMER or group.protocol is None:
        return None
    found: set[str] = set()
    for member in group.members.values():
        try:
            subscription, _ = decode_stored(ConsumerProtocolSubscription, member.metadata(group.protocol))
        except (WireError, StopIteration):  # not readable, or a member that joined with other protocols meanwhile
            return None
        found.update(subscription.topics)
    return found


def readable_assignment(protocol_type: str, assignment: bytes) -> Mapping[str, list[int]] | None:
    """Return a member's assignment as topics and partitions; None if it cannot be read, or is not of a consumer."""
    if protocol_type != CONSUMER:
        return None
    if not assignment:
        return {}
    try:
        decoded, _ = decode_stored(ConsumerProtocolAssignment, assignment)
    except WireError:
        return None
    found: dict[str, list[int]] = {}
    for assigned in decoded.assigned_partitions:
        found.setdefault(assigned.topic, []).extend(assigned.partitions)
    return found
