"""What can happen to a group. Versions of the wire are gone: each is a plain fact. Times are in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from mockbroker.base.effects import Ticket


@dataclass(slots=True, kw_only=True)
class Join:
    """``fresh_id``: the id to give if ``member_id`` is empty; ``id_required``: give it and let the client come again
    (KIP-394); ``can_skip``: the client understands a leader that need not assign (KIP-814).
    ``protocols``: name and metadata, most wanted first."""

    ticket: Ticket
    member_id: str
    instance_id: str | None = None
    fresh_id: str
    id_required: bool
    can_skip: bool = False
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Sync:
    """``assignments``: by member id, from the leader only. A protocol type or name of None is not checked."""

    ticket: Ticket
    member_id: str
    instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Heartbeat:
    ticket: Ticket
    member_id: str
    instance_id: str | None = None
    generation: int


@dataclass(slots=True, kw_only=True)
class Leaving:
    """One member of a LeaveGroup."""

    member_id: str
    instance_id: str | None = None
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Leave:
    ticket: Ticket
    members: Sequence[Leaving]


Event = Join | Sync | Heartbeat | Leave


@dataclass(slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A heartbeat of the consumer protocol (KIP-848); None is for what has not changed.

    ``epoch``: of the member, 0 joins, -1 leaves, -2 leaves for a while. ``topics``, ``regex``: the subscription;
    ``owned``: topic ids and partitions that it has; ``assignor``: the one it asks for.
    """

    ticket: Ticket
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout: float | None = None
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: frozenset[tuple[UUID, int]] | None = None

    @property
    def full(self) -> bool:
        """True if it says everything, as one does that has lost track and wants to be told everything."""
        subscribed = self.topics is not None or self.regex is not None
        return self.epoch == 0 or (subscribed and self.rebalance_timeout is not None and self.owned is not None)


@dataclass(slots=True, kw_only=True)
class Commit:
    """Who wants to commit; the offsets are stored elsewhere once the group agrees. ``generation``: or member epoch.

    ``knows_epochs``: the request is of a version in which member epochs are understood (OffsetCommit v9).
    """

    member_id: str
    instance_id: str | None = None
    generation: int
    knows_epochs: bool = False

    @property
    def names_member(self) -> bool:
        """True if the client says that it is a member."""
        return self.generation >= 0 or bool(self.member_id) or self.instance_id is not None
