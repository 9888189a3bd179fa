"""The declaration of a case: what a hostile broker does at one step of a client's session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from trustme import CA, LeafCert

CONNECT = "connect"  # the step before the first request
EVERY = "*"  # every step
TLS = "TLS"  # the TLS handshake, before the first request
Change: TypeAlias = Callable[[Any, Any, "Turn"], None]  # changes a decoded response; also takes the request
FrameChange: TypeAlias = Callable[[bytes, "Turn"], bytes]  # returns what is sent in place of a frame with its length
FlightChange: TypeAlias = Callable[[bytes, Random], bytes]  # returns what is sent in place of the broker's TLS records
Certificate: TypeAlias = Callable[["CA"], "LeafCert"]  # takes the authority that the client trusts


@dataclass(slots=True)
class Turn:
    """The context in which a case changes a response.

    Attributes:
        number: number of responses that the case has processed before this one.
        random: random number generator of the run.
        kept: bytes, such as a frame, that the case has stored for use in a later response of the same connection; b""
            at the start of a connection.
        api_key: key of the response's API.
        version: API version of the response.
        brokers: node id, host and port of each broker.
    """

    number: int
    random: Random
    kept: bytes = b""
    api_key: int = -1
    version: int = -1
    brokers: Sequence[tuple[int, str, int]] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A case: one kind of hostile broker.

    Exactly one of ``rules``, ``change``, ``frames``, ``flight`` and ``certificate`` is set, or both ``rules`` and
    ``change``.

    Attributes:
        name: name for ``--case``.
        step: API whose responses are affected, or CONNECT, TLS or EVERY.
        description: action of the broker, as the end of a sentence that begins with "The broker".
        rules: fault rules, as keyword arguments of ``faults.add``.
        change: function that changes a decoded response of the step in place; it gets the response, the request and the
            Turn.
        frames: function that gets a response frame of the step, with its length prefix, and the Turn. It returns the
            bytes to send instead.
        gets_all: True if ``frames`` gets the responses of all APIs, not only those of the step.
        flight: function that gets the broker's first records of a TLS handshake and a random number generator. It
            returns the bytes to send instead; nothing is sent after them.
        certificate: function that gets the authority that the client trusts, and returns the broker's certificate.
        published: link to a bug report of a client that failed this case; "" if no such report is known.
    """

    name: str
    step: str
    description: str
    rules: tuple[Mapping[str, Any], ...] = ()
    change: Change | None = None
    frames: FrameChange | None = None
    gets_all: bool = False
    flight: FlightChange | None = None
    certificate: Certificate | None = None
    published: str = ""
