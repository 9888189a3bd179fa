"""The handler of ReadShareGroupStateSummary v0-1.

With this request, group coordinators read the start offsets of share partitions.

Source: Kafka's ShareCoordinatorShard.readStateSummary.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.broker.share_fetch.state_requests import merge, respond, split
from mockbroker.broker.slices import in_slices
from mockbroker.share.state import UNINITIALIZED, StateKey
from mockbroker.share.states import StateSummary

Result = ReadShareGroupStateSummaryResponse.Topic.Partition
UNKNOWN = StateSummary(0, UNINITIALIZED, 0, UNINITIALIZED)  # of a partition that was not initialized


def _handle(broker: Broker, call: Call[ReadShareGroupStateSummaryRequest], now: float) -> Effects:  # noqa: ARG001
    def read(key: StateKey, _: ReadShareGroupStateSummaryRequest.Topic.Partition) -> Result | ErrorCode:
        topic = broker.cluster.by_id.get(key.topic_id)
        if topic is None or topic.partition(key.partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        summary = broker.share_states.summary(key) or UNKNOWN
        return Result(
            partition=key.partition,
            state_epoch=summary.state_epoch,
            leader_epoch=summary.leader_epoch,
            start_offset=summary.start_offset,
            delivery_complete_count=summary.complete_count,
        )

    return respond(broker, call, ReadShareGroupStateSummaryResponse, read)


handle = in_slices(_handle, split, merge)
