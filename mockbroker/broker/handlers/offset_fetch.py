"""OffsetFetch: v0-10. v0 read from ZooKeeper; a Kafka without it refuses that, and so do we.

Neither the state of the group nor whether a partition exists is looked at; member epochs (v9) are, in a group of the
consumer protocol.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.response_limit import Room
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.groups.offsets import Committed, Offsets

NONE = ErrorCode.NONE
NOTHING = Committed(offset=-1)
PARTITION = 20  # bytes in a response without metadata
NO_OFFSETS = Offsets()
Group = OffsetFetchResponse.Group
Topic = OffsetFetchResponse.Topic
IDS_SINCE = 10  # the version from which on topics have ids instead of names
_WantedTopic: TypeAlias = tuple[str, UUID | None, Iterable[int], ErrorCode]  # name, id, partitions, error of all
Asked: TypeAlias = Sequence[OffsetFetchRequest.Topic] | Sequence[OffsetFetchRequest.Group.Topic]
Line = TypeVar("Line", OffsetFetchResponse.Topic.Partition, OffsetFetchResponse.Group.Topic.Partition)


@dataclass(slots=True)
class _Slice:
    """``size``: partitions of a slice; ``left``: how many of this one remain."""

    size: int
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.size

    @property
    def is_over(self) -> bool:
        return self.left <= 0

    def next(self) -> Effects:
        """Begin the next slice; there are no effects before the last one."""
        self.left = self.size
        return []


@dataclass(frozen=True, slots=True)
class _Seen:
    """A group's offsets as the client may see them. ``stable``: not while a transaction may change them.

    ``room``: the size that remains for them in the response.
    """

    offsets: Offsets
    stable: bool
    room: Room

    def get(self, topic: str, partition: int) -> tuple[Committed, ErrorCode]:
        if self.stable and self.offsets.is_unstable(topic, partition):
            return NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
        return self.offsets.get(topic, partition) or NOTHING, NONE

    @classmethod
    def of(
        cls,
        broker: Broker,
        call: Call[OffsetFetchRequest],
        group_id: str,
        asked: Asked | None,
        room: Room,
        slice_: _Slice,
    ) -> _Seen:
        """Read by one request, all at the same time: what takes more than one slice is read from a copy."""
        group = broker.groups.get(group_id)
        offsets = group.offsets if group else NO_OFFSETS  # that a group does not exist is no error
        most = 2 * len(offsets.committed) if asked is None else sum(1 + len(topic.partition_indexes) for topic in asked)
        return cls(offsets.copy() if most > slice_.left else offsets, call.request.require_stable, room)


def handle(broker: Broker, call: Call[OffsetFetchRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    if call.version >= 8:
        if not request.groups and broker.release.quirks.fetch_of_no_group_is_not_answered:
            return []  # Kafka 3.9 never answers this, nor what follows on the connection
        return begin(call.ticket, _groups(broker, call))
    return begin(call.ticket, _one_group(broker, call))


def _groups(broker: Broker, call: Call[OffsetFetchRequest]) -> Steps:
    """v8+: any number of groups."""
    room, slice_ = broker.response_room(), _Slice(broker.slice_size)
    known: dict[tuple[str, str | None, int], tuple[Group, int]] = {}  # of which everything was asked for, and its size
    groups: list[Group] = []
    for asked in call.request.groups:
        if slice_.is_over:
            yield slice_.next()
        slice_.left -= 1
        key = (asked.group_id, asked.member_id, asked.member_epoch)
        if asked.topics is None and key in known:
            group, size = known[key]
            room.reserve(size)
        else:
            before = room.taken
            group = yield from _group(broker, call, asked, room, slice_)
            if asked.topics is None:
                known[key] = group, room.taken - before
        groups.append(group)
    return [Reply(call.ticket, OffsetFetchResponse(groups=groups))]


def _one_group(broker: Broker, call: Call[OffsetFetchRequest]) -> Steps:
    """v0-7: the group stands in the request itself, and topics have names."""
    request = call.request
    asked = request.topics
    error = broker.coordinator_error(request.group_id, call.client.node)
    if error and call.version >= 2:
        return [Reply(call.ticket, OffsetFetchResponse(error_code=error))]
    room, slice_ = broker.response_room(), _Slice(broker.slice_size)
    seen = _Seen.of(broker, call, request.group_id, asked, room, slice_)
    wanted: Iterable[tuple[str, Iterable[int]]]
    if asked is None:
        error, wanted = NONE, seen.offsets.by_topic().items()
    else:
        error = ErrorCode.UNSUPPORTED_VERSION if call.version == 0 else error
        wanted = [(topic.name, topic.partition_indexes) for topic in asked]
    topics: list[Topic] = []
    for name, indexes in wanted:
        partitions = yield from _lines(Topic.Partition, seen, slice_, name, indexes, error)
        topics.append(Topic(name=name, partitions=partitions))
    return [Reply(call.ticket, OffsetFetchResponse(topics=topics))]


def _lines(
    kind: type[Line], seen: _Seen, slice_: _Slice, name: str, indexes: Iterable[int], error: int = 0
) -> Generator[Effects, float, list[Line]]:
    """The partitions of a topic. Raises: ResponseTooLargeError."""
    partitions: list[Line] = []
    indexes = list(indexes)
    slice_.left -= 1
    while len(partitions) < len(indexes):
        if slice_.is_over:
            yield slice_.next()
        first = len(partitions)
        found = [_line(kind, seen, name, index, error) for index in indexes[first : first + slice_.left]]
        partitions += found
        slice_.left -= len(found)
        seen.room.reserve(sum([PARTITION + len(line.metadata or "") for line in found]))
    return partitions


def _line(kind: type[Line], seen: _Seen, name: str, index: int, error: int) -> Line:
    """One partition, in the struct of v0-7 or that of v8+, which have the same fields."""
    found, unstable = (NOTHING, NONE) if error else seen.get(name, index)
    return kind(
        partition_index=index,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=error or unstable,
    )


def _group(
    broker: Broker, call: Call[OffsetFetchRequest], asked: OffsetFetchRequest.Group, room: Room, slice_: _Slice
) -> Generator[Effects, float, Group]:
    if error := broker.coordinator_error(asked.group_id, call.client.node):
        return Group(group_id=asked.group_id, error_code=error)
    group = broker.groups.get(asked.group_id)
    if group is not None:
        error = broker.groups.types.of(group).fetch_error(group, asked.member_id, asked.member_epoch)
        if error:
            return Group(group_id=asked.group_id, error_code=error)
    seen = _Seen.of(broker, call, asked.group_id, asked.topics, room, slice_)
    wanted: list[_WantedTopic]
    if asked.topics is None:
        named = broker.cluster.topics
        wanted = [
            (name, named[name].topic_id if call.version >= IDS_SINCE else None, partitions, NONE)
            for name, partitions in seen.offsets.by_topic().items()
        ]
    else:
        wanted = [_wanted(broker, call.version, topic) for topic in asked.topics]
    topics: list[Group.Topic] = []
    for name, topic_id, indexes, error in wanted:
        partitions = yield from _lines(Group.Topic.Partition, seen, slice_, name, indexes, error)
        if topic_id is None:
            topics.append(Group.Topic(name=name, partitions=partitions))
        else:
            topics.append(Group.Topic(topic_id=topic_id, partitions=partitions))
    return Group(group_id=asked.group_id, topics=topics)


def _wanted(broker: Broker, version: int, asked: OffsetFetchRequest.Group.Topic) -> _WantedTopic:
    """From v10 on a topic has its id instead of its name."""
    if version < IDS_SINCE:
        return asked.name, None, asked.partition_indexes, NONE
    topic = broker.cluster.by_id.get(asked.topic_id)
    if topic is None:
        return "", asked.topic_id, asked.partition_indexes, ErrorCode.UNKNOWN_TOPIC_ID
    return topic.name, asked.topic_id, asked.partition_indexes, NONE


HANDLER = Handler(Versions.parse("0-10"), handle)
