"""What an assignor of the broker is given and gives (KIP-848), and what both assignors ask of it.

Source: PartitionAssignor, GroupSpec and SubscribedTopicDescriber of Kafka's group coordinator API.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

Partitions = Mapping[UUID, int]  # topic id -> number of partitions
MemberAssignment = dict[UUID, list[int]]  # topic id -> partitions, ascending; never an empty list
GroupAssignment = dict[str, MemberAssignment]  # member id -> what it should own; every member is in it


class AssignorError(ValueError):
    """A group that cannot be assigned, an assignment that cannot be, or an assignor that is not there.

    A member of a group of the new protocol that subscribes to a topic without metadata is the first; Kafka then answers
    UNKNOWN_SERVER_ERROR (-1).
    """


@dataclass(slots=True)  # made for every member at each change of a group: frozen, that would take four times as long
class MemberSubscription:
    """A member: topics it subscribes to and the target assignment so far.

    Of what it keeps, uniform takes first what ``assigned`` iterates first: topics, then partitions within them.
    Neither assignor of the broker looks at racks.
    """

    topic_ids: Collection[UUID]
    assigned: Mapping[UUID, Collection[int]] = field(default_factory=dict)
    instance_id: str | None = None
    rack_id: str | None = None


Members = Mapping[str, MemberSubscription]  # in the order in which ties are decided; a broker's is that of a HashMap


def subscribed_alike(members: Collection[MemberSubscription]) -> bool:
    """True if all members subscribe to the same topics."""
    topic_ids = next((member.topic_ids for member in members), ())
    wanted = set(topic_ids)
    return all(  # the first two tests spare hashes of ids, which cost most
        member.topic_ids is topic_ids or member.topic_ids == topic_ids or set(member.topic_ids) == wanted
        for member in members
    )


def partitions_of(topic_ids: Iterable[UUID], partitions: Partitions) -> dict[UUID, int]:
    """The numbers of partitions of subscribed topics, in their order; raises AssignorError for one without."""
    try:
        return {topic_id: partitions[topic_id] for topic_id in topic_ids}
    except KeyError as missing:
        raise AssignorError(f"members subscribe to topic {missing}, which is not in the metadata") from missing
