"""An assignor over the history of a group: each member keeps its own, and remembers what that gave it.

Nothing here knows of captures: what comes is who is there and what they want, what goes out is who would have what.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from uuid import NAMESPACE_URL, UUID, uuid5

from kwire import assignors
from kwire.assignors import (
    CLIENT,
    COOPERATIVE,
    SERVER,
    Assignment,
    Assignor,
    AssignorError,
    GroupAssignment,
    MemberSubscription,
    Subscription,
    TopicPartition,
    Topics,
)

Shares = dict[str, list[TopicPartition]]  # by member id; every member is in it

BY_BROKER = "consumer"  # how groups rebalance whose broker assigns
NAMES = tuple(dict.fromkeys([*CLIENT, *SERVER]))
"""Every assignor that can be asked for."""


class Replay(ABC):
    """One group. ``kind``: how it rebalances: eager, cooperative or consumer."""

    kind: str

    @abstractmethod
    def assign(
        self, members: Mapping[str, Subscription], topics: Topics, generation: int, told: Collection[str]
    ) -> tuple[Shares, bool]:
        """What each gets, and whether there is more to give in a follow-up.

        ``members``: in their order; ``told``: those that hear of it; ``topics``: those that members subscribe to.
        Raises: AssignorError.
        """

    @abstractmethod
    def owns(self, shares: Mapping[str, Sequence[TopicPartition]], generation: int) -> None:
        """Begin with these shares."""

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """A static member is back under another id, with what it had."""


def replay_of(name: str, protocol: str, topic_id: Callable[[str], UUID | None]) -> Replay:
    """A replay through the assignor of this name; of two with one name, the one that is of groups of ``protocol``.

    ``topic_id``: of a topic, if it is known. Raises AssignorError, which lists those that there are.
    """
    if name not in NAMES:
        raise AssignorError(f"there is no assignor {name!r}, only {', '.join(NAMES)}")
    if name in SERVER and (name not in CLIENT or protocol == BY_BROKER):
        return _OfBroker(name, topic_id)
    return _OfMembers(name)


class _OfMembers(Replay):
    def __init__(self, name: str) -> None:
        self._name = name
        self._assignors: dict[str, Assignor] = {}
        self._held: dict[str, tuple[int, list[TopicPartition]]] = {}  # generation and share that a member knows of
        self.kind = assignors.common_protocol([assignors.assignor(name)])

    def assign(
        self, members: Mapping[str, Subscription], topics: Topics, generation: int, told: Collection[str]
    ) -> tuple[Shares, bool]:
        said = {member: self._said(member, wanted) for member, wanted in members.items()}
        leader = assignors.assignor(self._name)
        found = leader.assign(topics, said)
        assignors.check(found, topics, said, self.kind)
        shares = {member: list(found[member].partitions) for member in members}
        self.owns({member: share for member, share in shares.items() if member in told}, generation)
        withheld = sum(map(len, topics.values())) - sum(map(len, shares.values()))
        return shares, self.kind == COOPERATIVE and withheld > 0

    def _said(self, member: str, wanted: Subscription) -> Subscription:
        """What the member joins with; of what it has, members that give up everything say nothing."""
        generation, held = self._held.get(member, (-1, []))
        owned = sorted(partition for partition in held if partition[0] in wanted.topics)
        data = self._of(member).user_data(wanted.topics)
        return replace(wanted, user_data=data, owned=owned if self.kind == COOPERATIVE else (), generation=generation)

    def _of(self, member: str) -> Assignor:
        if member not in self._assignors:
            self._assignors[member] = assignors.assignor(self._name)
        return self._assignors[member]

    def owns(self, shares: Mapping[str, Sequence[TopicPartition]], generation: int) -> None:
        for member, share in shares.items():
            self._held[member] = generation, list(share)
            self._of(member).on_assignment(Assignment(list(share)), generation)

    def rename(self, old: str, new: str) -> None:
        if old in self._held:
            generation, held = self._held[old]
            self.owns({new: held}, generation)


class _OfBroker(Replay):
    kind = BY_BROKER

    def __init__(self, name: str, topic_id: Callable[[str], UUID | None]) -> None:
        self._name = name
        self._known = topic_id
        self._names: dict[UUID, str] = {}
        self._target: GroupAssignment = {}

    def assign(
        self,
        members: Mapping[str, Subscription],
        topics: Topics,
        generation: int,  # noqa: ARG002
        told: Collection[str],  # noqa: ARG002
    ) -> tuple[Shares, bool]:
        counts = {self._id(topic): len(partitions) for topic, partitions in topics.items()}
        said = {
            member: MemberSubscription(
                [self._id(topic) for topic in wanted.topics if topic in topics],
                self._target.get(member, {}),
                wanted.instance_id,
                wanted.rack_id,
            )
            for member, wanted in members.items()
        }
        alike = len({frozenset(wanted.topics) for wanted in members.values()}) <= 1
        self._target = assignors.assign(self._name, said, counts, alike=alike)
        return {
            member: [(self._names[topic], number) for topic, numbers in share.items() for number in numbers]
            for member, share in self._target.items()
        }, False

    def owns(self, shares: Mapping[str, Sequence[TopicPartition]], generation: int) -> None:  # noqa: ARG002
        for member, share in shares.items():
            target = self._target[member] = {}
            for topic, number in sorted(share):
                target.setdefault(self._id(topic), []).append(number)

    def rename(self, old: str, new: str) -> None:
        self._target[new] = self._target.pop(old, {})

    def _id(self, topic: str) -> UUID:
        found = self._known(topic) or uuid5(NAMESPACE_URL, topic)
        self._names[found] = topic
        return found
