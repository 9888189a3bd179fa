"""What can happen to a group. Versions of the wire are gone: each is a plain fact. Times are in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mockbroker.calls import Ticket


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


@dataclass(frozen=True, slots=True, kw_only=True)
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
class Commit:
    """Who wants to commit; the offsets are stored elsewhere once the group agrees."""

    member_id: str
    instance_id: str | None = None
    generation: int
