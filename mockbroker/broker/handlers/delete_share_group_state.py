"""The handler of DeleteShareGroupState v0, a request of group coordinators to delete the state of share partitions.

Source: Kafka's ShareCoordinatorShard.deleteState.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.delete_share_group_state import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.broker.share_fetch.state_requests import merge, respond, split
from mockbroker.broker.slices import in_slices
from mockbroker.share.state import StateKey


def _handle(broker: Broker, call: Call[DeleteShareGroupStateRequest], now: float) -> Effects:
    def delete(key: StateKey, _: DeleteShareGroupStateRequest.Topic.Partition) -> ErrorCode:
        topic = broker.cluster.by_id.get(key.topic_id)
        if topic is None or topic.partition(key.partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return broker.share_states.delete(key, now)

    return respond(broker, call, DeleteShareGroupStateResponse, delete)


handle = in_slices(_handle, split, merge)
