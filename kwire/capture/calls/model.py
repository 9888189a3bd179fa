"""What a capture is turned into: connections, and on them calls - a request and its response.

Both runners, one process and Spark, make the same of these from the same bytes. Times are microseconds since 1970;
sizes are bytes of a frame without its length prefix.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

KAFKA, TLS, OPAQUE, NOT_KAFKA = "kafka", "tls", "sasl_opaque", "not_kafka"  # what a connection is

NOT_READ = {TLS: "TLS", OPAQUE: "sealed by SASL", NOT_KAFKA: "not Kafka"}
GAPS, NOTED = "gaps", "noted"  # what else is said of a connection: bytes are missing; what its notes say

# Why a call, or part of it, is missing or not decoded.
REQUEST_NOT_SEEN = "request_not_seen"
RESPONSE_NOT_SEEN = "response_not_seen"
INCOMPLETE = "incomplete"  # bytes in it were lost, or cut by the snapshot length
UNKNOWN_VERSION = "unknown_version"
UNREADABLE = "unreadable"
TOO_LARGE = "too_large"  # a frame beyond limits.MAX_KEPT_FRAME
SASL_TOKEN = "sasl_token"  # noqa: S105 - a token without a header, as after SaslHandshake v0
REASONS = (
    REQUEST_NOT_SEEN,
    RESPONSE_NOT_SEEN,
    INCOMPLETE,
    UNKNOWN_VERSION,
    UNREADABLE,
    TOO_LARGE,
    SASL_TOKEN,
)


@dataclass(slots=True, kw_only=True)
class Connection:
    """One TCP connection. ``client`` and ``broker``: ``host:port``. ``id``: the same in every run over the capture."""

    id: str
    client: str
    broker: str
    first_us: int
    last_us: int
    status: str = KAFKA
    syn_seen: bool = False
    closed: str | None = None  # "fin", "rst", None if it was still open
    client_id: str | None = None
    software_name: str | None = None
    software_version: str | None = None
    bytes_to_broker: int = 0
    bytes_to_client: int = 0
    segments: int = 0
    retransmitted: int = 0
    out_of_order: int = 0
    conflicts: int = 0  # overlapping segments whose bytes differ: the first copy counts
    gaps: int = 0
    gap_bytes: int = 0
    resyncs: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)  # from when to when frames may have been missed
    notes: list[str] = field(default_factory=list)

    @property
    def remark(self) -> tuple[str, str] | None:
        """Why not all of it could be read: a reason, and the same in words; None if it could."""
        if self.status == KAFKA and not self.gap_bytes and not self.notes:
            return None
        said = list(self.notes)
        if self.gap_bytes:
            said.insert(0, f"{self.gap_bytes} bytes missing at {self.gaps} {'place' if self.gaps == 1 else 'places'}")
        if self.status == KAFKA:
            return GAPS if self.gap_bytes else NOTED, "; ".join(said)
        words = NOT_READ[self.status]
        return self.status, "; ".join(said if any(note.startswith(words) for note in said) else [words, *said])


@dataclass(slots=True, kw_only=True)
class Call:
    """One request and its response. A side that was not seen, or not decoded, is None, and ``reason`` says why.

    ``number``: counts the calls of its connection in the order of their requests. ``request`` and ``response``: decoded
    bodies; None as well where nobody asked for them. ``request_raw`` and ``response_raw``: whole frames that could not
    be decoded, or all if they were asked for.
    """

    connection: str
    client: str
    broker: str
    number: int
    api_key: int | None = None
    api_version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    request_us: int | None = None
    response_us: int | None = None
    request_size: int | None = None
    response_size: int | None = None
    request: Any = None
    response: Any = None
    response_version: int | None = (
        None  # of the response's body; differs from api_version for ApiVersions asked too new
    )
    request_raw: bytes | None = None
    response_raw: bytes | None = None
    reason: str | None = None
    group_id: str | None = None  # of a request whose body is not decoded, if it begins with one that can be read
    error: str | None = None  # what decoding said of bytes that are unreadable
    file: str | None = None  # where the request begins: the file, and the byte offset of its packet in it
    position: int | None = None
    response_file: str | None = None  # where the response begins
    response_position: int | None = None
