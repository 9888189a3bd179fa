"""Random histories of groups, as the calls of a capture. The assignments are those of kwire's assignors."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from tools.handmade_calls import GROUP, CallLog

from kwire import assignors
from kwire.assignors import COOPERATIVE, Assignment, Assignor, MemberSubscription, Subscription, TopicPartition
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.java import map_order
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

COUNTS = {"cake": 1, "milk": 5, "scone": 8, "tea": 3}
IDS = {topic: UUID(int=7 << 64 | 1_000_003 * n + 5) for n, topic in enumerate(COUNTS)}
STEP = 1000.0  # ms between two changes
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(slots=True)
class Member:
    """A member of a classic group. ``instance``: instance id of a static member."""

    topics: list[str]
    assignor: Assignor
    instance: str | None = None
    owned: list[TopicPartition] = field(default_factory=list)
    generation: int = -1

    def assigned(self, share: list[TopicPartition], generation: int) -> None:
        """Record an assignment of a generation."""
        self.owned, self.generation = share, generation
        self.assignor.on_assignment(Assignment(share), generation)


class History:
    """A classic group whose members all use one assignor."""

    def __init__(self, name: str, random: Random) -> None:
        self.log = CallLog()
        self.name = name
        self.random = random
        self.cooperative = assignors.common_protocol([assignors.assignor(name)]) == COOPERATIVE
        self.members: dict[str, Member] = {}
        self.left: list[str] = []
        self.generation = 0
        self.now = 0.0
        self.known = 0

    def play(self, steps: int) -> CallLog:
        """Make ``steps`` changes of the group, each with its rebalances; return all calls."""
        for number in range(steps):
            self.now = number * STEP
            restarts = [m for m, one in list(self.members.items())[1:] if one.instance]
            choice = self.random.random()
            if choice < 0.25 and len(self.members) > 1:
                self._leave(self.random.choice(list(self.members)))
            elif choice < 0.4 and restarts:
                self._restart(self.random.choice(restarts))
                continue
            elif choice < 0.55 and self.members:
                self.random.choice(list(self.members.values())).topics = self._topics()
            else:
                self._come()
            self._rebalance(first=next(iter(self.members)))
        return self.log

    def _topics(self) -> list[str]:
        return sorted(self.random.sample(list(COUNTS), self.random.randint(1, len(COUNTS))))

    def _new_id(self) -> str:
        self.known += 1
        return "".join(self.random.sample(LETTERS, 6)) + f"-{self.known}"

    def _come(self) -> None:
        instance = f"i{self.known}" if self.random.random() < 0.4 else None
        self.members[self._new_id()] = Member(self._topics(), assignors.assignor(self.name), instance)

    def _leave(self, member_id: str) -> None:
        self.log.leave(member_id, self.now)
        del self.members[member_id]

    def _restart(self, old: str) -> None:
        """Let a static member return at once with another member id and its former assignment."""
        new = self._new_id()
        before = self.members[old]
        after = Member(before.topics, assignors.assignor(self.name), before.instance)
        self.members = {new if member == old else member: one for member, one in self.members.items()}
        self.members[new] = after
        self._join(new, self.now + 10, took=1)
        self.log.sync(new, self.now + 20, self.generation, names(before.owned))
        after.assigned(before.owned, self.generation)

    def _subscription(self, member_id: str) -> Subscription:
        member = self.members[member_id]
        owned = sorted(partition for partition in member.owned if partition[0] in member.topics)
        return Subscription(
            member.topics,
            user_data=member.assignor.user_data(member.topics),
            owned=owned if self.cooperative else (),
            generation=member.generation,
            instance_id=member.instance,
        )

    def _join(self, member_id: str, at: float, *listed: str, took: float) -> None:
        blobs = {one: self._blob(one) for one in (member_id, *listed)}
        more: dict[str, Any] = {"protocol": self.name, "instance": self.members[member_id].instance}
        self.log.join(member_id, at, self.generation, *listed, took=took, **more)
        call = self.log.calls[-1]
        call.request.protocols[0].metadata = blobs[member_id]
        call.response.leader = next(iter(self.members))
        for one in call.response.members:
            one.metadata, one.group_instance_id = blobs[one.member_id], self.members[one.member_id].instance

    def _blob(self, member_id: str) -> bytes:
        blob: ConsumerProtocolSubscription = assignors.write_subscription(self._subscription(member_id))
        return encode_stored(blob, 2)

    def _rebalance(self, first: str) -> None:
        """Let all members join, ``first`` before the others, and sync with the leader's assignment."""
        self.generation += 1
        leader, *others = self.members
        done = self.now + 200
        join_times = {member: self.now + 10 + (member != first) * self.random.randint(1, 90) for member in self.members}
        self.log.metadata(leader, self.now + 5, COUNTS)
        for member in self.members:
            listed = [leader, *others] if member == leader else []
            self._join(member, join_times[member], *listed, took=done + self.random.randint(0, 9) - join_times[member])
        subscriptions = {member: self._subscription(member) for member in self.members}
        topics = assignors.without_racks(
            {t: n for t, n in COUNTS.items() if any(t in one.topics for one in subscriptions.values())}
        )
        made = self.members[leader].assignor.assign(topics, subscriptions)
        shares = {member: list(made[member].partitions) for member in self.members}
        plan = {member: names(share) for member, share in shares.items()}
        for member in self.members:
            more: dict[str, Any] = {"plan": plan} if member == leader else {}
            took = self.random.randint(5, 60)
            self.log.sync(member, done + 20 + (member != leader), self.generation, plan[member], took=took, **more)
        gave_up = [m for m, one in self.members.items() if {*subscriptions[m].owned} - {*shares[m]}]
        for member, share in shares.items():
            self.members[member].assigned(share, self.generation)
        if self.cooperative and gave_up:
            self.now += 300
            self._rebalance(first=gave_up[0])


