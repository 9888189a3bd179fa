"""OffsetFetch: v0-10. v0 read from ZooKeeper; a Kafka without it refuses that, and so do we.

Neither the state of the group nor whether a partition exists is looked at; member epochs (v9) are, in a group of the
consumer protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
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
Line = TypeVar("Line", OffsetFetchResponse.Topic.Partition, OffsetFetchResponse.Group.Topic.Partition)


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


def handle(broker: Broker, call: Call[OffsetFetchRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    if call.version >= 8:
        if not request.groups and broker.release.quirks.fetch_of_no_group_is_not_answered:
            return []  # Kafka 3.9 never answers this, nor what follows on the connection
        room = broker.response_room()
        known: dict[tuple[str, str | None, int], Group] = {}  # of which everything was asked for
        groups: list[Group] = []
        for asked in request.groups:
            key = (asked.group_id, asked.member_id, asked.member_epoch)
            if asked.topics is None and key in known:
                room.take(_size(known[key]))
                groups.append(known[key])
                continue
            groups.append(_group(broker, call, asked, room))
            if asked.topics is None:
                known[key] = groups[-1]
        return [Reply(call.ticket, OffsetFetchResponse(groups=groups))]
    return [Reply(call.ticket, _one_group(broker, call))]


def _one_group(broker: Broker, call: Call[OffsetFetchRequest]) -> OffsetFetchResponse:
    """v0-7: the group stands in the request itself, and topics have names."""
    request = call.request
    asked = request.topics
    error = broker.coordinator_error(request.group_id, call.client.node)
    if error and call.version >= 2:
        return OffsetFetchResponse(error_code=error)
    seen = _Seen(_offsets(broker, request.group_id), request.require_stable, broker.response_room())
    if asked is None:
        return OffsetFetchResponse(topics=[_topic(seen, *item) for item in seen.offsets.by_topic().items()])
    if call.version == 0:
        error = ErrorCode.UNSUPPORTED_VERSION
    topics = [_topic(seen, topic.name, topic.partition_indexes, error) for topic in asked]
    return OffsetFetchResponse(topics=topics)


def _topic(seen: _Seen, name: str, indexes: Iterable[int], error: int = 0) -> Topic:
    partitions = [_line(Topic.Partition, seen, name, index, error) for index in indexes]
    seen.room.take(_lines_size(partitions))
    return Topic(name=name, partitions=partitions)


def _lines_size(partitions: Iterable[Line]) -> int:
    return sum([PARTITION + len(line.metadata or "") for line in partitions])


def _size(group: Group) -> int:
    return sum(_lines_size(topic.partitions) for topic in group.topics)


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


def _group(broker: Broker, call: Call[OffsetFetchRequest], asked: OffsetFetchRequest.Group, room: Room) -> Group:
    if error := broker.coordinator_error(asked.group_id, call.client.node):
        return Group(group_id=asked.group_id, error_code=error)
    group = broker.groups.get(asked.group_id)
    if group is not None:
        error = broker.groups.types.of(group).fetch_error(group, asked.member_id, asked.member_epoch)
        if error:
            return Group(group_id=asked.group_id, error_code=error)
    seen = _Seen(_offsets(broker, asked.group_id), call.request.require_stable, room)
    if asked.topics is None:
        named = broker.cluster.topics
        topics = [
            _group_topic(seen, name, named[name].topic_id if call.version >= 10 else None, partitions)
            for name, partitions in seen.offsets.by_topic().items()
        ]
    else:
        topics = [_asked_of(broker, call.version, seen, topic) for topic in asked.topics]
    return Group(group_id=asked.group_id, topics=topics)


def _asked_of(broker: Broker, version: int, seen: _Seen, asked: OffsetFetchRequest.Group.Topic) -> Group.Topic:
    if version < 10:
        return _group_topic(seen, asked.name, None, asked.partition_indexes)
    topic = broker.cluster.by_id.get(asked.topic_id)
    if topic is None:
        return _group_topic(seen, "", asked.topic_id, asked.partition_indexes, ErrorCode.UNKNOWN_TOPIC_ID)
    return _group_topic(seen, topic.name, asked.topic_id, asked.partition_indexes)


def _group_topic(seen: _Seen, name: str, topic_id: UUID | None, indexes: Iterable[int], error: int = 0) -> Group.Topic:
    """v8+; from v10 on the topic has its id instead of its name."""
    partitions = [_line(Group.Topic.Partition, seen, name, index, error) for index in indexes]
    seen.room.take(_lines_size(partitions))
    if topic_id is None:
        return Group.Topic(name=name, partitions=partitions)
    return Group.Topic(topic_id=topic_id, partitions=partitions)


def _offsets(broker: Broker, group_id: str) -> Offsets:
    """What a group has committed; a group that does not exist has nothing, which is no error."""
    group = broker.groups.get(group_id)
    return group.offsets if group else NO_OFFSETS


HANDLER = Handler(Versions.parse("0-10"), handle)
