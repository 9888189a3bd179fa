"""What members of a classic group tell each other through the coordinator, which reads none of it: subscriptions to the
leader, and what each of them gets.
"""

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
SMALLEST_ASSIGNMENT = 2  # bytes: its version


def offers(
    assignors: Iterable[Assignor], topics: Sequence[str], owned: Sequence[TopicPartition], generation: int, rack: str
) -> list[JoinGroupRequest.Protocol]:
    """A subscription for each assignor of a member, in its order of preference."""
    found = []
    for assignor in assignors:
        subscription = Subscription(topics, assignor.user_data(topics), owned, generation, rack or None)
        blob = encode_stored(write_subscription(subscription), BLOB_VERSION)
        found.append(JoinGroupRequest.Protocol(name=assignor.name, metadata=blob))
    return found


def subscriptions(members: Iterable[JoinGroupResponse.Member]) -> dict[str, Subscription]:
    """By member id, as the leader is told. Raises: ConsumerError, which names the member."""
    found = {}
    for member in members:
        try:
            blob, _ = decode_stored(ConsumerProtocolSubscription, member.metadata)
        except DecodeError as error:
            raise ConsumerError(f"the subscription of {member.member_id!r} cannot be read: {error}") from error
        found[member.member_id] = read_subscription(blob, member.group_instance_id)
    return found


def shared_out(
    assignor: Assignor, topics: Topics, members: Mapping[str, Subscription], protocol: str
) -> dict[str, Assignment]:
    """What each member gets. Raises: AssignorError, with member and partition, for nonsense of the user's own."""
    shares = assignor.assign(topics, members)
    if CLIENT.get(assignor.name) is not type(assignor):  # Kafka's own are taken at their word, as Java takes them
        check(shares, topics, members, protocol)
    return {member_id: shares.get(member_id, Assignment()) for member_id in members}


def written(shares: Mapping[str, Assignment]) -> list[SyncGroupRequest.Assignment]:
    """As the leader's SyncGroup has them."""
    return [
        SyncGroupRequest.Assignment(
            member_id=member_id, assignment=encode_stored(write_assignment(share), BLOB_VERSION)
        )
        for member_id, share in shares.items()
    ]


def read_share(given: bytes) -> Assignment:
    """What a SyncGroup answered; nothing at all is nothing. Raises: ConsumerError."""
    if not given:  # some leaders send nothing to members that get nothing
        return Assignment()
    if len(given) < SMALLEST_ASSIGNMENT:
        raise ConsumerError(f"an assignment of {len(given)} bytes is none")
    try:
        blob, _ = decode_stored(ConsumerProtocolAssignment, given)
    except DecodeError as error:
        raise ConsumerError(f"the assignment cannot be read: {error}") from error
    return read_assignment(blob)
