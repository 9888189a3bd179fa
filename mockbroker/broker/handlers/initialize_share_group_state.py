"""The handler of InitializeShareGroupState v0, a request of group coordinators to create the state of share partitions.

Source: Kafka's ShareCoordinatorShard.initializeState.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.broker.share_fetch.state_requests import merge, respond, split
from mockbroker.broker.slices import in_slices
from mockbroker.share.state import StateKey

Partition = InitializeShareGroupStateRequest.Topic.Partition


def _handle(broker: Broker, call: Call[InitializeShareGroupStateRequest], now: float) -> Effects:
    def initialize(key: StateKey, partition: Partition) -> ErrorCode:
        return broker.share_states.initialize(key, partition.state_epoch, partition.start_offset, now)

    return respond(broker, call, InitializeShareGroupStateResponse, initialize)


handle = in_slices(_handle, split, merge)
