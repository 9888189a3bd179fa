"""A group as a coordinator has it, whatever its type: what the registry, the handlers and the snapshots rely on."""

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

DEAD = "Dead"  # the state that Kafka's tools show for a group that does not exist

Wait: TypeAlias = tuple[str, str]  # a deadline of a group: kind, and member id or ""


def session_of(member_id: str) -> Wait:
    """Return the deadline of a member's session."""
    return ("session", member_id)


G = TypeVar("G", bound="CoordinatedGroup")


class GroupMember(Protocol):
    """A member, as far as all types of groups agree."""

    @property
    def member_id(self) -> str: ...
    @property
    def instance_id(self) -> str | None: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...


class CoordinatedGroup(Recorded, ABC):
    """The state of one group. Its behavior is in its GroupType.

    ``group_id``: its id. ``waits``: its deadlines. ``offsets``: what it has committed.
    ``type_name``: the name of its type, as ListGroups has it. ``changes``: what has changed since its records were
    written (changes.py); what is transient is not among it.
    """

    __slots__ = ()
    type_name: ClassVar[str]
    group_id: str
    waits: Deadlines[Wait]
    offsets: Offsets

    @property
    @abstractmethod
    def members(self) -> Mapping[str, GroupMember]:
        """Members by id."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state, as Kafka's tools show it."""

    @property
    @abstractmethod
    def generation(self) -> int:
        """The generation or group epoch."""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """The protocol type, as ListGroups has it."""

    @property
    def empty(self) -> bool:
        """True without members."""
        return not self.members

    @property
    def unused_ids(self) -> int:
        """How many member ids were given out that no member uses yet (KIP-394)."""
        return 0

    @property
    def is_over(self) -> bool:
        """True if nothing is left of the group: no members, no offsets, not even in an open transaction."""
        return self.empty and not self.offsets.committed and not self.offsets.pending and not self.unused_ids


@dataclass(frozen=True, slots=True)
class Becomes:
    """The registry keeps this group under its id from now on: it is new, or replaces the one that was there."""

    group: CoordinatedGroup


Turn: TypeAlias = Sequence[Effect | Becomes]


def member_note(
    group: CoordinatedGroup, event: EventKind, member: GroupMember, reason: str = "", *, generation: int | None = None
) -> Note:
    """Return the journal's line about a member. ``generation``: the group's if None."""
    return Note(
        event=event,
        group=group.group_id,
        member_id=member.member_id,
        client_id=member.client_id,
        generation=group.generation if generation is None else generation,
        reason=reason,
    )


def typed(group: CoordinatedGroup | None, kind: type[G]) -> G | None:
    """Return the group if it is of this class, for checks of what only one type of groups has; else None."""
    return group if type(group) is kind else None
