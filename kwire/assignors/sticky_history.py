"""Previous owners of partitions for the sticky assignors, from the claims of members.

Source: allSubscriptionsEqual and prepopulateCurrentAssignments of AbstractStickyAssignor in kafka-clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field

from kwire.assignors.client import UNKNOWN_GENERATION, Subscription, TopicPartition, Topics
from kwire.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """The partitions that a member reports as owned.

    Attributes:
        partitions: the partitions, as pairs of topic and partition number.
        generation: generation in which the member owned them; None if the member does not report one.
    """

    partitions: Sequence[TopicPartition] = ()
    generation: int | None = None


@dataclass(slots=True)
class Ownership:
    """The partitions that members own according to their accepted claims.

    Attributes:
        owned: partitions by member id.
        disputed: partitions that two members claim in the same generation.
        newest: highest generation of all claims.
    """

    owned: dict[str, list[TopicPartition]] = field(default_factory=dict)
    disputed: set[TopicPartition] = field(default_factory=set)
    newest: int = UNKNOWN_GENERATION


def owned_now(topics: Topics, members: Sequence[tuple[str, Subscription]], claims: Mapping[str, Claim]) -> Ownership:
    """Decide which claims to partitions are accepted; return the resulting owners.

    Members are processed in order. A claim to a partition that does not exist is not accepted; Java accepts it. If two
    members claim a partition, the member with the higher generation owns it. If both generations are equal, the
    partition is disputed and has no owner. In this comparison, the later member has the generation of its claim, and
    the earlier member has the generation in its subscription, as in Java.

    Args:
        topics: racks of the partitions by topic name, for the existing topics.
        members: member ids with their subscriptions, in the order of processing.
        claims: claimed partitions and generation of each member, by member id.
    """
    ownership = Ownership()
    owners: dict[TopicPartition, str] = {}
    stated = {member_id: member.generation for member_id, member in members}
    for member_id, _ in members:
        claim = claims[member_id]
        generation = UNKNOWN_GENERATION if claim.generation is None else claim.generation
        ownership.newest = max(ownership.newest, generation)
        owned = ownership.owned[member_id] = []
        for partition in claim.partitions:
            if not 0 <= partition[1] < len(topics.get(partition[0], ())):
                continue
            other = owners.get(partition)
            if other is not None:
                rival = max(stated[other], UNKNOWN_GENERATION)
                if generation < rival:
                    continue
                with suppress(ValueError):
                    ownership.owned[other].remove(partition)
                if generation == rival:
                    ownership.disputed.add(partition)
                    owners[partition] = member_id
                    continue
            owned.append(partition)
            owners[partition] = member_id
    return ownership


def owners_before(
    members: Iterable[tuple[str, Subscription]], claims: Mapping[str, Claim], newest: int
) -> dict[TopicPartition, str]:
    """Return the last owner of each partition in older generations: only claims older than ``newest`` count.

    Args:
        members: member ids with their subscriptions.
        claims: claim of each member, by member id.
        newest: highest generation of all claims.
    """
    owners: dict[TopicPartition, tuple[str, int]] = {}
    for member_id, _ in members:
        claim = claims[member_id]
        generation = UNKNOWN_GENERATION if claim.generation is None else claim.generation
        if generation < newest:
            for partition in claim.partitions:
                if partition not in owners or generation > owners[partition][1]:
                    owners[partition] = member_id, generation
    return {partition: member_id for partition, (member_id, _) in owners.items()}


def subscribe_to_same_topics(members: Iterable[tuple[str, Subscription]]) -> bool:
    """Return True if all members subscribe to the same topics.

    As in Java, a member without topics is ignored if it precedes the first member with topics.
    """
    first: set[str] = set()
    for _, member in members:
        if not first:
            first = set(member.topics)
        elif len(member.topics) != len(first) or not first.issuperset(member.topics):
            return False
    return True
