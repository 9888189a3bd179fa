"""The requests and responses of the draft protocol, which was never released and has no wire format.

``consumer_id`` is None if the consumer has no id or does not send it. ``generation`` is -1 without a generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from kwire.lazy_dataclass import dataclass

TopicPartition = tuple[str, int]
Offsets = Mapping[TopicPartition, int]  # partition -> next offset to read


class Error(Enum):
    """The errors of the draft protocol. Kafka's errors with similar names have different meanings."""

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
    """A request for the coordinator of a group; any broker can respond. ``group``: group id."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMetadataResponse:
    """The response to a coordinator lookup.

    Attributes:
        error: error of the lookup; NONE if it succeeded.
        node: broker id of the coordinator; -1 if it is unknown.
    """

    error: Error = Error.NONE
    node: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
    """A request to join a group.

    Attributes:
        group: group id.
        consumer_id: id of the consumer; None if the consumer has no id or does not send it.
        host: host of the consumer.
        topics: subscribed topics.
        strategy: name of an assignment strategy.
        session_timeout: session timeout in seconds.
    """

    group: str
    consumer_id: str | None
    host: str
    topics: tuple[str, ...]
    strategy: str
    session_timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse:
    """The response to JoinGroup, with the assigned partitions. The protocol has no leader and no SyncGroup.

    Attributes:
        error: error of the request; NONE if it succeeded.
        consumer_id: id of the consumer, from the coordinator; None after an error.
        generation: generation of the group; -1 after an error.
        partitions: partitions that are assigned to the consumer.
    """

    error: Error = Error.NONE
    consumer_id: str | None = None
    generation: int = -1
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A heartbeat: a member shows that its process is running.

    Attributes:
        group: group id.
        consumer_id: id of the consumer; None if the consumer has no id.
        generation: generation of the consumer; -1 without a generation.
    """

    group: str
    consumer_id: str | None
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """The response to a heartbeat.

    ``error``: NONE, or the error; IllegalGeneration means that a rebalance has begun.
    """

    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """A request by which a member commits offsets.

    Attributes:
        group: group id.
        consumer_id: id of the consumer; None if the consumer has no id.
        generation: generation of the consumer; -1 without a generation.
        offsets: next offset to read, by partition.
    """

    group: str
    consumer_id: str | None
    generation: int
    offsets: Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    """The response to OffsetCommit. ``error``: NONE if the offsets were committed."""

    error: Error = Error.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """A request for the committed offsets of partitions.

    Attributes:
        group: group id.
        partitions: the partitions.
    """

    group: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """The response with committed offsets.

    Attributes:
        error: error of the request; NONE if it succeeded.
        offsets: next offset to read, by partition. Partitions without a committed offset are left out.
    """

    error: Error = Error.NONE
    offsets: Offsets = field(default_factory=dict)


GroupRequest = JoinGroupRequest | HeartbeatRequest | OffsetCommitRequest | OffsetFetchRequest
Request = ConsumerMetadataRequest | GroupRequest
Response = ConsumerMetadataResponse | JoinGroupResponse | HeartbeatResponse | OffsetCommitResponse | OffsetFetchResponse


def answer_to(request: GroupRequest, error: Error) -> Response:
    """Return the response to a request of a consumer, with an error and the default values in all other fields."""
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
