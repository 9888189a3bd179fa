"""Random share groups over several rounds: members join, leave and change; topics are created, grow and are deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from kwire.assignors import GroupAssignment, MemberSubscription
from kwire.assignors.server import is_homogeneous
from kwire.java import map_order

MOST_ROUNDS = 6


@dataclass
class RandomShareGroup:
    """One group. The same seed gives the same group if the assignments are the same.

    Attributes:
        seed: The seed.
        partitions: Number of partitions by topic id.
        assignable: Partitions whose state is initialized, by topic id.
        topics: Topic ids to which each member subscribes, by member id.
        target: The latest target assignment.
    """

    seed: int
    partitions: dict[UUID, int] = field(default_factory=dict)
    assignable: dict[UUID, list[int]] = field(default_factory=dict)
    topics: dict[str, list[UUID]] = field(default_factory=dict)
    target: GroupAssignment = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._one_subscription = self._random.random() < 0.5
        self._most_members = self._random.choice([3, 8, 40])
        self._most_partitions = self._random.choice([2, 6, 40])

    def rounds(self) -> Iterator[dict[str, MemberSubscription]]:
        """Yield the members of each round, in the order of the coordinator's HashMap."""
        for _ in range(self._random.randint(2, MOST_ROUNDS)):
            self._change_topics()
            self._change_members()
            yield {
                member_id: MemberSubscription(
                    topic_ids=[topic for topic in self.topics[member_id] if topic in self.partitions],
                    assigned=self.target.get(member_id, {}),
                )
                for member_id in map_order(self.topics)
            }

    @property
    def homogeneous(self) -> bool:
        """Return whether all members subscribe to the same existing topics."""
        return is_homogeneous(
            [
                MemberSubscription([each for each in topics if each in self.partitions])
                for topics in self.topics.values()
            ]
        )

    def _change_topics(self) -> None:
        random = self._random
        while len(self.partitions) < 3 or random.random() < 0.3:
            self.partitions[UUID(int=random.getrandbits(128))] = random.randint(1, self._most_partitions)
        for topic in list(self.partitions):
            if random.random() < 0.1:
                self.partitions[topic] += random.randint(1, 4)
        if random.random() < 0.2:
            gone = random.choice(list(self.partitions))
            del self.partitions[gone]
            self.assignable.pop(gone, None)
        for topic, count in self.partitions.items():
            known = set(self.assignable.get(topic, []))
            self.assignable[topic] = [n for n in range(count) if n in known or random.random() < 0.9]

    def _change_members(self) -> None:
        random = self._random
        for member_id in list(self.topics):
            if random.random() < 0.25:
                del self.topics[member_id]
                self.target.pop(member_id, None)
        while not self.topics or (len(self.topics) < self._most_members and random.random() < 0.8):
            self.topics[f"member-{random.getrandbits(40):x}"] = []
        common = self._subscription()
        for member_id, topics in self.topics.items():
            if self._one_subscription:
                self.topics[member_id] = common
            elif not topics or random.random() < 0.2:
                self.topics[member_id] = self._subscription()

    def _subscription(self) -> list[UUID]:
        return self._random.sample(list(self.partitions), self._random.randint(1, len(self.partitions)))
