"""The events of groups: requests, independent of their version, and operations of administrators.

Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING
from uuid import UUID

from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Ticket

if TYPE_CHECKING:
    from kwire.assignors.sticky_tasks import Tasks
    from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


@dataclass(slots=True, kw_only=True)
class Join:
    """A JoinGroup request, independent of its version.

    Attributes:
        ticket: Ticket of the request, with which its response is sent.
        member_id: Member id; "" for a new member.
        instance_id: ``group.instance.id`` of a static member; None for a dynamic member.
        new_member_id: Member id to assign if ``member_id`` is empty.
        require_member_id: Whether a JoinGroup of a dynamic member without member id is answered with
            MEMBER_ID_REQUIRED (KIP-394).
        supports_skipping_assignment: Whether the client supports ``skip_assignment`` in the response (KIP-814).
        client_id: The ``client.id`` of the request header.
        client_host: Address of the client.
        session_timeout: Session timeout in seconds.
        rebalance_timeout: Rebalance timeout in seconds.
        protocol_type: Protocol type, such as ``consumer``.
        protocols: Names and metadata of the supported protocols, in order of preference.
        reason: Why the member joins (KIP-800); "" if the client did not send a reason.
        may_describe: Function that returns whether the client may describe a topic; None without an authorizer.
    """

    ticket: Ticket
    member_id: str
    instance_id: str | None = None
    new_member_id: str
    require_member_id: bool
    supports_skipping_assignment: bool = False
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    reason: str = ""
    may_describe: Callable[[str], bool] | None = None


@dataclass(slots=True, kw_only=True)
class Sync:
    """A SyncGroup request, independent of its version.

    Attributes:
        ticket: ticket of the request, with which its response is sent.
        member_id: member id.
        instance_id: ``group.instance.id`` of a static member; None for a dynamic member.
        generation: generation of the member.
        protocol_type: protocol type, which is checked unless None.
        protocol_name: selected protocol, which is checked unless None.
        assignments: encoded assignments by member id; empty in the request of a member that is not the leader.
    """

    ticket: Ticket
    member_id: str
    instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Heartbeat:
    """A Heartbeat request, independent of its version.

    Attributes:
        ticket: the ticket of the request.
        member_id: member id.
        instance_id: group instance id of a static member; None for a dynamic member.
        generation: generation of the member.
    """

    ticket: Ticket
    member_id: str
    instance_id: str | None = None
    generation: int


@dataclass(slots=True, kw_only=True)
class LeavingMember:
    """A member in a LeaveGroup request.

    Attributes:
        member_id: member id; may be empty if ``instance_id`` is set.
        instance_id: group instance id of a static member; None for a dynamic member.
        reason: reason why the member leaves, as text for log messages; "" without a reason.
    """

    member_id: str
    instance_id: str | None = None
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Leave:
    """A LeaveGroup request, independent of its version.

    Attributes:
        ticket: the ticket of the request.
        members: the members that leave.
    """

    ticket: Ticket
    members: Sequence[LeavingMember]


Event = Join | Sync | Heartbeat | Leave


@dataclass(frozen=True, slots=True)
class Evict:
    """The eviction of a member by an administrator or by a fault rule, in a group of any type.

    The pending request of the member, and the next request with its member id, are answered with UNKNOWN_MEMBER_ID.

    Attributes:
        member_id: Member id of a member, or a member id that no JoinGroup has used yet (KIP-394). An unknown id has no
            effect.
        reason: Reason in the journal event, such as "evicted by an administrator".
    """

    member_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A rebalance that an administrator requests, in a group of any type.

    The request has no effect on a group without members.

    Attributes:
        reason: Text that the journal event of the rebalance contains.
    """

    reason: str


AdminEvent = Evict | Rebalance


