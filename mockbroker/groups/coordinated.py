"""The interface of a group of any type, which the registry, the handlers and the snapshots use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias, TypeVar

from mockbroker.base.deadlines import Deadlines
from mockbroker.base.effects import Effect, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.changes import Recorded
from mockbroker.groups.offsets import Offsets

DEAD = "Dead"  # state in DescribeGroups for a group that does not exist

Timer: TypeAlias = tuple[str, str]  # the key of a timer in a group: kind, and member id or ""


def session_timer(member_id: str) -> Timer:
    """Return the key of the session timeout of a member."""
    return ("session", member_id)


G = TypeVar("G", bound="CoordinatedGroup")


class GroupMember(Protocol):
    """A member of a group of any type."""

    @property
    def member_id(self) -> str: ...
    @property
    def instance_id(self) -> str | None: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...


class CoordinatedGroup(Recorded, ABC):
    """The state of one group of any type; the GroupType implements the behavior.

    Attributes:
        type_name: Name of the group type, as ListGroups reports it.
        group_id: Group id.
        timers: Deadlines of the group and its members, in seconds.
        offsets: Committed offsets.
        changes: Persisted fields that have changed since the records were written last (changes.py).
    """

    __slots__ = ()
    type_name: ClassVar[str]
    group_id: str
    timers: Deadlines[Timer]
    offsets: Offsets

    @property
    @abstractmethod
    def members(self) -> Mapping[str, GroupMember]:
        """The members by member id."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """Name of the state, as ListGroups reports it."""

    @property
    @abstractmethod
    def generation(self) -> int:
        """The generation of a classic group, else the group epoch."""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """Protocol type, as ListGroups reports it; "" before the first member joins a classic group."""

    @property
    def empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def pending_member_count(self) -> int:
        """Number of member ids assigned with MEMBER_ID_REQUIRED that no JoinGroup has used yet (KIP-394)."""
        return 0

    @property
    def is_deletable(self) -> bool:
        """Whether the broker deletes the group by itself.

        It does so after its offsets expire or OffsetDelete (depending on the release) removes them: no members, no
        pending members, no committed or pending transactional offsets.
        """
        return (
            self.empty
            and not self.offsets.committed
            and not self.offsets.pending_transactional
            and not self.pending_member_count
        )


@dataclass(frozen=True, slots=True)
class RegisterGroup:
    """The effect that registers a new group, or replaces the group with the same id."""

    group: CoordinatedGroup


GroupEffects: TypeAlias = Sequence[Effect | RegisterGroup]


def member_note(
    group: CoordinatedGroup, event: EventKind, member: GroupMember, reason: str = "", *, generation: int | None = None
) -> Note:
    """Return a journal event about a member.

    Args:
        group: The group.
        event: Kind of the event.
        member: The member.
        reason: Reason for the event; "" for none.
        generation: Generation or epoch in the event; None for that of the group.
    """
    return Note(
        event=event,
        group=group.group_id,
        member_id=member.member_id,
        client_id=member.client_id,
        generation=group.generation if generation is None else generation,
        reason=reason,
    )


def as_type(group: CoordinatedGroup | None, group_class: type[G]) -> G | None:
    """Return the group if it is an instance of exactly this class, else None."""
    return group if type(group) is group_class else None
