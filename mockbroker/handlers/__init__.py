"""What is served: one handler an API, in a file of the API's name."""

from __future__ import annotations

from collections.abc import Mapping

from mockbroker.handlers import (
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_handshake,
    sync_group,
)
from mockbroker.handlers.handler import Handler

HANDLERS: Mapping[int, Handler] = {
    0: produce.HANDLER,
    1: fetch.HANDLER,
    2: list_offsets.HANDLER,
    3: metadata.HANDLER,
    8: offset_commit.HANDLER,
    9: offset_fetch.HANDLER,
    10: find_coordinator.HANDLER,
    11: join_group.HANDLER,
    12: heartbeat.HANDLER,
    13: leave_group.HANDLER,
    14: sync_group.HANDLER,
    15: describe_groups.HANDLER,
    16: list_groups.HANDLER,
    17: sasl_handshake.HANDLER,
    18: api_versions.HANDLER,
    19: create_topics.HANDLER,
    20: delete_topics.HANDLER,
    22: init_producer_id.HANDLER,
    23: offset_for_leader_epoch.HANDLER,
    32: describe_configs.HANDLER,
    37: create_partitions.HANDLER,
    42: delete_groups.HANDLER,
    47: offset_delete.HANDLER,
    60: describe_cluster.HANDLER,
    75: describe_topic_partitions.HANDLER,
}
