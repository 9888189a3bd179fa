"""A group of the consumer rebalance protocol (KIP-848) and its members: data, and what follows from it.

Members are values: a change is a new member put in the place of the old one, so a request that is refused half-way has
changed nothing.
Source: Kafka's ConsumerGroup, ConsumerGroupMember and ModernGroup (4.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import ClassVar, TypeAlias
from uuid import UUID

from kwire.assignors import GroupAssignment, MemberAssignment
from kwire.java import map_order
from mockbroker.base.deadlines import Deadlines
from mockbroker.groups.coordinated import CoordinatedGroup, Wait
from mockbroker.groups.offsets import Offsets
from mockbroker.topics.model import Cluster

CONSUMER = "consumer"
STATES = EMPTY, ASSIGNING, RECONCILING, STABLE = "Empty", "Assigning", "Reconciling", "Stable"
TopicPartition: TypeAlias = tuple[UUID, int]
Share: TypeAlias = frozenset[TopicPartition]
NOTHING: Share = frozenset()
FREE = -1  # the epoch of a partition that nobody has
JOINING, LEAVING, AWAY = 0, -1, -2  # member epochs that say something; AWAY: a static member that will be back

REGEX: Wait = ("regex", "")


def by_topic(share: Share) -> MemberAssignment:
    """A share as assignors have it: partitions in order, by topic."""
    found: MemberAssignment = {}
    for topic_id, index in sorted(share):
        found.setdefault(topic_id, []).append(index)
    return found


def rebalance_of(member_id: str) -> Wait:
    """How long a member may take to give up what it must."""
    return ("rebalance", member_id)


def join_of(member_id: str) -> Wait:
    """How long a member of the classic protocol may take to join again."""
    return ("join", member_id)


def sync_of(member_id: str) -> Wait:
    """How long a member of the classic protocol may take to ask for its share."""
    return ("sync", member_id)


class MemberState(Enum):
    """How far a member is on its way to its target; numbered as in Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """What a member of the classic protocol said when it joined. ``session_timeout``: seconds."""

    session_timeout: float
    protocols: Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """``topics``: subscribed by name; ``regex``: and by expression, "" for none. ``rebalance_timeout``: seconds.

    ``classic``: set while the member speaks the classic protocol (KIP-848, online migration).
    ``assigned``: what it may read now; ``revoking``: what it was told to give up and has not yet.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: float = -1.0
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    classic: ClassicSide | None = None
    epoch: int = JOINING
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Share = NOTHING
    revoking: Share = NOTHING

    def reached(self, assignment_epoch: int) -> bool:
        """True if the member has all of its target, and nothing else."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch


@dataclass(frozen=True, slots=True)
class Resolved:
    """The topics that an expression matched at ``at`` (seconds), among the topics of ``version`` of the cluster."""

    topics: frozenset[str]
    version: int
    at: float


