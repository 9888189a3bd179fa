"""WriteTxnMarkers: v0-2. Between brokers; an admin that ends a hanging transaction sends it as well."""

from __future__ import annotations

from collections.abc import Mapping

from kwire import ErrorCode
from kwire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.delayed_fetch import complete_delayed_fetches
from mockbroker.broker.handlers.handler import Handler
from mockbroker.topics.model import Partition
from mockbroker.transactions.state import Identity

Answer = WriteTxnMarkersResponse.Marker
Marker = WriteTxnMarkersRequest.Marker


def handle(broker: Broker, call: Call[WriteTxnMarkersRequest], now: float) -> Effects:
    """A producer is answered once, however many of the markers are its own; a marker is written to a partition once."""
    effects: Effects = []
    grown: list[Partition] = []
    found: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for marker in call.request.markers:
        topics = found.setdefault(marker.producer_id, {})
        for name, index in dict.fromkeys((topic.name, i) for topic in marker.topics for i in topic.partition_indexes):
            error = _write(broker, call.client.node, marker, name, index, now, grown, effects)
            topics.setdefault(name, {})[index] = error
    markers = [_answer(producer_id, topics) for producer_id, topics in found.items()]
    return [
        *effects,
        *complete_delayed_fetches(broker, grown),
        Reply(call.ticket, WriteTxnMarkersResponse(markers=markers)),
    ]


def _answer(producer_id: int, topics: Mapping[str, Mapping[int, ErrorCode]]) -> Answer:
    line = Answer.Topic.Partition
    return Answer(
        producer_id=producer_id,
        topics=[
            Answer.Topic(name=name, partitions=[line(partition_index=i, error_code=e) for i, e in errors.items()])
            for name, errors in topics.items()
        ],
    )


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
