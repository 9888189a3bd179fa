"""What the sticky assignors make of what members say they owned: who owns what, and who did.

Source: AbstractStickyAssignor of kafka-clients, allSubscriptionsEqual and prepopulateCurrentAssignments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from kwire.assignors.client import UNKNOWN_GENERATION, Subscription, TopicPartition, Topics


@dataclass(frozen=True, slots=True)
class Claim:
    """What a member says it owned, and in which generation; None if it does not say so."""

    partitions: Sequence[TopicPartition] = ()
    generation: int | None = None


@dataclass(slots=True)
class Ownership:
    """``owned``: by member id; ``disputed``: claimed by two in one generation; ``newest``: the highest generation."""

    owned: dict[str, list[TopicPartition]] = field(default_factory=dict)
    disputed: set[TopicPartition] = field(default_factory=set)
    newest: int = UNKNOWN_GENERATION


def owned_now(topics: Topics, members: Sequence[tuple[str, Subscription]], claims: Mapping[str, Claim]) -> Ownership:
    """Members, walked, own what they claim, where it exists; of two claims the one of the higher generation counts.

    What both claim in one generation is nobody's. The generation of the earlier claim is read from the subscription and
    not from the claim, as in Java. Unlike Java, a partition that is no more is not owned.
    """
    found = Ownership()
    owners: dict[TopicPartition, str] = {}
    stated = {member_id: member.generation for member_id, member in members}
    for member_id, _ in members:
        claim = claims[member_id]
        generation = UNKNOWN_GENERATION if claim.generation is None else claim.generation
        found.newest = max(found.newest, generation)
        owned = found.owned[member_id] = []
        for partition in claim.partitions:
            if not 0 <= partition[1] < len(topics.get(partition[0], ())):
                continue
            other = owners.get(partition)
            if other is not None:
                rival = max(stated[other], UNKNOWN_GENERATION)
                if generation < rival:
                    continue
                with suppress(ValueError):
                    found.owned[other].remove(partition)
                if generation == rival:
                    found.disputed.add(partition)
                    owners[partition] = member_id
                    continue
            owned.append(partition)
            owners[partition] = member_id
    return found


def owners_before(
    members: Iterable[tuple[str, Subscription]], claims: Mapping[str, Claim], newest: int
) -> dict[TopicPartition, str]:
    """Who owned a partition last among those that missed the newest generation."""
    found: dict[TopicPartition, tuple[str, int]] = {}
    for member_id, _ in members:
        claim = claims[member_id]
        generation = UNKNOWN_GENERATION if claim.generation is None else claim.generation
        if generation < newest:
            for partition in claim.partitions:
                if partition not in found or generation > found[partition][1]:
                    found[partition] = member_id, generation
    return {partition: member_id for partition, (member_id, _) in found.items()}


def alike(members: Iterable[tuple[str, Subscription]]) -> bool:
    """Whether all subscribe to the same topics; those who come before the first with topics count as the same."""
    first: set[str] = set()
    for _, member in members:
        if not first:
            first = set(member.topics)
        elif len(member.topics) != len(first) or not first.issuperset(member.topics):
            return False
    return True
