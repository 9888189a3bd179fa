"""What consumers and brokers of the draft say to each other. It never shipped, so nothing of it has a wire format.

``consumer_id``: None for a consumer that has none, or does not tell it. ``generation``: -1 for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

TopicPartition = tuple[str, int]
Offsets = Mapping[TopicPartition, int]  # the next offset to be read


class Error(Enum):
    """The draft's own errors; later ones of the same name mean other things."""

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
    """To any broker: which one coordinates the group?"""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMetadataResponse:
    error: Error = Error.NONE
    node: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
    """``strategy``: the name of one that the broker knows. ``session_timeout``: seconds."""

    group: str
    consumer_id: str | None
    host: str
    topics: tuple[str, ...]
    strategy: str
    session_timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse:
    """The partitions come from the coordinator: there is no leader and no SyncGroup."""

    error: Error = Error.NONE
    consumer_id: str | None = None
    generation: int = -1
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    group: str
    consumer_id: str | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """IllegalGeneration is how a rebalance is announced."""

    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    group: str
    consumer_id: str | None
    generation: int
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    group: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """What nobody committed yet is left out."""

    error: Error = Error.NONE
    offsets: Offsets = field(default_factory=dict)


GroupRequest = JoinGroupRequest | HeartbeatRequest | OffsetCommitRequest | OffsetFetchRequest
Request = ConsumerMetadataRequest | GroupRequest
Response = ConsumerMetadataResponse | JoinGroupResponse | HeartbeatResponse | OffsetCommitResponse | OffsetFetchResponse


def answer_to(request: GroupRequest, error: Error) -> Response:
    """The response that says this error and nothing else."""
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
    """``JoinGroup`` of a request, ``JoinGroup answer`` of a response."""
    kind = type(message).__name__
    return kind.removesuffix("Request") if kind.endswith("Request") else f"{kind.removesuffix('Response')} answer"
