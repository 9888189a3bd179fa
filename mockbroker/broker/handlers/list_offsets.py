"""ListOffsets: v0-11. v0 tells where segments begin; a log here has one.

Not modelled: tiered storage (nothing is ever tiered).
"""

from __future__ import annotations

from collections import Counter

from kwire import DecodeError, ErrorCode
from kwire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.topics.log import PartitionLog
from mockbroker.topics.model import Partition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}  # question -> version
CONSUMER = -1  # replica_id of whoever is no replica
READ_COMMITTED = 1
LOOK_UP = 200  # elements of a slice that looking for a timestamp is worth: a batch is opened
Answer = ListOffsetsResponse.Topic.Partition


def handle(broker: Broker, call: Call[ListOffsetsRequest], now: float) -> Effects:
    return begin(call.ticket, _answered(broker, call, now))


def _answered(broker: Broker, call: Call[ListOffsetsRequest], now: float) -> Steps:
    """Each partition is answered once; one that is named twice is refused."""
    left = broker.slice_size
    named = Counter(
        (topic.name, partition.partition_index) for topic in call.request.topics for partition in topic.partitions
    )
    topics: dict[str, dict[int, Answer]] = {}
    for topic in call.request.topics:
        answers = topics.setdefault(topic.name, {})
        for partition in topic.partitions:
            if left <= 0:
                now = yield []
                left = broker.slice_size
            left -= 1 if partition.timestamp in (EARLIEST, LATEST) else LOOK_UP
            index = partition.partition_index
            if named[topic.name, index] > 1:
                answers[index] = Answer(partition_index=index, error_code=ErrorCode.INVALID_REQUEST)
            else:
                answers[index] = _answer(broker, call, topic.name, partition, now)
    kind = ListOffsetsResponse.Topic
    found = [kind(name=name, partitions=list(answers.values())) for name, answers in topics.items()]
    return [Reply(call.ticket, ListOffsetsResponse(topics=found))]


def _answer(
    broker: Broker, call: Call[ListOffsetsRequest], topic: str, asked: ListOffsetsRequest.Topic.Partition, now: float
) -> Answer:
    index = asked.partition_index
    partition = broker.cluster.partition(topic, index)
    error = broker.leader_error(partition, call.client.node, asked.current_leader_epoch)
    if not error and not _known_question(asked.timestamp, call.version):
        error = ErrorCode.UNSUPPORTED_VERSION
    if error or partition is None:
        return Answer(partition_index=index, error_code=error)
    if call.version == 0:
        offsets = _segments(partition.log, asked.timestamp, broker.wall_ms(now))
        return Answer(partition_index=index, old_style_offsets=offsets[: max(asked.max_num_offsets, 0)])
    try:
        found = _look_up(partition, asked.timestamp, _end(partition, call.request))
    except DecodeError:  # Produce looks at the header only, so what is stored may turn out to be no records
        return Answer(partition_index=index, error_code=ErrorCode.CORRUPT_MESSAGE)
    if found is None:
        return Answer(partition_index=index)
    offset, timestamp = found
    answer = Answer(partition_index=index, offset=offset, timestamp=timestamp)
    if call.version >= 4:  # older versions have no place for it, and it may not be dropped in silence
        at_end = asked.timestamp == LATEST
        answer.leader_epoch = partition.leader_epoch if at_end else partition.epochs.of(offset)
    return answer


def _segments(log: PartitionLog, timestamp: int, now_ms: int) -> list[int]:
    """The end and the start of the log, if they were there at that time."""
    if timestamp == EARLIEST or log.start == log.end:
        there = timestamp in (LATEST, EARLIEST) or timestamp >= now_ms
        return [log.start] if there else []
    if timestamp == LATEST or timestamp >= now_ms:
        return [log.end, log.start]
    return [log.start] if timestamp >= log.last_timestamp else []


def _known_question(timestamp: int, version: int) -> bool:
    return timestamp >= EARLIEST or SINCE.get(timestamp, version + 1) <= version


def _end(partition: Partition, request: ListOffsetsRequest) -> int:
    """Where the log ends for whoever asks: consumers may want to see committed records only."""
    committed = request.isolation_level == READ_COMMITTED and request.replica_id == CONSUMER
    return partition.last_stable if committed else partition.log.end


def _look_up(partition: Partition, timestamp: int, end: int) -> tuple[int, int] | None:
    """Offset and timestamp; a timestamp of -1 where the question is not about one."""
    log = partition.log
    match timestamp:
        case -1:
            return end, -1
        case -2 | -4:
            return log.start, -1
        case -3:
            return _before(log.at_largest_timestamp(), end)
        case -5 | -6:
            return None
        case _:
            return _before(log.at_timestamp(timestamp), end)


def _before(found: tuple[int, int] | None, end: int) -> tuple[int, int] | None:
    return found if found and found[0] < end else None


HANDLER = Handler(Versions.parse("0-11"), handle)