def names(share: list[TopicPartition]) -> list[str]:
    """Return partitions as texts such as ``tea-0``."""
    return [f"{topic}-{number}" for topic, number in share]


def history(name: str, seed: int, steps: int) -> CallLog:
    """Return the calls of a classic group whose members use an assignor."""
    return History(name, Random(seed)).play(steps)


class BrokerHistory:
    """A KIP-848 group whose members receive a complete assignment in heartbeats before the next change.

    The member ``watch``, which subscribes to no topic, gets each epoch first. Otherwise partitions that other members
    revoke in the previous epoch would count for the wrong epoch. With ``alike``, all members subscribe to all topics,
    and a joining member gets the epoch first.
    """

    def __init__(self, name: str, random: Random, *, alike: bool) -> None:
        self.alike = alike
        self.log = CallLog()
        self.name = name
        self.random = random
        self.members: dict[str, MemberSubscription] = {}
        self.topics: dict[str, list[str]] = {}
        self.held: dict[str, set[TopicPartition]] = {}
        self.target: assignors.GroupAssignment = {}
        self.most = 0  # maximum number of members at one time
        self.epoch = 0
        self.now = 0.0
        self.known = 0

    def play(self, steps: int) -> CallLog:
        """Make ``steps`` changes of the group, each with its epoch; return all calls."""
        self.log.metadata("admin", 1, COUNTS)
        for topic in self.log.calls[0].response.topics:
            topic.topic_id = IDS[topic.name]
        if not self.alike:
            self.epoch = 1
            self._come("watch", None, [])
            self._reconcile()
        for number in range(steps):
            self.now = 100 + number * STEP
            restarts = [member for member, one in self.members.items() if one.instance_id]
            choice = self.random.random()
            self.epoch += 1
            others = [member for member in self.members if member != "watch"]
            if choice < 0.25 and len(others) > self.alike:
                self._leave(self.random.choice(others))
            elif choice < 0.4 and restarts:
                self.epoch -= 1
                self._restart(self.random.choice(restarts))
                continue
            elif choice < 0.55 and others and not self.alike:
                self._subscribe(self.random.choice(others))
            else:
                instance = f"i{self.known}" if self.random.random() < 0.4 else None
                self._come(self._new_id(), instance, self._topics())
            self._reconcile()
        return self.log

    def _topics(self) -> list[str]:
        if self.alike:
            return sorted(COUNTS)
        return sorted(self.random.sample(list(COUNTS), self.random.randint(1, len(COUNTS))))

    def _new_id(self) -> str:
        self.known += 1
        return "".join(self.random.sample(LETTERS, 6)) + f"-{self.known}"

    def _come(self, member_id: str, instance: str | None, topics: list[str]) -> None:
        self.members[member_id] = MemberSubscription([IDS[topic] for topic in topics], instance_id=instance)
        self.topics[member_id], self.held[member_id] = topics, set()
        self._beat(member_id, 0, self.epoch, topics=topics, assigned=set())

    def _leave(self, member_id: str, epoch: int = -1) -> None:
        self._beat(member_id, epoch, epoch)
        del self.members[member_id], self.topics[member_id], self.held[member_id]

    def _subscribe(self, member_id: str) -> None:
        topics = self._topics()
        self.members[member_id] = MemberSubscription(
            [IDS[topic] for topic in topics], instance_id=self.members[member_id].instance_id
        )
        self.topics[member_id] = topics
        self._beat(member_id, self.epoch - 1, self.epoch - 1, topics=topics)

    def _restart(self, old: str) -> None:
        """Let a static member leave with epoch -2, and join again with a new member id."""
        new, instance, topics = self._new_id(), self.members[old].instance_id, self.topics[old]
        self.target[new] = self.target.pop(old)
        self._leave(old, -2)
        self._come(new, instance, topics)
        self._tell(new)

    def _reconcile(self) -> None:
        self.most = max(self.most, len(self.members))
        listed = map_order(self.members, self.most)
        for member, one in self.members.items():
            one.assigned = self.target.get(member, {})
        alike = len({tuple(topics) for topics in self.topics.values()}) == 1
        counts = {IDS[topic]: count for topic, count in COUNTS.items()}
        self.target = assignors.assign(
            self.name, {member: self.members[member] for member in listed}, counts, homogeneous=alike
        )
        for member in self.members:
            kept = self.held[member] & self._wanted(member)
            if kept != self.held[member]:
                self._beat(member, self.epoch - 1, self.epoch - 1, assigned=kept)
                self.held[member] = kept
            self._beat(member, self.epoch - 1, self.epoch, owned=kept)
        for member in self.members:
            self._tell(member)

    def _tell(self, member_id: str) -> None:
        self.held[member_id] = self._wanted(member_id)
        self._beat(member_id, self.epoch, self.epoch, assigned=self.held[member_id])

    def _wanted(self, member_id: str) -> set[TopicPartition]:
        names = {topic_id: topic for topic, topic_id in IDS.items()}
        return {(names[topic], n) for topic, numbers in self.target[member_id].items() for n in numbers}

    def _beat(
        self,
        member_id: str,
        epoch: int,
        answer: int,
        *,
        topics: list[str] | None = None,
        owned: set[TopicPartition] | None = None,
        assigned: set[TopicPartition] | None = None,
    ) -> None:
        instance = self.members[member_id].instance_id
        mine, share = ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse.Assignment
        request = mine(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            subscribed_topic_names=topics,
            topic_partitions=None if owned is None else [mine.TopicPartition(**one) for one in by_id(owned)],
        )
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=answer,
            heartbeat_interval_ms=round(2 * STEP),
            assignment=None
            if assigned is None
            else share(topic_partitions=[share.TopicPartition(**one) for one in by_id(assigned)]),
        )
        self.now += self.random.randint(3, 20)
        self.log.call(member_id, self.now, request, response, 1)


def by_id(partitions: set[TopicPartition]) -> list[dict[str, Any]]:
    """Return partitions as the fields of a heartbeat, by topic id."""
    indexes: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        indexes.setdefault(topic, []).append(number)
    return [{"topic_id": IDS[topic], "partitions": numbers} for topic, numbers in indexes.items()]


def broker_history(name: str, seed: int, steps: int, *, alike: bool = False) -> CallLog:
    """Return the calls of a KIP-848 group whose broker uses an assignor."""
    return BrokerHistory(name, Random(seed), alike=alike).play(steps)
