"""The handler of Fetch v0-18, with fetch sessions.

If fewer than ``min_bytes`` of records are available, the fetch waits in the purgatory for more records, for at most
``max_wait_ms`` of client time.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.fetch import FetchRequest, FetchResponse
from mockbroker.base.effects import Call, Effects, Reply, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.delayed_fetch import delay, fetch_in_slices, read, reply, responds_at_once


def handle(broker: Broker, call: Call[FetchRequest], now: float) -> Effects:
    request = call.request
    context = broker.fetch_sessions(call.client.node).new_context(request, call.version, now)
    if isinstance(context, ErrorCode):
        return [Reply(call.ticket, FetchResponse(error_code=context))]
    context.expires_at = broker.to_client_time(now) + request.max_wait_ms / 1000
    if len(context.partitions) > broker.slice_size:
        return begin(call.ticket, fetch_in_slices(broker, call, context))
    result = read(broker, call, context)
    if responds_at_once(call, context, result):
        return [reply(broker, call, context, result)]
    delay(broker, call, context, result)
    return []
