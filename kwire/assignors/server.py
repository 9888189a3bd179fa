"""Input and output types of server-side assignors (KIP-848), and functions that several assignors use.

Source: PartitionAssignor, GroupSpec and SubscribedTopicDescriber of Kafka's group coordinator API.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import TypeVar
from uuid import UUID

from kwire.lazy_dataclass import dataclass

_Key = TypeVar("_Key", UUID, str)

Partitions = Mapping[UUID, int]  # topic id -> number of partitions
MemberAssignment = dict[UUID, list[int]]  # topic id -> partitions, ascending; never an empty list
GroupAssignment = dict[str, MemberAssignment]  # target assignment by member id, with every member


class AssignorError(ValueError):
    """The error for a group that cannot be assigned, for an invalid assignment, and for assignors that cannot be used.

    Assignors cannot be used if a name is unknown, if two have the same name, or if they have no common protocol.
    A consumer group (KIP-848) cannot be assigned if a member subscribes to a topic without metadata. In this case,
    Kafka answers UNKNOWN_SERVER_ERROR (-1).
    """


@dataclass(slots=True)  # created per member at each change of a group; frozen would take four times as long
class MemberSubscription:
    """The subscription and current assignment of a consumer group member, the input of a server-side assignor.

    Server-side assignors ignore racks.

    Attributes:
        topic_ids: topics that the member subscribes to.
        assigned: current target assignment: partition numbers by topic id. If a member has too many partitions,
            ``uniform`` keeps the first ones in this order.
        instance_id: group instance id of a static member; None for a dynamic member.
        rack_id: rack of the member; None for none.
    """

    topic_ids: Collection[UUID]
    assigned: Mapping[UUID, Collection[int]] = field(default_factory=dict)
    instance_id: str | None = None
    rack_id: str | None = None


Members = Mapping[str, MemberSubscription]  # the order decides ties; in a broker it is that of a HashMap


def is_homogeneous(members: Collection[MemberSubscription]) -> bool:
    """Return whether all members subscribe to the same topics."""
    topic_ids = next((member.topic_ids for member in members), ())
    expected = set(topic_ids)
    return all(  # the first two comparisons avoid hashing ids, which is slow
        member.topic_ids is topic_ids or member.topic_ids == topic_ids or set(member.topic_ids) == expected
        for member in members
    )


def numbers_by_key(pairs: Iterable[tuple[_Key, int]]) -> dict[_Key, list[int]]:
    """Group pairs of a key and a number, such as topic and partition, by key.

    Return the sorted numbers of each key; the keys are in ascending order.
    """
    numbers: dict[_Key, list[int]] = {}
    last: object = None
    listed: list[int] = []
    for key, number in pairs:
        if key is not last:  # most pairs follow one with the same key, and the hash of a UUID is slow
            last, listed = key, numbers.setdefault(key, [])
        listed.append(number)
    return {key: sorted(numbers[key]) for key in sorted(numbers)}


def partitions_of(topic_ids: Iterable[UUID], partitions: Partitions) -> dict[UUID, int]:
    """Return the number of partitions by topic id, in the order of ``topic_ids``.

    Raises: AssignorError for a topic without metadata.
    """
    try:
        return {topic_id: partitions[topic_id] for topic_id in topic_ids}
    except KeyError as missing:
        raise AssignorError(
            f"a member subscribes to topic {missing.args[0]}, which is not in the metadata"
        ) from missing
