"""The requests and responses of the draft protocol, which was never released and has no wire format.

``consumer_id`` is None if the consumer has no id or does not send it. ``generation`` is -1 without a generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

TopicPartition = tuple[str, int]
Offsets = Mapping[TopicPartition, int]  # partition -> next offset to read


class Error(Enum):
    """The errors of the draft protocol. Kafka has errors with the same names but other meanings."""

    NONE = "none"
    ILLEGAL_GENERATION = "IllegalGeneration"
    COORDINATOR_STARTUP_NOT_COMPLETE = "CoordinatorStartupNotComplete"
    INCONSISTENT_PARTITIONING_STRATEGY = "InconsistentPartitioningStrategy"
    UNKNOWN_PARTITIONING_STRATEGY = "UnknownPartitioningStrategy"
    UNKNOWN_CONSUMER = "UnknownConsumer"
    ILLEGAL_PROTOCOL_STATE = "IllegalProtocolState"
    NOT_COORDINATOR_FOR_GROUP = "NotCoordinatorForGroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMetadataRequest:
    """A lookup of the coordinator of a group, to which any broker can respond."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMetadataResponse:
    """The response to a coordinator lookup. ``node``: broker id of the coordinator; -1 if it is unknown."""

    error: Error = Error.NONE
    node: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
    """A request to join a group.

    ``strategy``: name of an assignment strategy. ``session_timeout``: session timeout in seconds.
    """

    group: str
    consumer_id: str | None
    host: str
    topics: tuple[str, ...]
    strategy: str
    session_timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse:
    """The response to JoinGroup, with the assigned partitions. The protocol has no leader and no SyncGroup."""

    error: Error = Error.NONE
    consumer_id: str | None = None
    generation: int = -1
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A request by which a member shows that it is alive."""

    group: str
    consumer_id: str | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """The response to a heartbeat. The error IllegalGeneration means that a rebalance has begun."""

    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """A request by which a member commits offsets."""

    group: str
    consumer_id: str | None
    generation: int
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    """The response to OffsetCommit."""

    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """A request for the committed offsets of partitions."""

    group: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """The response with committed offsets. Partitions without a committed offset are left out."""

    error: Error = Error.NONE
    offsets: Offsets = field(default_factory=dict)


GroupRequest = JoinGroupRequest | HeartbeatRequest | OffsetCommitRequest | OffsetFetchRequest
Request = ConsumerMetadataRequest | GroupRequest
Response = ConsumerMetadataResponse | JoinGroupResponse | HeartbeatResponse | OffsetCommitResponse | OffsetFetchResponse


def answer_to(request: GroupRequest, error: Error) -> Response:
    """Return the response to a request that contains only an error."""
    match request:
        case JoinGroupRequest():
            return JoinGroupResponse(error=error)
        case HeartbeatRequest():
            return HeartbeatResponse(error=error)
        case OffsetCommitRequest():
            return OffsetCommitResponse(error=error)
        case OffsetFetchRequest():
            return OffsetFetchResponse(error=error)


def name(message: Request | Response) -> str:
    """Return the name of a message in the trace, such as ``JoinGroup`` or ``JoinGroup answer``."""
    kind = type(message).__name__
    return kind.removesuffix("Request") if kind.endswith("Request") else f"{kind.removesuffix('Response')} answer"
