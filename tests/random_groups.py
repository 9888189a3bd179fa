"""Random classic groups over several generations, whose members have old, wrong and missing claims.

A topic is never recreated with fewer partitions: then Java throws or assigns a partition twice; ours does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from client_groups import Shares, as_read

from kwire.assignors import (
    Assignor,
    Partition,
    Subscription,
    TopicPartition,
    Topics,
    assignor,
    read_subscription,
    write_subscription,
)
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription

TOPIC_NAMES = ["orders", "payments", "t", "Aa", "BB", "\uff21", "\U0001f600", "a.b", "a-b", "Z_x"]
MEMBER_NAMES = ["consumer-g-{}", "{}", "\uff21{}", "\U0001f600{}", "rdkafka-{}-f1", "C{}"]
RACKS = ["a", "b", "c"]
MOST_ROUNDS = 5


@dataclass
class Member:
    """``owned`` and ``generation``: its latest assignment; a member that missed a rebalance has an older one."""

    assignor: Assignor
    topics: list[str]
    version: int
    instance_id: str | None
    rack_id: str | None
    owned: list[TopicPartition] = field(default_factory=list)
    generation: int = -1

    def subscription(self) -> bytes:
        """Return the subscription as in JoinGroup."""
        user_data = self.assignor.user_data(self.topics)
        subscription = Subscription(self.topics, user_data, self.owned, self.generation, self.rack_id)
        return encode_stored(write_subscription(subscription), self.version)

    def get(self, partitions: list[TopicPartition], generation: int) -> None:
        assignment = as_read(partitions)
        self.assignor.on_assignment(assignment, generation)
        self.owned, self.generation = list(assignment.partitions), generation


class RandomGroup:
    """One group. The same seed gives the same group if the assignments are the same."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self._random = random = Random(f"{name} {seed}")
        self._mixed = random.random() < 0.6
        self._with_racks = random.random() < 0.4
        self._wild = random.random() < 0.3  # members claim partitions of others
        self._versions = [3] if random.random() < 0.5 else [0, 1, 2, 3]
        self._racks: dict[str, list[list[str | None]]] = {}  # of the replicas of each partition of a topic
        self._deleted: dict[str, list[list[str | None]]] = {}
        self._members: dict[str, Member] = {}
        self.generation = random.choice([0, 0, 7])
        self._known = random.sample(TOPIC_NAMES, random.randint(0, 6)) + [
            f"topic-{random.randrange(1000)}" for _ in range(random.choice([0, 0, 2, 12]))
        ]
        for topic in self._known:
            self._grow(topic, random.choice([0, 1, 2, 3, 6, 12, 30]))
        self._join(random.choice([1, 2, 3, 5, 8, 13, 30]))

    @property
    def topics(self) -> Topics:
        return {topic: [Partition(racks) for racks in listed] for topic, listed in self._racks.items()}

    @property
    def racks(self) -> dict[str, list[list[str | None]]]:
        return self._racks

    def rounds(self) -> Iterator[dict[str, tuple[bytes, str | None]]]:
        """Yield subscription and instance id by member id. Each round starts from the arguments of ``finish``."""
        for number in range(self._random.randint(1, MOST_ROUNDS)):
            if number:
                self._change()
            self.generation += 1
            joined = list(self._members.items())
            self._random.shuffle(joined)
            yield {member_id: (member.subscription(), member.instance_id) for member_id, member in joined}

    def finish(self, shares: Shares) -> dict[str, bytes | None]:
        """Give members their shares, which some miss. Return the user data that each member would send next."""
        user_data: dict[str, bytes | None] = {}
        for member_id, member in self._members.items():
            fresh = assignor(self.name)
            fresh.on_assignment(as_read(shares[member_id]), self.generation)
            user_data[member_id] = fresh.user_data(member.topics)
            if self._random.random() < 0.85:
                member.get(self._claimed(shares, member_id), self.generation)
        return user_data

    def _claimed(self, shares: Shares, member_id: str) -> list[TopicPartition]:
        if self._wild and self._random.random() < 0.3:
            other = shares[self._random.choice(list(shares))]
            return [*shares[member_id], *(p for p in other if p not in shares[member_id])]
        return shares[member_id]

    def _change(self) -> None:
        random = self._random
        for member_id in list(self._members):
            if len(self._members) > 1 and random.random() < 0.2:
                del self._members[member_id]
        self._join(random.choice([0, 0, 1, 3]))
        for member in self._members.values():
            if self._mixed and random.random() < 0.2:
                member.topics = self._wanted()
        for topic in self._known:
            if random.random() < 0.1:
                self._grow(topic, random.choice([1, 5]))
        if self._racks and random.random() < 0.1:
            topic = random.choice(list(self._racks))
            self._deleted[topic] = self._racks.pop(topic)

    def _grow(self, topic: str, more: int) -> None:
        copies = self._random.choice([1, 2, 3])
        if topic in self._deleted:
            self._racks[topic] = self._deleted.pop(topic)
        at = [*RACKS, *([None] if self._random.random() < 0.1 else [])]
        for _ in range(more):
            racks: list[str | None] = [self._random.choice(at) for _ in range(copies)] if self._with_racks else []
            self._racks.setdefault(topic, []).append(racks)

    def _join(self, count: int) -> None:
        random = self._random
        for _ in range(count):
            member_id = random.choice(MEMBER_NAMES).format(random.randrange(200))
            self._members[member_id] = Member(
                assignor=assignor(self.name),
                topics=self._wanted(),
                version=random.choice(self._versions),
                instance_id=f"i{random.randrange(50)}" if random.random() < 0.2 else None,
                rack_id=random.choice([*RACKS, "", None]) if self._with_racks else None,
            )

    def _wanted(self) -> list[str]:
        every = [*self._known, *(["no-metadata"] if self._known and len(self._known) % 3 == 0 else [])]
        if not self._mixed:
            return every
        return self._random.sample(every, self._random.randint(0, len(every)))


def decoded(joined: dict[str, tuple[bytes, str | None]]) -> dict[str, Subscription]:
    """Return the members as the leader reads them."""
    return {
        member_id: read_subscription(decode_stored(ConsumerProtocolSubscription, data)[0], instance_id)
        for member_id, (data, instance_id) in joined.items()
    }
