"""The handler of OffsetFetch v0-10.

As in Kafka 4, the response to a v0 request is UNSUPPORTED_VERSION, because v0 read offsets from ZooKeeper.

The broker does not check the state of the group or whether a partition exists. In v9+, the broker checks the member
epoch in consumer groups (KIP-848) and streams groups.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import field
from typing import TypeAlias, TypeVar
from uuid import UUID

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.response_limit import Room
from mockbroker.broker.broker import Broker
from mockbroker.groups.offsets import Committed, Offsets

NONE = ErrorCode.NONE
NO_OFFSET = Committed(offset=-1)
PARTITION_SIZE = 20  # approximate bytes of a partition in a response, without metadata
EMPTY_OFFSETS = Offsets()
Group = OffsetFetchResponse.Group
Topic = OffsetFetchResponse.Topic
IDS_SINCE = 10  # first version with topic ids instead of names
_RequestedTopic: TypeAlias = tuple[
    str, UUID | None, Iterable[int], ErrorCode
]  # name, id, partition indexes, error of all
RequestedTopics: TypeAlias = Sequence[OffsetFetchRequest.Topic] | Sequence[OffsetFetchRequest.Group.Topic]
PartitionResult = TypeVar(
    "PartitionResult", OffsetFetchResponse.Topic.Partition, OffsetFetchResponse.Group.Topic.Partition
)


@dataclass(slots=True)
class _Slice:
    """A counter of partitions, which divides a large request into slices.

    A slice is a group of partitions that is read at once. The router handles other requests between two slices.

    Attributes:
        size: Maximum number of partitions of a slice.
        remaining: Number of partitions that may still be read in the current slice.
    """

    size: int
    remaining: int = field(init=False)

    def __post_init__(self) -> None:
        self.remaining = self.size

    @property
    def is_used_up(self) -> bool:
        return self.remaining <= 0

    def next(self) -> Effects:
        """Reset ``remaining`` for the next slice, and return [].

        The caller yields the result: [] means that the slice has no effects, such as responses.
        """
        self.remaining = self.size
        return []


@dataclass(frozen=True, slots=True)
class _VisibleOffsets:
    """The committed offsets of a group that a client is allowed to read.

    Attributes:
        offsets: The offsets of the group.
        stable: Whether to return an error for an offset that is pending in a transaction (``require_stable``).
        room: Counter of the size of the response.
    """

    offsets: Offsets
    stable: bool
    room: Room

    def get(self, topic: str, partition: int) -> tuple[Committed, ErrorCode]:
        if self.stable and self.offsets.is_unstable(topic, partition):
            return NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT
        return self.offsets.get(topic, partition) or NO_OFFSET, NONE

    @classmethod
    def of(
        cls,
        broker: Broker,
        call: Call[OffsetFetchRequest],
        group_id: str,
        requested: RequestedTopics | None,
        room: Room,
        slice_: _Slice,
    ) -> _VisibleOffsets:
        """Return the visible offsets of a group.

        For a large request, the result is a copy, so that a commit between two slices (parts of the request) does not
        change the result.

        Args:
            broker: The state of the cluster.
            call: The request, its client, and its ticket (the object that identifies the request).
            group_id: Group id; a group that does not exist has no offsets.
            requested: Topics in the request; None for all topics.
            room: Counter of the size of the response.
            slice_: Counter of the partitions in the current slice.
        """
        group = broker.groups.get(group_id)
        offsets = group.offsets if group else EMPTY_OFFSETS  # a missing group is no error
        size = (
            2 * len(offsets.committed)
            if requested is None
            else sum(1 + len(topic.partition_indexes) for topic in requested)
        )
        return cls(offsets.copy() if size > slice_.remaining else offsets, call.request.require_stable, room)


def handle(broker: Broker, call: Call[OffsetFetchRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    if call.version >= 8:
        if not request.groups and broker.release.quirks.fetch_of_no_group_is_not_answered:
            return []  # Kafka 3.9 never answers this request, nor later ones of the connection
        return begin(call.ticket, _fetch_groups(broker, call))
    return begin(call.ticket, _fetch_one_group(broker, call))


def _fetch_groups(broker: Broker, call: Call[OffsetFetchRequest]) -> Steps:
    """Handle a request for several groups (v8+).

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response.
    """
    room, slice_ = broker.response_room(), _Slice(broker.slice_size)
    # Results of requests for all topics, and their sizes.
    fetched_groups: dict[tuple[str, str | None, int], tuple[Group, int]] = {}
    groups: list[Group] = []
    for requested in call.request.groups:
        if slice_.is_used_up:
            yield slice_.next()
        slice_.remaining -= 1
        key = (requested.group_id, requested.member_id, requested.member_epoch)
        if requested.topics is None and key in fetched_groups:
            group, size = fetched_groups[key]
            room.reserve(size)
        else:
            size_before = room.taken
            group = yield from _fetch_group(broker, call, requested, room, slice_)
            if requested.topics is None:
                fetched_groups[key] = group, room.taken - size_before
        groups.append(group)
    return [Reply(call.ticket, OffsetFetchResponse(groups=groups))]


def _fetch_one_group(broker: Broker, call: Call[OffsetFetchRequest]) -> Steps:
    """Handle a request for one group, with topic names (v0-7).

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response.
    """
    request = call.request
    requested = request.topics
    error = broker.coordinator_error(request.group_id, call.client.node)
    if error and call.version >= 2:
        return [Reply(call.ticket, OffsetFetchResponse(error_code=error))]
    room, slice_ = broker.response_room(), _Slice(broker.slice_size)
    visible = _VisibleOffsets.of(broker, call, request.group_id, requested, room, slice_)
    requested_topics: Iterable[tuple[str, Iterable[int]]]
    if requested is None:
        error, requested_topics = NONE, visible.offsets.by_topic().items()
    else:
        error = ErrorCode.UNSUPPORTED_VERSION if call.version == 0 else error
        requested_topics = [(topic.name, topic.partition_indexes) for topic in requested]
    topics: list[Topic] = []
    for name, indexes in requested_topics:
        partitions = yield from _partition_results(Topic.Partition, visible, slice_, name, indexes, error)
        topics.append(Topic(name=name, partitions=partitions))
    return [Reply(call.ticket, OffsetFetchResponse(topics=topics))]


def _partition_results(
    struct: type[PartitionResult],
    visible: _VisibleOffsets,
    slice_: _Slice,
    name: str,
    indexes: Iterable[int],
    error: int = 0,
) -> Generator[Effects, float, list[PartitionResult]]:
    """Return the results of the partitions of a topic.

    After each slice (see ``_Slice``), the generator yields [] (no effects), so that the router handles other requests.

    Args:
        struct: Class of a partition's result, which depends on the version.
        visible: Committed offsets of the group.
        slice_: Counter of the partitions in the current slice.
        name: Topic name.
        indexes: Partition indexes.
        error: Error code of all partitions, or 0.

    Raises: ResponseTooLargeError if the response exceeds ``mockbroker.response.max.bytes``.
    """
    partitions: list[PartitionResult] = []
    indexes = list(indexes)
    slice_.remaining -= 1
    while len(partitions) < len(indexes):
        if slice_.is_used_up:
            yield slice_.next()
        first = len(partitions)
        chunk = [
            _partition_result(struct, visible, name, index, error)
            for index in indexes[first : first + slice_.remaining]
        ]
        partitions += chunk
        slice_.remaining -= len(chunk)
        visible.room.reserve(sum([PARTITION_SIZE + len(result.metadata or "") for result in chunk]))
    return partitions


def _partition_result(
    struct: type[PartitionResult], visible: _VisibleOffsets, name: str, index: int, error: int
) -> PartitionResult:
    """Return the result of one partition.

    Args:
        struct: Class of the result. The class for v0-7 and the class for v8+ have the same fields.
        visible: Committed offsets of the group.
        name: Topic name.
        index: Partition index.
        error: Error code of the partition, or 0.
    """
    committed, unstable = (NO_OFFSET, NONE) if error else visible.get(name, index)
    return struct(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error or unstable,
    )


def _fetch_group(
    broker: Broker, call: Call[OffsetFetchRequest], requested: OffsetFetchRequest.Group, room: Room, slice_: _Slice
) -> Generator[Effects, float, Group]:
    if error := broker.coordinator_error(requested.group_id, call.client.node):
        return Group(group_id=requested.group_id, error_code=error)
    group = broker.groups.get(requested.group_id)
    if group is not None:
        error = broker.groups.types.of(group).fetch_error(group, requested.member_id, requested.member_epoch)
        if error:
            return Group(group_id=requested.group_id, error_code=error)
    visible = _VisibleOffsets.of(broker, call, requested.group_id, requested.topics, room, slice_)
    requested_topics: list[_RequestedTopic]
    if requested.topics is None:
        cluster_topics = broker.cluster.topics
        requested_topics = [
            (name, cluster_topics[name].topic_id if call.version >= IDS_SINCE else None, partitions, NONE)
            for name, partitions in visible.offsets.by_topic().items()
        ]
    else:
        requested_topics = [_requested_topic(broker, call.version, topic) for topic in requested.topics]
    topics: list[Group.Topic] = []
    for name, topic_id, indexes, error in requested_topics:
        partitions = yield from _partition_results(Group.Topic.Partition, visible, slice_, name, indexes, error)
        if topic_id is None:
            topics.append(Group.Topic(name=name, partitions=partitions))
        else:
            topics.append(Group.Topic(topic_id=topic_id, partitions=partitions))
    return Group(group_id=requested.group_id, topics=topics)


def _requested_topic(broker: Broker, version: int, requested: OffsetFetchRequest.Group.Topic) -> _RequestedTopic:
    """Return name, topic id, partition indexes and error of a topic in a request for several groups (v8+).

    Since v10, requests contain topic ids; before v10, topic names.

    Args:
        broker: The state of the cluster.
        version: API version of the request.
        requested: The topic in the request.
    """
    if version < IDS_SINCE:
        return requested.name, None, requested.partition_indexes, NONE
    topic = broker.cluster.by_id.get(requested.topic_id)
    if topic is None:
        return "", requested.topic_id, requested.partition_indexes, ErrorCode.UNKNOWN_TOPIC_ID
    return topic.name, requested.topic_id, requested.partition_indexes, NONE
