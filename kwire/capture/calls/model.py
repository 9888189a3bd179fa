"""Connections and calls. A call is a request with its response.

The same bytes result in equal objects in one process and in Spark. Times are microseconds since 1970. Sizes are bytes
of a frame without its length prefix.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from kwire.counted import counted
from kwire.lazy_dataclass import dataclass

KAFKA, TLS, OPAQUE, NOT_KAFKA = "kafka", "tls", "sasl_opaque", "not_kafka"  # kinds of connections

NOT_READ = {TLS: "TLS", OPAQUE: "encrypted by SASL", NOT_KAFKA: "not Kafka"}
# Further remarks about a connection: missing bytes, no bytes of the broker, or notes.
GAPS, ONE_SIDED, NOTED = "gaps", "one_sided", "noted"
NO_RESPONSES = "no bytes from the broker were captured"  # the note of a connection that is ONE_SIDED

# Why a call, or part of it, is missing or not decoded.
REQUEST_NOT_SEEN = "request_not_seen"
RESPONSE_NOT_SEEN = "response_not_seen"
INCOMPLETE = "incomplete"  # bytes in it were lost, or truncated by the snap length
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
    """A TCP connection, or a connection in a frame log. Times are microseconds since 1970.

    Attributes:
        id: id of the connection, the same in every run over the capture.
        client: ``host:port`` of the client.
        broker: ``host:port`` of the broker.
        first_us: time of the first segment or frame.
        last_us: time of the last segment or frame.
        status: KAFKA, TLS, OPAQUE or NOT_KAFKA.
        syn_seen: True if the beginning of the connection was captured.
        closed: ``fin`` or ``rst``; None if the connection is still open.
        client_id: client id in the request headers; None if unknown.
        software_name: name of the client library in ApiVersions; None if unknown.
        software_version: version of the client library in ApiVersions; None if unknown.
        bytes_to_broker: number of bytes that the client sent.
        bytes_to_client: number of bytes that the broker sent.
        segments: number of TCP segments with a payload.
        retransmitted: number of segments with bytes that had been captured before.
        out_of_order: number of segments that were captured while bytes before them were missing.
        conflicts: number of overlapping segments whose bytes differ; the first copy counts.
        gaps: number of places where bytes are missing.
        gap_bytes: number of missing bytes.
        resyncs: number of times that the next frame was found again after frame boundaries were unknown.
        lost: periods in which frames may be missing, as pairs of start and end.
        notes: descriptions of problems in the decoding, as text.
    """

    id: str
    client: str
    broker: str
    first_us: int
    last_us: int
    status: str = KAFKA
    syn_seen: bool = False
    closed: str | None = None
    client_id: str | None = None
    software_name: str | None = None
    software_version: str | None = None
    bytes_to_broker: int = 0
    bytes_to_client: int = 0
    segments: int = 0
    retransmitted: int = 0
    out_of_order: int = 0
    conflicts: int = 0
    gaps: int = 0
    gap_bytes: int = 0
    resyncs: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def remark(self) -> tuple[str, str] | None:
        """The reason why the connection was not decoded completely, and a description of the reason; None if all bytes
        were decoded.
        """
        if self.status == KAFKA and not self.gap_bytes and not self.notes:
            return None
        remarks = list(self.notes)
        if self.gap_bytes:
            remarks.insert(0, f"{counted(self.gap_bytes, 'byte')} missing at {counted(self.gaps, 'place')}")
        if self.status == KAFKA:
            reason = GAPS if self.gap_bytes else ONE_SIDED if NO_RESPONSES in self.notes else NOTED
            return reason, "; ".join(remarks)
        words = NOT_READ[self.status]
        return self.status, "; ".join(remarks if any(note.startswith(words) for note in remarks) else [words, *remarks])


@dataclass(slots=True, kw_only=True)
class Call:
    """A request with its response.

    A request or response that was not captured or not decoded is None, with the cause in ``reason``. Times are
    microseconds since 1970; None if the frame was not captured. Positions are byte offsets of the packet in which the
    frame begins.

    Attributes:
        connection: id of the connection.
        client: ``host:port`` of the client.
        broker: ``host:port`` of the broker.
        number: number of the call on its connection, from 1, in the order in which the calls began. A response without
            a captured request also has a number.
        api_key: API key; None if unknown.
        api_version: version of the request; None if unknown.
        correlation_id: correlation id; None if unknown.
        client_id: client id of the request; None for null or if unknown.
        request_us: time of the request.
        response_us: time of the response.
        request_size: size of the request in bytes; None if it was not captured.
        response_size: size of the response in bytes; None if it was not captured.
        request: decoded request body; also None if the caller did not ask for bodies of this API.
        response: decoded response body; also None if the caller did not ask for bodies of this API.
        response_version: version of the response body; 0 for an ApiVersions response with UNSUPPORTED_VERSION.
        request_raw: frame as bytes, if it could not be decoded, or if ``read`` had ``raw=True``; else None. Also None
            if secrets are redacted and the frame may contain secrets.
        response_raw: frame as bytes or None, under the same conditions as ``request_raw``.
        reason: one of REASONS; None if both frames were captured and decoded as requested.
        group_id: group id of a request whose body is not decoded; None if it is unknown.
        error: decoding error of a frame that is not valid; None if no frame of the call is invalid.
        file: path of the file in which the request begins.
        position: position of the request in ``file``.
        response_file: path of the file in which the response begins.
        response_position: position of the response in ``response_file``.
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
        None  # of the response's body; 0 for an ApiVersions response with UNSUPPORTED_VERSION
    )
    request_raw: bytes | None = None
    response_raw: bytes | None = None
    reason: str | None = None
    group_id: str | None = None  # of a request whose body is not decoded, if its first fields are
    error: str | None = None  # decoding error of bytes that are unreadable
    file: str | None = None  # file in which the request begins, and the byte offset of its packet
    position: int | None = None
    response_file: str | None = None  # file in which the response begins
    response_position: int | None = None
