"""The handler of WriteTxnMarkers v0-2, a request of transaction coordinators.

An admin client also sends the request, to abort a hanging transaction.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire import ErrorCode
from kwire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.completion import complete_delayed_fetches
from mockbroker.broker.slices import chunks
from mockbroker.topics.model import Partition
from mockbroker.transactions.state import Identity

ResponseMarker = WriteTxnMarkersResponse.Marker
PartitionResult = ResponseMarker.Topic.Partition
RequestMarker = WriteTxnMarkersRequest.Marker


def handle(broker: Broker, call: Call[WriteTxnMarkersRequest], now: float) -> Effects:
    """Write transaction markers to partitions.

    If a marker of the request lists a partition twice, the marker is written to the partition once. The response
    contains each producer id once.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    return begin(call.ticket, _write_in_slices(broker, call, now))


def _write_in_slices(broker: Broker, call: Call[WriteTxnMarkersRequest], now: float) -> Steps:
    results: dict[int, dict[str, dict[int, PartitionResult]]] = {}
    effects: Effects = []
    handled = 0
    for marker in call.request.markers:
        topics = results.setdefault(marker.producer_id, {})
        partitions = dict.fromkeys((topic.name, i) for topic in marker.topics for i in topic.partition_indexes)
        for part in chunks(list(partitions), broker.slice_size):
            if handled >= broker.slice_size:
                handled = 0
                now = yield effects
                effects = []
            handled += len(part)
            appended: list[Partition] = []
            for name, index in part:
                error = _write(broker, call.client.node, marker, name, index, now, appended, effects)
                topics.setdefault(name, {})[index] = PartitionResult(partition_index=index, error_code=error)
            effects += complete_delayed_fetches(broker, appended)
    markers = [_response_marker(producer_id, topics) for producer_id, topics in results.items()]
    return [*effects, Reply(call.ticket, WriteTxnMarkersResponse(markers=markers))]


def _response_marker(producer_id: int, topics: Mapping[str, Mapping[int, PartitionResult]]) -> ResponseMarker:
    return ResponseMarker(
        producer_id=producer_id,
        topics=[
            ResponseMarker.Topic(name=name, partitions=list(partitions.values())) for name, partitions in topics.items()
        ],
    )


def _write(
    broker: Broker,
    node: int,
    marker: RequestMarker,
    topic: str,
    index: int,
    now: float,
    appended: list[Partition],
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
        transaction_version=marker.transaction_version,
        now=now,
    )
    effects += notes
    if not error:
        appended.append(partition)
    return error
