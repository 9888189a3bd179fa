"""The handler of Fetch v0-18, with fetch sessions.

If fewer than ``min_bytes`` of records are available, the fetch waits in the purgatory for more records, for at most
``max_wait_ms`` of client time.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.fetch import FetchRequest, FetchResponse
from mockbroker.base.effects import AuthorizedCall, Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.delayed_fetch import (
    ISOLATION_LEVELS,
    delay,
    fetch_in_slices,
    read,
    reply,
    responds_at_once,
)
from mockbroker.broker.fetch.session_cache import FetchContext
from mockbroker.broker.slices import topics_in_slices

PARTITIONS_BEFORE = 13  # first version whose error response has no partitions


def handle(broker: Broker, call: Call[FetchRequest], now: float) -> Effects:
    request = call.request
    context = broker.fetch_sessions(call.client.node).new_context(request, call.version, now)
    if isinstance(context, ErrorCode):
        return [Reply(call.ticket, FetchResponse(error_code=context))]
    if request.isolation_level not in ISOLATION_LEVELS and _reads_a_partition(broker, call, context):
        return begin(call.ticket, _fail(broker, call, ErrorCode.UNKNOWN_SERVER_ERROR))
    context.expires_at = broker.to_client_time(now) + request.max_wait_ms / 1000
    if len(context.partitions) > broker.slice_size:
        return begin(call.ticket, fetch_in_slices(broker, call, context))
    result = read(broker, call, context)
    if responds_at_once(call, context, result):
        return [reply(broker, call, context, result)]
    delay(broker, call, context, result)
    return []


def _reads_a_partition(broker: Broker, call: Call[FetchRequest], context: FetchContext) -> bool:
    """Return whether a partition of a fetch exists and the client may read it.

    Args:
        broker: The state of the cluster.
        call: The Fetch request.
        context: Partitions and session of the request.
    """
    cluster, may_read = broker.cluster, call.may_read if isinstance(call, AuthorizedCall) else None
    for fetched in context.partitions.values():
        if fetched.cluster_epoch != cluster.epoch:
            fetched.resolve(cluster)
        if fetched.partition is not None and (may_read is None or may_read(fetched.topic)):
            return True
    return False


def _fail(broker: Broker, call: Call[FetchRequest], error: ErrorCode) -> Steps:
    """Respond to a request that fails as a whole, in slices: before v13, each partition has the error too.

    Args:
        broker: The state of the cluster.
        call: The Fetch request.
        error: The error.
    """
    kind = FetchResponse.Topic
    responses = yield from topics_in_slices(
        broker,
        call.request.topics if call.version < PARTITIONS_BEFORE else (),
        lambda topic: kind(topic=topic.topic, partitions=[]),
        lambda _, partitions: [
            kind.Partition(partition_index=each.partition, error_code=error, high_watermark=-1, records=b"")
            for each in partitions
        ],
    )
    return [Reply(call.ticket, FetchResponse(error_code=error, responses=responses))]
