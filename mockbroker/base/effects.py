"""The input and output types of the sans-IO broker: a handler takes a Call and returns Effects.

An effect is an action that the caller must carry out, such as sending a response or closing a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import field, replace
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import UUID

from kwire import APIS, ErrorCode, decode
from kwire.lazy_dataclass import dataclass
from mockbroker.base.event_kinds import EventKind

R = TypeVar("R")

# Types created for every request are not frozen, because creation would take four times as long. None is modified.


@dataclass(slots=True)
class Ticket:
    """The identity of a request. It is needed to encode the response.

    The request log uses the ticket as its entry for the request: it sets ``received_at`` and all attributes after
    ``received_at``. The entry stores bytes, not decoded messages.

    Attributes:
        connection: number of the connection.
        correlation_id: correlation id of the request.
        api_key: API key of the request.
        version: API version of the request.
        logged: whether the request is in the request log.
        fault: name of the fault rule that was applied to the request; "" for none.
        received_at: broker time in seconds at which the request was received.
        client: sender of the request.
        frame: the request, without its length prefix.
        response: the response, with its length prefix; None before the response, or if the response was not kept.
        answered_at: broker time in seconds at which the response was made; None before the response.
    """

    connection: int
    correlation_id: int
    api_key: int
    version: int
    logged: bool = field(default=False, compare=False, repr=False)
    fault: str = field(default="", compare=False, repr=False)
    received_at: float = field(init=False, compare=False, repr=False)
    client: Client = field(init=False, compare=False, repr=False)
    frame: bytes = field(init=False, compare=False, repr=False)
    response: bytes | None = field(init=False, compare=False, repr=False)
    answered_at: float | None = field(init=False, compare=False, repr=False)

    def __hash__(self) -> int:  # most tables of pending requests have tickets as keys, so this is called often
        return self.connection << 32 ^ self.correlation_id


@dataclass(frozen=True, slots=True)
class Client:
    """The sender of a request.

    Attributes:
        node: id of the broker whose listener accepted the connection.
        client_id: the ``client.id`` of the request header.
        host: address of the client with a leading slash and without port, such as ``/127.0.0.1``, as Kafka shows it.
        listener: name of the listener that accepted the connection.
    """

    node: int
    client_id: str
    host: str
    listener: str = ""


@dataclass(slots=True)
class Call(Generic[R]):
    """A received request, the input of a handler.

    Attributes:
        ticket: Identity of the request.
        client: Sender of the request.
        request: The decoded message.
        frame: The bytes from which the message was decoded, without the length prefix; empty if the message was not
            decoded from bytes.
    """

    ticket: Ticket
    client: Client
    request: R
    frame: bytes = field(default=b"", compare=False, repr=False)

    @property
    def version(self) -> int:
        return self.ticket.version


@dataclass(slots=True)
class AuthorizedCall(Call[R]):
    """A received request on a cluster with an authorizer, with the permissions that the handler must check.

    Attributes:
        may_describe: function that gets a topic name and returns whether the client may describe the topic.
        may_create: function that gets a topic name and returns whether the client may create the topic.
        may_read: function that gets a topic name and returns whether the client may read the topic.
    """

    may_describe: Callable[[str], bool] = field(default=lambda _: True, compare=False, repr=False)
    may_create: Callable[[str], bool] = field(default=lambda _: True, compare=False, repr=False)
    may_read: Callable[[str], bool] = field(default=lambda _: True, compare=False, repr=False)


@dataclass(slots=True)
class PartlyRefusedCall(Call[R]):
    """A ShareFetch of which some partitions get an error instead of records.

    Attributes:
        refused: The errors of these partitions, by topic id and index.
    """

    refused: Mapping[tuple[UUID, int], ErrorCode] = field(default_factory=dict, compare=False, repr=False)


def refused_partitions(call: Call[Any]) -> Mapping[tuple[UUID, int], ErrorCode]:
    """Return the errors of the partitions of a ShareFetch whose records may not be acquired, by topic id and index."""
    return call.refused if isinstance(call, PartlyRefusedCall) else {}


def with_request(call: Call[Any], request: Any, refused: Mapping[tuple[UUID, int], ErrorCode]) -> Call[Any]:
    """Return a copy of a call with another request.

    Args:
        call: The call.
        request: The message of the copy.
        refused: Errors of partitions of a ShareFetch, in addition to those of ``call``; empty for other requests.
    """
    errors = {**refused_partitions(call), **refused}
    if not errors:
        return replace(call, request=request)
    return PartlyRefusedCall(call.ticket, call.client, request, call.frame, errors)


@dataclass(frozen=True, slots=True)
class Token:
    """A raw SASL token: a frame without Kafka header, as client and broker exchange after SaslHandshake v0.

    Attributes:
        data: The bytes of the token, without the length of the frame.
    """

    data: bytes


@dataclass(slots=True)
class Pace:
    """The pace at which a slow response is sent: the number of permitted bytes grows over time.

    Attributes:
        allowed: Number of further bytes that may be sent now.
        finished: Whether all bytes were sent, the connection was closed, or the remaining bytes may be sent at once.
    """

    allowed: int = 0
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    """The changes that a fault rule makes to the sending of a response.

    Attributes:
        alter: Generator function that gets the encoded response (a frame with its length prefix) and returns the bytes
            to send. It yields after a limited amount of work. None to leave the response unchanged.
        frame: The bytes to send instead of the encoded response: the result of ``alter``. None to send the encoded
            response.
        close: Text for the log if the connection is closed after the response was sent; "" to leave the connection
            open.
        reset: Whether the connection is closed by a TCP reset.
        mute: Whether later requests of the connection wait for the effect ``Unmute``.
        pace: The pace of sending; None to send immediately.
    """

    alter: Callable[[bytes], Generator[None, None, bytes]] | None = None
    frame: bytes | None = None
    close: str = ""
    reset: bool = False
    mute: bool = False
    pace: Pace | None = None


@dataclass(slots=True)
class Reply:
    """The effect of sending a response.

    Attributes:
        ticket: Identity of the request.
        response: The response message.
        encoded: Cache of the encoded response by API version, filled by the encoder; None for a response that is sent
            only once.
        delivery: Changes that a fault rule makes to the sending of the bytes; None to send them unchanged.
    """

    ticket: Ticket
    response: object
    encoded: dict[int, bytes] | None = field(default=None, compare=False, repr=False)
    delivery: Delivery | None = field(default=None, compare=False)


class EncodedReply(Reply):
    """The effect of sending a response that the handler has encoded itself, without creating the message.

    The message is decoded when it is read for the first time, for example by a stage that changes the response.

    Args:
        ticket: Identity of the request.
        body: The encoded message, without header.
    """

    __slots__ = ("_message",)

    def __init__(self, ticket: Ticket, body: bytes) -> None:
        self.ticket = ticket
        self.encoded = {ticket.version: body}
        self.delivery = None
        self._message: object = None

    @property
    def response(self) -> object:  # type: ignore[override]
        if self._message is None:
            assert self.encoded is not None
            version = self.ticket.version
            self._message = decode(APIS[self.ticket.api_key].response, self.encoded[version], version)
        return self._message


@dataclass(frozen=True, slots=True)
class NoReply:
    """The effect of ending a request without a response, such as Produce with acks=0. The connection stays open.

    Attributes:
        ticket: Identity of the request.
        mute: Whether later requests of the connection wait for an ``Unmute``.
    """

    ticket: Ticket
    mute: bool = False


@dataclass(frozen=True, slots=True)
class Close:
    """The effect of closing the connection of a request without sending a response.

    Attributes:
        ticket: Identity of the request.
        reason: Reason for the log.
        reset: Whether the connection is closed by a TCP reset.
        alert: Whether a TLS alert is sent first, because the TLS handshake of a new connection fails.
    """

    ticket: Ticket
    reason: str
    reset: bool = False
    alert: bool = False


@dataclass(frozen=True, slots=True)
class Dismiss:
    """The effect of sending a response and then closing the connection.

    Attributes:
        ticket: Identity of the request.
        response: The response message; None to close the connection without a response.
        reason: Reason for the log.
    """

    ticket: Ticket
    response: object
    reason: str


@dataclass(slots=True, kw_only=True)
class Note:
    """The effect of adding an event of a group, of a transaction or of a client's telemetry to the journal.

    A field that does not apply to the event has its default.

    Attributes:
        event: Kind of the event.
        group: Group id; "" in an event that is not about a group.
        member_id: Id of the member that the event is about.
        client_id: The ``client.id`` of the member.
        generation: Classic group: the generation. All other types of groups: the member epoch in an event about a
            member, the group epoch in an event about the group.
        reason: Cause of the event.
        leader: Member id of the leader of a classic group.
        protocol: The chosen assignment strategy or assignor.
        protocol_type: Protocol type of a classic group.
        members: Ids of all members of the group.
        assignment: Assigned partitions. Classic group: the bytes that the group leader has sent. All other types of
            groups: topic -> partition indexes.
        offsets: Committed offsets by topic and partition.
        transactional_id: The ``transactional.id``, in an event of a transaction.
        producer_id: Producer id, in an event of a transaction.
        producer_epoch: Producer epoch, in an event of a transaction.
        fault: Name of the fault rule that caused the event.
        telemetry: Metrics that a client has pushed.
        records: Numbers of records of a share group by topic and partition, and by their new state, such as
            ``acquired``.
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
    fault: str = ""
    telemetry: Mapping[str, Any] | None = None
    records: Mapping[tuple[str, int], Mapping[str, int]] = field(default_factory=dict)


