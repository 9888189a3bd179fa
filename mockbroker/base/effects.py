"""The words that everything below the shell speaks: a call comes in, effects go out."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from mockbroker.base.event_kinds import EventKind

R = TypeVar("R")

# What is made for every request is not frozen, which would take four times as long to make; nobody changes one.


@dataclass(slots=True, unsafe_hash=True)
class Ticket:
    """One request that waits for its answer, and what is needed to write it."""

    connection: int
    correlation_id: int
    api_key: int
    version: int


@dataclass(frozen=True, slots=True)
class Client:
    """Who calls. ``node``: id of the broker whose listener took the connection; ``host``: address without port;
    ``listener``: name of that listener."""

    node: int
    client_id: str
    host: str
    listener: str = ""


@dataclass(slots=True)
class Call(Generic[R]):
    """A decoded request, and the frame that it was read from."""

    ticket: Ticket
    client: Client
    request: R
    frame: bytes = field(default=b"", compare=False, repr=False)

    @property
    def version(self) -> int:
        return self.ticket.version


@dataclass(slots=True)
class Reply:
    """Send this response.

    ``encoded``: its bytes by version, of a response that is given again and again; whoever encodes it adds them.
    """

    ticket: Ticket
    response: object
    encoded: dict[int, bytes] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NoReply:
    """This request gets no answer, as Produce with acks 0; the connection goes on."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection of this request instead of answering."""

    ticket: Ticket
    reason: str


@dataclass(frozen=True, slots=True)
class Dismiss:
    """Send this response, if there is one, and close the connection."""

    ticket: Ticket
    response: object
    reason: str


@dataclass(slots=True, kw_only=True)
class Note:
    """Something that happened in a group, for the journal.

    ``assignment``: the bytes a member was given, or what a coordinator that assigns itself gave it;
    ``offsets``: what was committed, by topic and partition.
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


@dataclass(slots=True, eq=False)
class Work:
    """The rest of the work on a request: it is done in slices, and other requests are handled in between.

    ``steps``: does one slice each time that it is sent the time, and yields the effects of that slice; what it returns
    at its end are the last effects, with the answer.
    """

    ticket: Ticket
    steps: Steps


Effect: TypeAlias = Reply | NoReply | Close | Dismiss | Note | Work
Effects: TypeAlias = list[Effect]
Steps: TypeAlias = Generator[Effects, float, Effects]


def begin(ticket: Ticket, steps: Steps) -> Effects:
    """Do the first slice of the work on a request, which may be all of it."""
    try:
        effects = next(steps)
    except StopIteration as end:
        last: Effects = end.value
        return last
    return [*effects, Work(ticket, steps)]
