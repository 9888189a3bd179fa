"""What is served: one handler an API, in a file of the API's name."""

from __future__ import annotations

from collections.abc import Mapping

from mockbroker.handlers import (
    api_versions,
    create_topics,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
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
    18: api_versions.HANDLER,
    19: create_topics.HANDLER,
    22: init_producer_id.HANDLER,
}
