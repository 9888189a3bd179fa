"""Encoding and decoding of the subscriptions and assignments that members of a classic group exchange."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kwire.assignors import (
    CLIENT,
    Assignment,
    Assignor,
    Subscription,
    Topics,
    check,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.errors import DecodeError
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.client.errors import ConsumerError
from mockbroker.client.metadata import TopicPartition

BLOB_VERSION = 3
SMALLEST_ASSIGNMENT = 2  # bytes of the version field, with which every assignment begins
MAX_PARTITIONS = 100_000  # in one assignment; each gets a position, an OffsetFetch entry and a ListOffsets entry


def offered_protocols(
    assignors: Iterable[Assignor], topics: Sequence[str], owned: Sequence[TopicPartition], generation: int, rack: str
) -> list[JoinGroupRequest.Protocol]:
    """Return the protocols of a JoinGroup: each assignor's name with the encoded subscription.

    Args:
        assignors: Assignors in order of preference.
        topics: Names of the subscribed topics.
        owned: Partitions that the member owns; empty in the eager protocol.
        generation: Generation of the member; -1 if there is none.
        rack: Rack of the client; "" if there is none.
    """
    protocols = []
    for assignor in assignors:
        subscription = Subscription(topics, assignor.user_data(topics), owned, generation, rack or None)
        blob = encode_stored(write_subscription(subscription), BLOB_VERSION)
        protocols.append(JoinGroupRequest.Protocol(name=assignor.name, metadata=blob))
    return protocols


def subscriptions(members: Iterable[JoinGroupResponse.Member]) -> dict[str, Subscription]:
    """Return the subscriptions in a JoinGroup response, by member id.

    Raises: ConsumerError if a subscription cannot be decoded; the message contains the member id.
    """
    decoded = {}
    for member in members:
        try:
            blob, _ = decode_stored(ConsumerProtocolSubscription, member.metadata)
        except DecodeError as error:
            raise ConsumerError(f"invalid subscription of member {member.member_id!r}: {error}") from error
        decoded[member.member_id] = read_subscription(blob, member.group_instance_id)
    return decoded


def assign(
    assignor: Assignor, topics: Topics, members: Mapping[str, Subscription], protocol: str
) -> dict[str, Assignment]:
    """Return the assignment of each member, by member id. If the assignor omits a member, its assignment is empty.

    Args:
        assignor: The assignor.
        topics: Partitions by topic name.
        members: Subscriptions by member id.
        protocol: Rebalance protocol, eager or cooperative.

    Raises: AssignorError if a custom assignor returns an invalid assignment.
    """
    assignments = assignor.assign(topics, members)
    if CLIENT.get(assignor.name) is not type(assignor):  # Kafka's own assignors are not checked, as in Java
        check(assignments, topics, members, protocol)
    return {member_id: assignments.get(member_id, Assignment()) for member_id in members}


def encoded_assignments(assignments: Mapping[str, Assignment]) -> list[SyncGroupRequest.Assignment]:
    """Return the assignments of all members as elements of the leader's SyncGroup.

    ``assignments``: assignments by member id.
    """
    return [
        SyncGroupRequest.Assignment(
            member_id=member_id, assignment=encode_stored(write_assignment(share), BLOB_VERSION)
        )
        for member_id, share in assignments.items()
    ]


def decode_assignment(given: bytes) -> Assignment:
    """Return the assignment in a SyncGroup response. If ``given`` is empty, the assignment has no partitions.

    ``given``: the encoded assignment.

    Raises: ConsumerError if the bytes cannot be decoded, or for more than ``MAX_PARTITIONS`` partitions.
    """
    if not given:  # some leaders omit members without partitions
        return Assignment()
    if len(given) < SMALLEST_ASSIGNMENT:
        raise ConsumerError(
            f"the assignment ({len(given)} bytes) in the SyncGroup response is not a ConsumerProtocolAssignment"
        )
    try:
        blob, _ = decode_stored(ConsumerProtocolAssignment, given)
    except DecodeError as error:
        raise ConsumerError(f"the assignment in the SyncGroup response cannot be decoded: {error}") from error
    if (partitions := sum(len(topic.partitions) for topic in blob.assigned_partitions)) > MAX_PARTITIONS:
        raise ConsumerError(
            f"the group leader assigned {partitions:,} partitions, more than the maximum of {MAX_PARTITIONS:,}: "
            "add members to the group, or check its assignor"
        )
    return read_assignment(blob)
