"""The handler of ListOffsets v0-11.

v0 lists the base offsets of segments. For v0, a log counts as one segment.

Not modelled: tiered storage (no segment is ever tiered).
"""

from __future__ import annotations

from collections import Counter

from kwire import DecodeError, ErrorCode
from kwire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.delayed_fetch import ISOLATION_LEVELS, READ_COMMITTED
from mockbroker.broker.slices import topics_in_slices
from mockbroker.topics.log import PartitionLog
from mockbroker.topics.model import Partition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
SUPPORTED_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}  # first version
CONSUMER_REPLICA_ID = -1  # replica_id of consumers
LOOKUP_COST = 200  # elements of a slice that a lookup by timestamp counts as, because it decodes records
ResponsePartition = ListOffsetsResponse.Topic.Partition


def handle(broker: Broker, call: Call[ListOffsetsRequest], now: float) -> Effects:
    if call.request.isolation_level not in ISOLATION_LEVELS:
        return begin(call.ticket, _fail(broker, call, ErrorCode.UNKNOWN_SERVER_ERROR))
    return begin(call.ticket, _list_offsets(broker, call, now))


def _fail(broker: Broker, call: Call[ListOffsetsRequest], error: ErrorCode) -> Steps:
    """Respond with the error for each partition of the request, in slices. A duplicate partition occurs twice."""
    topics = yield from topics_in_slices(
        broker,
        call.request.topics,
        lambda topic: ListOffsetsResponse.Topic(name=topic.name, partitions=[]),
        lambda _, partitions: [
            ResponsePartition(partition_index=each.partition_index, error_code=error) for each in partitions
        ],
    )
    return [Reply(call.ticket, ListOffsetsResponse(topics=topics))]


def _list_offsets(broker: Broker, call: Call[ListOffsetsRequest], now: float) -> Steps:
    """List the offset of each partition. A partition that occurs twice gets one result, an error.

    As in Kafka, a topic without partitions is not in the response.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        now: The broker's time in seconds.
    """
    remaining = broker.slice_size
    counts = Counter(
        (topic.name, partition.partition_index) for topic in call.request.topics for partition in topic.partitions
    )
    topics: dict[str, dict[int, ResponsePartition]] = {}
    for topic in call.request.topics:
        results = topics.setdefault(topic.name, {})
        for partition in topic.partitions:
            if remaining <= 0:
                now = yield []
                remaining = broker.slice_size
            remaining -= 1 if partition.timestamp in (EARLIEST, LATEST) else LOOKUP_COST
            index = partition.partition_index
            if counts[topic.name, index] > 1:
                results[index] = ResponsePartition(partition_index=index, error_code=ErrorCode.INVALID_REQUEST)
            else:
                results[index] = _list_offset(broker, call, topic.name, partition, now)
    struct = ListOffsetsResponse.Topic
    listed = [struct(name=name, partitions=list(results.values())) for name, results in topics.items() if results]
    return [Reply(call.ticket, ListOffsetsResponse(topics=listed))]


def _list_offset(
    broker: Broker,
    call: Call[ListOffsetsRequest],
    topic: str,
    requested: ListOffsetsRequest.Topic.Partition,
    now: float,
) -> ResponsePartition:
    index = requested.partition_index
    partition = broker.cluster.partition(topic, index)
    error = broker.leader_error(partition, call.client.node, requested.current_leader_epoch)
    if not error and not _is_supported(requested.timestamp, call.version):
        error = ErrorCode.UNSUPPORTED_VERSION
    if error or partition is None:
        return ResponsePartition(partition_index=index, error_code=error)
    if call.version == 0:
        offsets = _offsets_before(partition.log, requested.timestamp, broker.wall_ms(now))
        return ResponsePartition(partition_index=index, old_style_offsets=offsets[: max(requested.max_num_offsets, 0)])
    try:
        listed = _lookup(partition, requested.timestamp, _readable_end(partition, call.request))
    except DecodeError:  # Produce validates only the header of a batch
        return ResponsePartition(partition_index=index, error_code=ErrorCode.CORRUPT_MESSAGE)
    if listed is None:
        return ResponsePartition(partition_index=index)
    offset, timestamp = listed
    result = ResponsePartition(partition_index=index, offset=offset, timestamp=timestamp)
    if call.version >= 4:  # older versions have no such field, and it is not ignorable
        at_end = requested.timestamp == LATEST
        # A deleted record (timestamp -3) has the leader epoch of the later records of its batch.
        kept = max(offset, partition.log.start)
        result.leader_epoch = partition.leader_epoch if at_end else partition.epochs.of(kept)
    return result


def _offsets_before(log: PartitionLog, timestamp: int, now_ms: int) -> list[int]:
    """Return the offsets of a ListOffsets v0 response, newest first.

    - LATEST, or a timestamp that is not in the past: the log end offset and the log start offset. If the log is empty,
      only the log start offset.
    - EARLIEST: the log start offset.
    - A timestamp in the past: the log start offset if the last record is not newer, else []. If the log is empty, [].

    Args:
        log: the log of the partition.
        timestamp: timestamp of the request in milliseconds since 1970, or EARLIEST or LATEST.
        now_ms: the current time in milliseconds since 1970.
    """
    if timestamp == EARLIEST or log.start == log.end:
        existed = timestamp in (LATEST, EARLIEST) or timestamp >= now_ms
        return [log.start] if existed else []
    if timestamp == LATEST or timestamp >= now_ms:
        return [log.end, log.start]
    return [log.start] if timestamp >= log.last_timestamp else []


def _is_supported(timestamp: int, version: int) -> bool:
    return timestamp >= EARLIEST or SUPPORTED_SINCE.get(timestamp, version + 1) <= version


def _readable_end(partition: Partition, request: ListOffsetsRequest) -> int:
    """Return the offset up to which the client can read.

    For a consumer with read_committed, this is the last stable offset, else the log end offset.
    """
    committed = request.isolation_level == READ_COMMITTED and request.replica_id == CONSUMER_REPLICA_ID
    return partition.last_stable if committed else partition.log.end


def _lookup(partition: Partition, timestamp: int, end: int) -> tuple[int, int] | None:
    """Return the offset that a ListOffsets timestamp selects, and the timestamp of its record.

    The returned timestamp is -1 for the start and the end of the log. The result is None if there is no such offset
    before ``end``.

    Args:
        partition: The partition.
        timestamp: Milliseconds since 1970, or a special value such as EARLIEST.
        end: Offset up to which the client can read.
    """
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


def _before(listed: tuple[int, int] | None, end: int) -> tuple[int, int] | None:
    return listed if listed and listed[0] < end else None
