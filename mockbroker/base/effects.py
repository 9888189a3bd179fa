"""The input and output types of the sans-IO broker: a handler takes a Call and returns Effects."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from mockbroker.base.event_kinds import EventKind

R = TypeVar("R")

# Types created for every request are not frozen, because creation would take four times as long. None is modified.


@dataclass(slots=True, unsafe_hash=True)
class Ticket:
    """The identity of a request, needed to encode its response.

    Attributes:
        connection: Number of the connection.
        correlation_id: Correlation id of the request.
        api_key: API key of the request.
        version: API version of the request.
    """

    connection: int
    correlation_id: int
    api_key: int
    version: int


@dataclass(frozen=True, slots=True)
class Client:
    """The sender of a request.

    Attributes:
        node: Id of the broker whose listener accepted the connection.
        client_id: The ``client.id`` of the request header.
        host: Address of the client, without port.
        listener: Name of the listener.
    """

    node: int
    client_id: str
    host: str
    listener: str = ""


@dataclass(slots=True)
class Call(Generic[R]):
    """A received request.

    Attributes:
        ticket: Identity of the request.
        client: Sender of the request.
        request: The decoded message.
        frame: The bytes from which the message was decoded, without the length; empty if it was not decoded.
    """

    ticket: Ticket
    client: Client
    request: R
    frame: bytes = field(default=b"", compare=False, repr=False)

    @property
    def version(self) -> int:
        return self.ticket.version


@dataclass(slots=True)
class Reply:
    """The effect of sending a response.

    Attributes:
        ticket: The request.
        response: The response message.
        encoded: Cache of the encoded response by API version, filled by the encoder; None for a response that is sent
            only once.
    """

    ticket: Ticket
    response: object
    encoded: dict[int, bytes] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NoReply:
    """The effect of a request without response, such as Produce with acks=0; the connection stays open."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Close:
    """The effect of closing the connection of a request without sending a response.

    Attributes:
        ticket: The request.
        reason: Reason for the log.
    """

    ticket: Ticket
    reason: str


@dataclass(frozen=True, slots=True)
class Dismiss:
    """The effect of sending a response and then closing the connection.

    Attributes:
        ticket: The request.
        response: The response message; None to close the connection without a response.
        reason: Reason for the log.
    """

    ticket: Ticket
    response: object
    reason: str


@dataclass(slots=True, kw_only=True)
class Note:
    """An event of a group or of a transaction for the journal. A field that does not apply has its default.

    Attributes:
        event: Kind of the event.
        group: Group id; "" in an event of a transaction.
        member_id: Id of the member that the event is about.
        client_id: The ``client.id`` of the member.
        generation: Generation of the group, or its epoch in the consumer protocol.
        reason: Cause of the event.
        leader: Member id of the leader.
        protocol: The chosen assignment strategy or assignor.
        protocol_type: Protocol type of a classic group.
        members: Member ids of the group.
        assignment: Encoded assignment from the leader; with server-side assignment, topic to partition indexes.
        offsets: Committed offsets by topic and partition.
        transactional_id: The ``transactional.id``, in an event of a transaction.
        producer_id: Producer id, in an event of a transaction.
        producer_epoch: Producer epoch, in an event of a transaction.
    """

    event: EventKind
    group: str
    member_id: str = ""
    client_id: str = ""
    generation: int = -1
    reason: str = ""
    leader: str = ""
    protocol: str = ""
    protocol_type: str = ""
    members: tuple[str, ...] = ()
    assignment: bytes | Mapping[str, list[int]] | None = None
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(slots=True, eq=False)
class Work:
    """The remaining work on a request, done in slices so that other requests are handled in between.

    Attributes:
        ticket: The request.
        steps: Generator that does one slice each time it is sent the current time in seconds. It yields the effects of
            the slice, and returns the last effects, which include the response.
    """

    ticket: Ticket
    steps: Steps


Effect: TypeAlias = Reply | NoReply | Close | Dismiss | Note | Work
Effects: TypeAlias = list[Effect]
Steps: TypeAlias = Generator[Effects, float, Effects]


def begin(ticket: Ticket, steps: Steps) -> Effects:
    """Do the first slice of the work on a request; return the effects of the slice, and a Work if slices remain."""
    try:
        effects = next(steps)
    except StopIteration as end:
        last: Effects = end.value
        return last
    return [*effects, Work(ticket, steps)]
