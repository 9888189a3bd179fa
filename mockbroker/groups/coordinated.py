"""The base class of groups of any type. The registry, the handlers and the snapshots use this class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol, TypeAlias, TypeVar

from kwire.lazy_dataclass import dataclass
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.effects import Effect, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.changes import Recorded
from mockbroker.groups.offsets import Offsets

MAX_MEMBERS = 1_000  # members in an event; in a group of thousands, each event of a join would list all members
DEAD = "Dead"  # state in DescribeGroups for a group that does not exist

Timer: TypeAlias = tuple[str, str]  # the key of a timer in a group: kind, and member id or ""


def session_timer(member_id: str) -> Timer:
    """Return the timer key for a member's session timeout."""
    return ("session", member_id)


G = TypeVar("G", bound="CoordinatedGroup")


class GroupMember(Protocol):
    """The interface of a member of a group, of any type."""

    @property
    def member_id(self) -> str: ...
    @property
    def instance_id(self) -> str | None: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...


class CoordinatedGroup(Recorded, ABC):
    """One group of any type. This class contains the state of the group; its GroupType implements the behavior.

    Attributes:
        type_name: Name of the group type, as ListGroups reports it.
        replaced_by: Names of the group types that replace an empty group of this type when their first member joins.
        group_id: Group id.
        timers: Deadlines of the group and its members, in seconds.
        offsets: Committed offsets.
        changes: Persisted fields that have changed since the records were written last (changes.py).
    """

    __slots__ = ()
    type_name: ClassVar[str]
    replaced_by: ClassVar[frozenset[str]] = frozenset({"classic"})
    group_id: str
    timers: Deadlines[Timer]
    offsets: Offsets

    @property
    @abstractmethod
    def members(self) -> Mapping[str, GroupMember]:
        """The members of the group, by member id."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The name of the state, as ListGroups reports it."""

    @property
    def state_filter(self) -> str:
        """The state name in lower case, for the comparison with the state filter of ListGroups."""
        return self.state_name.lower()

    @property
    @abstractmethod
    def generation(self) -> int:
        """The generation of a classic group, else the group epoch."""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """The protocol type, as ListGroups reports it; "" before the first member joins a classic group."""

    @property
    def empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def is_replaced_by(self, type_name: str) -> bool:
        """Return whether this group is deleted when the first member of another group type joins.

        The committed offsets of a deleted group are kept.

        Args:
            type_name: Name of the group type of the first member.
        """
        return self.empty and type_name in self.replaced_by

    @property
    def pending_member_count(self) -> int:
        """The number of member ids assigned with MEMBER_ID_REQUIRED that no JoinGroup has used yet (KIP-394)."""
        return 0

    @property
    def has_unwritten_changes(self) -> bool:
        """Whether persisted fields or offsets have changed since the group's records were written last."""
        offsets = self.offsets
        return bool(self.changes or offsets.unwritten or offsets.unwritten_transactional)

    @property
    def is_deletable(self) -> bool:
        """Whether the coordinator may delete the group, after the group's offsets were deleted or have expired.

        Such a group has no members, no pending members, no committed offsets and no pending transactional offsets.
        """
        return (
            self.empty
            and not self.offsets.committed
            and not self.offsets.pending_transactional
            and not self.pending_member_count
        )


@dataclass(frozen=True, slots=True)
class RegisterGroup:
    """The effect that registers a new group, or replaces the group with the same id. ``group``: the new group."""

    group: CoordinatedGroup


GroupEffects: TypeAlias = Sequence[Effect | RegisterGroup]


def member_note(
    group: CoordinatedGroup, event: EventKind, member: GroupMember, reason: str = "", *, generation: int | None = None
) -> Note:
    """Return a journal event about a member.

    Args:
        group: the group.
        event: kind of the event.
        member: the member.
        reason: why the event happened; "" without a reason.
        generation: generation or epoch in the event; None for the generation or group epoch of the group.
    """
    return Note(
        event=event,
        group=group.group_id,
        member_id=member.member_id,
        client_id=member.client_id,
        generation=group.generation if generation is None else generation,
        reason=reason,
    )


def generation_note(group: CoordinatedGroup, protocol: str, leader: str = "") -> Note:
    """Return the journal event of a new generation, or of a target assignment.

    Args:
        group: The group.
        protocol: Name of the assignor or protocol.
        leader: Member id of the leader; "" without a leader.
    """
    members = group.members
    return Note(
        event=EventKind.GENERATION,
        group=group.group_id,
        generation=group.generation,
        leader=leader,
        protocol=protocol,
        protocol_type=group.protocol_type,
        members=tuple(members) if len(members) <= MAX_MEMBERS else (),
    )


def as_type(group: CoordinatedGroup | None, group_class: type[G]) -> G | None:
    """Return the group if its class is exactly ``group_class``.

    Return None for a group of another class and for None.
    """
    return group if type(group) is group_class else None