@dataclass(slots=True, kw_only=True)
class ConsumerGroup(CoordinatedGroup):
    """``epoch``: bumped when the target must be made anew; ``assignment_epoch``: for which it was made last.

    ``target``: by member id, what each shall have; ``owners``: the epoch of whoever has a partition or has not given
    it up. ``static``: instance id to member id; a name that a member had before it took another stays, as at Kafka.
    ``resolved``: expressions and what they matched, changed by ``resolve`` and ``unresolve``; ``matched``: how many of
    them match a topic; ``unresolved``: those that are still to be matched with the topics, since ``resolving``, and
    whether one matched others than before. ``alike``: all members subscribed to the same names when a member
    was last put in or taken out, or topics were looked at.
    ``metadata``: subscribed topics that are there, with id and number of partitions, as they were when looked at last;
    ``version``: of the cluster then; ``refresh_at``: when to look again at the latest.
    """

    type_name: ClassVar[str] = CONSUMER
    TRANSIENT: ClassVar[frozenset[str]] = frozenset(
        {
            "static",
            "owners",
            "matched",
            "unresolved",
            "resolving",
            "rematched",
            "version",
            "refresh_at",
            "most_members",
            "names",
            "regexes",
            "assignors",
            "classic_members",
            "alike",
            "waits",
            "offsets",
        }
    )
    group_id: str
    epoch: int = 0
    assignment_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)  # pyright: ignore[reportIncompatibleMethodOverride]
    static: dict[str, str] = field(default_factory=dict)
    target: GroupAssignment = field(default_factory=dict)
    owners: dict[TopicPartition, int] = field(default_factory=dict)
    resolved: dict[str, Resolved] = field(default_factory=dict)
    matched: Counter[str] = field(default_factory=Counter)
    unresolved: list[str] = field(default_factory=list)
    resolving: float = -inf
    rematched: bool = False
    metadata: Mapping[str, tuple[UUID, int]] = field(default_factory=dict)
    version: int = -1
    refresh_at: float = inf
    most_members: int = 0
    names: Counter[str] = field(default_factory=Counter)
    regexes: Counter[str] = field(default_factory=Counter)
    assignors: Counter[str] = field(default_factory=Counter)
    classic_members: int = 0
    alike: bool = True
    waits: Deadlines[Wait] = field(default_factory=Deadlines)
    offsets: Offsets = field(default_factory=Offsets)

    # --- what is told of it ---

    @property
    def state_name(self) -> str:
        """As tools know it. Source: Kafka's ConsumerGroup.ConsumerGroupState."""
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        settled = all(member.reached(self.assignment_epoch) for member in self.members.values())
        return STABLE if settled else RECONCILING

    @property
    def generation(self) -> int:
        """The epoch of the group."""
        return self.epoch

    @property
    def protocol_type(self) -> str:
        """Always ``consumer``."""
        return CONSUMER

    def in_map_order(self) -> list[ConsumerMember]:
        """Members as Kafka's coordinator iterates them."""
        return [self.members[member_id] for member_id in map_order(self.members, self.most_members)]

    def preferred_assignor(self, default: str) -> str:
        """The one that most members ask for, ties by HashMap order; the default if none asks."""
        names = map_order(self.assignors)
        return max(names, key=lambda name: self.assignors[name]) if names else default

    def supports(self, names: Iterable[str]) -> bool:
        """True if all members of the classic protocol offer one of these protocol names."""
        offered = [{name for name, _ in side.protocols} for side in self._classic_sides()]
        return any(all(name in theirs for theirs in offered) for name in names)

    def _classic_sides(self) -> list[ClassicSide]:
        return [member.classic for member in self.members.values() if member.classic is not None]

    # --- subscriptions ---

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Names that a member reads; an expression that is not resolved yet matches nothing."""
        resolved = self.resolved.get(member.regex) if member.regex else None
        if resolved is None:
            return member.topics
        return member.topics | resolved.topics if member.topics else resolved.topics  # the very set that others have

    def ids_of(self, member: ConsumerMember, cluster: Cluster) -> frozenset[UUID]:
        """Ids of the topics that a member reads, of those that are there."""
        found = (cluster.topics.get(name) for name in self.topics_of(member))
        return frozenset(topic.topic_id for topic in found if topic is not None)

    def reads(self, topic: str) -> bool:
        """True if some member subscribes to the topic, by name or by expression."""
        return topic in self.names or topic in self.matched

    def subscribed(self) -> set[str]:
        """Names that anybody reads."""
        return self.names.keys() | self.matched.keys()

    def seen_in(self, cluster: Cluster) -> Mapping[str, tuple[UUID, int]]:
        """Subscribed topics that are there, with id and number of partitions."""
        found = ((name, cluster.topics.get(name)) for name in self.subscribed())
        return {name: (topic.topic_id, len(topic.partitions)) for name, topic in found if topic is not None}

    def refresh_topics(self, cluster: Cluster, now: float, refresh: float) -> bool:
        """Look at the subscribed topics; True if they are not what they were. Again after ``refresh`` seconds."""
        found = self.seen_in(cluster)
        changed = found != self.metadata
        if changed:
            self.metadata = found
        self.version, self.refresh_at = cluster.epoch, now + refresh
        self.alike = self._alike()
        return changed

    def resolve(self, regex: str, resolved: Resolved) -> None:
        """Keep what an expression matches now."""
        old = self.resolved.get(regex)
        if old is None or old.topics is not resolved.topics:
            self.unresolve(regex)
            self.matched.update(resolved.topics)
        self.resolved[regex] = resolved

    def unresolve(self, regex: str) -> None:
        """Forget what an expression matched, if that is known."""
        old = self.resolved.pop(regex, None)
        if old is None:
            return
        for topic in old.topics:
            self.matched[topic] -= 1
            if not self.matched[topic]:
                del self.matched[topic]

    def target_of(self, member_id: str) -> Share:
        """What a member shall have."""
        topics = self.target.get(member_id, {})
        return frozenset((topic_id, index) for topic_id, indexes in topics.items() for index in indexes)

    # --- members ---

    def put(self, member: ConsumerMember) -> None:
        """Add a member, or put it in the place of the one with its id. Its time to give up partitions is that of one
        epoch."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._count(old, -1)
            self._release(old)
            if old.epoch != member.epoch:
                self.waits.forget(rebalance_of(member.member_id))
        self.members[member.member_id] = member
        self._count(member, 1)
        for partition in member.assigned | member.revoking:
            self.owners[partition] = member.epoch
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self.most_members = max(self.most_members, len(self.members))
        for regex in [regex for regex in self.resolved if not self.regexes[regex]]:
            self.unresolve(regex)
        self.alike = self._alike()

    def remove(self, member: ConsumerMember) -> None:
        """Take a member out; what it had is free."""
        del self.members[member.member_id]
        self._count(member, -1)
        self._release(member)
        self.target.pop(member.member_id, None)
        if member.instance_id is not None and self.static.get(member.instance_id) == member.member_id:
            del self.static[member.instance_id]
        if member.regex and not self.regexes[member.regex]:
            self.unresolve(member.regex)
        self.alike = self._alike()

    def replace_static(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """A static member is back under another id, and gets the place and the target of the old one."""
        target, resolved = self.target.get(old.member_id, {}), self.resolved.get(old.regex)
        self.remove(old)
        if resolved is not None:
            self.resolve(old.regex, resolved)
        self.put(new)
        self.target[new.member_id] = target

    def _alike(self) -> bool:
        """Source: Kafka's ModernGroup.subscriptionType."""
        everybody = len(self.members)
        return all(times == everybody for times in self.names.values()) and self.matched.keys() <= self.names.keys()

    def _count(self, member: ConsumerMember, by: int) -> None:
        for counter, keys in (
            (self.names, member.topics),
            (self.regexes, [member.regex] if member.regex else []),
            (self.assignors, [member.assignor] if member.assignor else []),
        ):
            for key in keys:
                counter[key] += by
                if not counter[key]:
                    del counter[key]
        self.classic_members += by * (member.classic is not None)

    def _release(self, member: ConsumerMember) -> None:
        for partition in member.assigned | member.revoking:
            self.owners.pop(partition, None)
