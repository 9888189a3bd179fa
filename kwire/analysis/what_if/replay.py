"""The replay of an assignor over the history of a group. Each member keeps its assignor instance and its assignment
from one generation to the next.

This module does not depend on captures. The input is members and subscriptions; the output is assignments.
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

Shares = dict[str, list[TopicPartition]]  # partitions by member id, with every member

BY_BROKER = "consumer"  # rebalance kind of groups with a server-side assignor
NAMES = tuple(dict.fromkeys([*CLIENT, *SERVER]))
"""All assignors that can be replayed."""


class Replay(ABC):
    """The base class of replays: an assignor that runs over the history of one group.

    Attributes:
        kind: rebalance protocol of the assignor: ``eager``, ``cooperative``, or ``consumer`` for server-side
            assignment.
    """

    kind: str

    @abstractmethod
    def assign(
        self, members: Mapping[str, Subscription], topics: Topics, generation: int, informed: Collection[str]
    ) -> tuple[Shares, bool]:
        """Compute an assignment.

        Args:
            members: subscriptions by member id, in the order in which the assignor gets the members.
            topics: partitions of the subscribed topics, by topic.
            generation: generation of the assignment.
            informed: ids of the members that receive this assignment. A client-side assignor of any other member keeps
                the previous assignment of the member. A server-side assignor ignores this argument.

        Returns: the assignment by member id, and True if a follow-up rebalance is needed, because the assignor first
            had to revoke partitions.

        Raises: AssignorError if the assignor fails.
        """

    @abstractmethod
    def owns(self, shares: Mapping[str, Sequence[TopicPartition]], generation: int) -> None:
        """Set the current assignment of members to the captured assignment. Members not in ``shares`` do not change.

        Args:
            shares: partitions by member id.
            generation: generation of the assignment.
        """

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """Move the assignment of a static member from its old member id to its new member id."""


def replay_of(name: str, protocol: str, topic_id: Callable[[str], UUID | None]) -> Replay:
    """Return a replay of an assignor.

    Args:
        name: name of the assignor.
        protocol: protocol of the group, which selects between two assignors of the same name.
        topic_id: function that returns the id of a topic, or None for an unknown id. A server-side assignor then uses
            an id that is derived from the name.

    Raises: AssignorError for an unknown name.
    """
    if name not in NAMES:
        raise AssignorError(f"unknown assignor {name!r}: use one of {', '.join(NAMES)}")
    if name in SERVER and (name not in CLIENT or protocol == BY_BROKER):
        return _OfBroker(name, topic_id)
    return _OfMembers(name)


class _OfMembers(Replay):
    """The replay of a client-side assignor: each member has its own instance of the assignor.

    Args:
        name: name of the assignor.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._assignors: dict[str, Assignor] = {}
        self._held: dict[str, tuple[int, list[TopicPartition]]] = {}  # generation and assignment that a member received
        self.kind = assignors.common_protocol([assignors.assignor(name)])

    def assign(
        self, members: Mapping[str, Subscription], topics: Topics, generation: int, informed: Collection[str]
    ) -> tuple[Shares, bool]:
        subscriptions = {member: self._joining(member, subscription) for member, subscription in members.items()}
        leader = assignors.assignor(self._name)
        assignments = leader.assign(topics, subscriptions)
        assignors.check(assignments, topics, subscriptions, self.kind)
        shares = {member: list(assignments[member].partitions) for member in members}
        self.owns({member: share for member, share in shares.items() if member in informed}, generation)
        withheld = sum(map(len, topics.values())) - sum(map(len, shares.values()))
        return shares, self.kind == COOPERATIVE and withheld > 0

    def _joining(self, member: str, subscription: Subscription) -> Subscription:
        """Return the subscription that a member sends when it joins, with the user data of the assignor.

        With a cooperative assignor, the subscription also contains the partitions that the member owns in the replay.

        Args:
            member: member id.
            subscription: the subscription without owned partitions.
        """
        generation, held = self._held.get(member, (-1, []))
        owned = sorted(partition for partition in held if partition[0] in subscription.topics)
        data = self._of(member).user_data(subscription.topics)
        return replace(
            subscription, user_data=data, owned=owned if self.kind == COOPERATIVE else (), generation=generation
        )

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
    """The replay of a server-side assignor.

    Args:
        name: name of the assignor.
        topic_id: function that returns the id of a topic, or None for an unknown id.
    """

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
        informed: Collection[str],  # noqa: ARG002
    ) -> tuple[Shares, bool]:
        counts = {self._id(topic): len(partitions) for topic, partitions in topics.items()}
        subscriptions = {
            member: MemberSubscription(
                [self._id(topic) for topic in subscription.topics if topic in topics],
                self._target.get(member, {}),
                subscription.instance_id,
                subscription.rack_id,
            )
            for member, subscription in members.items()
        }
        homogeneous = len({frozenset(subscription.topics) for subscription in members.values()}) <= 1
        self._target = assignors.assign(self._name, subscriptions, counts, homogeneous=homogeneous)
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
        topic_id = self._known(topic) or uuid5(NAMESPACE_URL, topic)
        self._names[topic_id] = topic
        return topic_id