@dataclass(slots=True)
class Proceed:
    """The effect of continuing a request after a stage of request processing, such as the fault rules, has held the
    request.

    The later stages and the handler process the request next.

    Attributes:
        ticket: Identity of the request.
        call: The changed request to pass to the later stages; the stage that held the request then processes the
            response. None to pass the original request; the stage that held the request then does not see the response.
    """

    ticket: Ticket
    call: Call[Any] | None = None


@dataclass(slots=True)
class Unmute:
    """The effect of serving a muted connection's requests again. ``ticket``: any request of the connection."""

    ticket: Ticket


@dataclass(slots=True)
class SendMore:
    """The effect of sending as many bytes as the ``Pace`` of a connection allows now.

    ``ticket``: any request of the connection.
    """

    ticket: Ticket


@dataclass(slots=True, eq=False)
class Work:
    """The effect of continuing the work on a large request later.

    The work is done in slices (parts of limited size), and the router handles other requests between two slices.

    Attributes:
        ticket: Identity of the request.
        steps: Generator that does one slice each time it is sent the current time in seconds. It yields the effects of
            the slice, and returns the last effects, which include the response.
    """

    ticket: Ticket
    steps: Steps


Answer: TypeAlias = Reply | NoReply | Close | Dismiss  # the effects that end a request
Effect: TypeAlias = Answer | Note | Proceed | Unmute | SendMore | Work
Effects: TypeAlias = list[Effect]
Steps: TypeAlias = Generator[Effects, float, Effects]


def begin(ticket: Ticket, steps: Steps) -> Effects:
    """Do the first slice (part of limited size) of the work on a large request.

    Args:
        ticket: Identity of the request.
        steps: Generator that does one slice at a time, see ``Work``.

    Returns:
        The effects of the slice, and a Work if slices remain.
    """
    try:
        effects = next(steps)
    except StopIteration as end:
        last: Effects = end.value
        return last
    return [*effects, Work(ticket, steps)]
