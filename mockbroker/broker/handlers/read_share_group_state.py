"""The handler of ReadShareGroupState v0, with which partition leaders read the state of share partitions.

Source: Kafka's ShareCoordinatorShard.readStateAndMaybeUpdateLeaderEpoch.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.broker.share_fetch.state_requests import UNINITIALIZED_READ, merge, respond, split
from mockbroker.broker.slices import in_slices
from mockbroker.share.state import StateKey

Result = ReadShareGroupStateResponse.Topic.Partition


def _handle(broker: Broker, call: Call[ReadShareGroupStateRequest], now: float) -> Effects:
    def read(key: StateKey, partition: ReadShareGroupStateRequest.Topic.Partition) -> Result | ErrorCode:
        state = broker.share_states.read(key, partition.leader_epoch, now)
        if isinstance(state, ErrorCode):
            return state
        return Result(
            partition=key.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[
                Result.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=number, delivery_count=deliveries
                )
                for first, last, number, deliveries in state.batches
            ],
        )

    return respond(broker, call, ReadShareGroupStateResponse, read, UNINITIALIZED_READ)


handle = in_slices(_handle, split, merge)
