"""DeleteRecords: v0-2. The log begins later, and what nobody can read any more is dropped."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.delayed_fetch import complete_delayed_fetches
from mockbroker.broker.handlers.handler import Handler
from mockbroker.topics.model import INTERNAL, Partition

Answer = DeleteRecordsResponse.Topic
TO_THE_END = -1
NOWHERE = -1


def handle(broker: Broker, call: Call[DeleteRecordsRequest], now: float) -> Effects:  # noqa: ARG001
    """Of a partition that is named twice the last offset counts."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in call.request.topics:
        wanted.setdefault(topic.name, {}).update((asked.partition_index, asked.offset) for asked in topic.partitions)
    cut: list[Partition] = []
    topics = [
        Answer(
            name=name,
            partitions=[_delete(broker, call.client.node, name, index, at, cut) for index, at in offsets.items()],
        )
        for name, offsets in wanted.items()
    ]
    return [*complete_delayed_fetches(broker, cut), Reply(call.ticket, DeleteRecordsResponse(topics=topics))]


def _delete(broker: Broker, node: int, topic: str, index: int, offset: int, cut: list[Partition]) -> Answer.Partition:
    """``cut``: gets the partition if it begins later; fetches may wait there for what is gone."""
    partition = broker.cluster.partition(topic, index)
    error = broker.leader_error(partition, node)
    if topic in INTERNAL:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    if error or partition is None:
        return Answer.Partition(partition_index=index, low_watermark=NOWHERE, error_code=error)
    log = partition.log
    until = log.end if offset == TO_THE_END else offset
    if not 0 <= until <= log.end:
        return Answer.Partition(partition_index=index, low_watermark=NOWHERE, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    log.delete_before(until)
    cut.append(partition)
    return Answer.Partition(partition_index=index, low_watermark=log.start)


HANDLER = Handler(Versions.parse("0-2"), handle)
