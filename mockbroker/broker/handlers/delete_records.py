"""The handler of DeleteRecords v0-2.

The handler advances the log start offset, and deletes the batches that end before this offset.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.completion import complete_delayed_fetches
from mockbroker.broker.slices import chunks
from mockbroker.topics.model import INTERNAL, Partition

ResponseTopic = DeleteRecordsResponse.Topic
HIGH_WATERMARK = -1
UNKNOWN = -1


def handle(broker: Broker, call: Call[DeleteRecordsRequest], now: float) -> Effects:  # noqa: ARG001
    """Delete the records before the requested offsets. If a request lists a partition twice, the last entry is used.

    As in Kafka, a topic without partitions is not in the response.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    return begin(call.ticket, _delete_in_slices(broker, call))


def _delete_in_slices(broker: Broker, call: Call[DeleteRecordsRequest]) -> Steps:
    topics = {
        each.name: ResponseTopic(name=each.name, partitions=[]) for each in call.request.topics if each.partitions
    }
    requested: dict[tuple[str, int], int] = {}
    for topic in call.request.topics:
        requested |= {(topic.name, each.partition_index): each.offset for each in topic.partitions}
    effects: Effects = []
    for number, part in enumerate(chunks(list(requested.items()), broker.slice_size)):
        if number:
            yield effects
        truncated: list[Partition] = []
        for (name, index), offset in part:
            topics[name].partitions.append(_delete(broker, call.client.node, name, index, offset, truncated))
        effects = complete_delayed_fetches(broker, truncated)
    return [*effects, Reply(call.ticket, DeleteRecordsResponse(topics=list(topics.values())))]


def _delete(
    broker: Broker, node: int, topic: str, index: int, offset: int, truncated: list[Partition]
) -> ResponseTopic.Partition:
    """Delete the records of a partition before an offset, and return the result.

    Args:
        broker: The state of the cluster.
        node: Id of the broker that received the request.
        topic: Topic name.
        index: Partition index.
        offset: New log start offset; HIGH_WATERMARK for the log end offset.
        truncated: List to which the partition is added after success. The caller checks the delayed fetches of these
            partitions.
    """
    partition = broker.cluster.partition(topic, index)
    error = broker.leader_error(partition, node)
    if topic in INTERNAL:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    if error or partition is None:
        return ResponseTopic.Partition(partition_index=index, low_watermark=UNKNOWN, error_code=error)
    log = partition.log
    until = log.end if offset == HIGH_WATERMARK else offset
    if not 0 <= until <= log.end:
        return ResponseTopic.Partition(
            partition_index=index, low_watermark=UNKNOWN, error_code=ErrorCode.OFFSET_OUT_OF_RANGE
        )
    partition.delete_before(until)
    truncated.append(partition)
    return ResponseTopic.Partition(partition_index=index, low_watermark=log.start)
