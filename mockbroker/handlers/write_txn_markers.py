"""WriteTxnMarkers: v0-2. Between brokers; an admin that ends a hanging transaction sends it as well."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.cluster.model import Partition
from mockbroker.handlers import fetch
from mockbroker.handlers.handler import Handler
from mockbroker.transaction.state import Identity

Answer = WriteTxnMarkersResponse.Marker
Marker = WriteTxnMarkersRequest.Marker


def handle(broker: Broker, call: Call[WriteTxnMarkersRequest], now: float) -> Effects:
    effects: Effects = []
    grown: list[Partition] = []
    response = WriteTxnMarkersResponse()
    for marker in call.request.markers:
        topics = [
            Answer.Topic(
                name=topic.name,
                partitions=[
                    Answer.Topic.Partition(
                        partition_index=index,
                        error_code=_write(broker, call.client.node, marker, topic.name, index, now, grown, effects),
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ]
        response.markers.append(Answer(producer_id=marker.producer_id, topics=topics))
    return [*effects, *fetch.all_appended(broker, grown), Reply(call.ticket, response)]


def _write(
    broker: Broker,
    node: int,
    marker: Marker,
    topic: str,
    index: int,
    now: float,
    grown: list[Partition],
    effects: Effects,
) -> ErrorCode:
    partition = broker.cluster.partition(topic, index)
    error = broker.leader_error(partition, node)
    if error or partition is None:
        return error
    error, notes = broker.transactions.write_marker(
        partition,
        Identity(marker.producer_id, marker.producer_epoch),
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        now=now,
    )
    effects += notes
    if not error:
        grown.append(partition)
    return error


HANDLER = Handler(Versions.parse("0-2"), handle)
