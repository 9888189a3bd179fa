"""The handler of WriteShareGroupState v0-1.

With this request, partition leaders store changes of the state of share partitions.

Source: Kafka's ShareCoordinatorShard.writeState.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.write_share_group_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.broker.share_fetch.state_requests import UNINITIALIZED_WRITE, merge, respond, split
from mockbroker.broker.slices import in_slices
from mockbroker.share.state import StateBatch, StateKey, combined
from mockbroker.share.states import StateChange


def _handle(broker: Broker, call: Call[WriteShareGroupStateRequest], now: float) -> Effects:
    def write(key: StateKey, partition: WriteShareGroupStateRequest.Topic.Partition) -> ErrorCode:
        batches = [
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in partition.state_batches
        ]
        change = StateChange(
            partition.state_epoch,
            partition.leader_epoch,
            partition.start_offset,
            partition.delivery_complete_count,
            combined(batches, partition.start_offset),
        )
        return broker.share_states.write(key, change, now)

    return respond(broker, call, WriteShareGroupStateResponse, write, UNINITIALIZED_WRITE)


handle = in_slices(_handle, split, merge)