@dataclass(slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat request (KIP-848). None means that a field has not changed.

    Attributes:
        ticket: Ticket of the request, with which its response is sent.
        member_id: Member id.
        epoch: Member epoch, or 0 to join, -1 to leave, -2 for a static member that leaves temporarily.
        instance_id: ``group.instance.id`` of a static member.
        rack_id: Rack of the client.
        client_id: The ``client.id`` of the request header.
        client_host: Address of the client.
        rebalance_timeout: Maximum time in seconds for revoking partitions.
        topics: Names of the subscribed topics.
        regex: Subscribed regular expression; "" for no regular expression.
        assignor: Server-side assignor that the member requests.
        owned_partitions: Topic ids and indexes of the partitions that the member owns.
        may_describe: Function that returns whether the client may describe a topic; None without an authorizer.
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
    owned_partitions: frozenset[tuple[UUID, int]] | None = None
    may_describe: Callable[[str], bool] | None = None

    @property
    def is_full_request(self) -> bool:
        """Whether the request contains all fields. The response to a full request contains the whole assignment."""
        subscribed = self.topics is not None or self.regex is not None
        return self.epoch == 0 or (
            subscribed and self.rebalance_timeout is not None and self.owned_partitions is not None
        )


@dataclass(slots=True, kw_only=True)
class ShareHeartbeat:
    """A ShareGroupHeartbeat request (KIP-932). None means that a field has not changed.

    Attributes:
        ticket: Ticket of the request, with which its response is sent.
        member_id: Member id.
        epoch: Member epoch, or 0 to join, -1 to leave.
        rack_id: Rack of the client.
        client_id: The ``client.id`` of the request header.
        client_host: Address of the client.
        topics: Names of the subscribed topics.
    """

    ticket: Ticket
    member_id: str
    epoch: int
    rack_id: str | None = None
    client_id: str
    client_host: str
    topics: frozenset[str] | None = None

    @property
    def is_full_request(self) -> bool:
        """Whether the request contains all fields. The response to a full request contains the assignment."""
        return self.epoch == 0 or self.topics is not None


@dataclass(slots=True, kw_only=True)
class StreamsHeartbeat:
    """A StreamsGroupHeartbeat request (KIP-1071). None means that a field has not changed.

    Attributes:
        ticket: Ticket of the request, with which its response is sent.
        member_id: Member id.
        epoch: Member epoch, or 0 to join, -1 to leave.
        endpoint_epoch: Epoch of the endpoint information that the member knows.
        rack_id: Rack of the client.
        client_id: The ``client.id`` of the request header.
        client_host: Address of the client.
        rebalance_timeout: Maximum time in seconds for revoking tasks.
        topology: The topology, which only a joining member sends.
        process_id: Id of the Streams client.
        endpoint: Host and port for interactive queries.
        client_tags: Tags of the client.
        owned_tasks: Active, standby and warm-up tasks that the member owns.
        shutdown_application: Whether the member requests the shutdown of all members.
        may_create: Function that returns whether the client may create a topic; None without an authorizer.
    """

    ticket: Ticket
    member_id: str
    epoch: int
    endpoint_epoch: int = 0
    rack_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout: float | None = None
    topology: StreamsGroupHeartbeatRequest.Topology | None = None
    process_id: str | None = None
    endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] | None = None
    owned_tasks: Tasks | None = None
    shutdown_application: bool = False
    may_create: Callable[[str], bool] | None = None


@dataclass(slots=True, kw_only=True)
class AlterShareOffsets:
    """An AlterShareGroupOffsets request (KIP-932).

    Attributes:
        ticket: Ticket of the request, with which its response is sent.
        offsets: Start offsets by topic name and partition; -1 to use ``share.auto.offset.reset``.
    """

    ticket: Ticket
    offsets: Mapping[str, Mapping[int, int]]


@dataclass(slots=True, kw_only=True)
class DeleteShareOffsets:
    """A DeleteShareGroupOffsets request (KIP-932).

    Attributes:
        ticket: Ticket of the request, with which its response is sent.
        topics: Names of the topics.
    """

    ticket: Ticket
    topics: Sequence[str]


@dataclass(slots=True, kw_only=True)
class Commit:
    """The member and generation in an OffsetCommit or TxnOffsetCommit request, without its offsets.

    Attributes:
        member_id: Member id; "" if the client is not a member.
        instance_id: ``group.instance.id`` of a static member; None for a dynamic member.
        generation: Generation or member epoch; negative if the client is not a member.
        supports_member_epochs: Whether the request version supports member epochs (OffsetCommit v9).
        partitions: Topic and partition index of each offset, read at most once.
    """

    member_id: str
    instance_id: str | None = None
    generation: int
    supports_member_epochs: bool = False
    partitions: Iterable[tuple[str, int]] = ()

    @property
    def has_member_identity(self) -> bool:
        """Whether the request contains a generation, a member id or an instance id."""
        return self.generation >= 0 or bool(self.member_id) or self.instance_id is not None
