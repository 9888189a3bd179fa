"""Fetch: v0-18, with sessions. Not modelled: fetching from followers, quotas.

A fetch that finds less than min_bytes is parked until records come or max_wait is over, by the client's own time.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.answers import answered_in_slices, is_to_be_answered, park, read, reply
from mockbroker.broker.handlers.handler import Handler


def handle(broker: Broker, call: Call[FetchRequest], now: float) -> Effects:
    request = call.request
    reading = broker.fetch_sessions(call.client.node).open(request, call.version, now)
    if isinstance(reading, ErrorCode):
        return [Reply(call.ticket, FetchResponse(error_code=reading))]
    reading.waits_until = broker.outside(now) + request.max_wait_ms / 1000
    if len(reading.wanted) > broker.in_a_slice:
        return begin(call.ticket, answered_in_slices(broker, call, reading))
    result = read(broker, call, reading)
    if is_to_be_answered(call, reading, result):
        return [reply(broker, call, reading, result)]
    park(broker, call, reading, result)
    return []


HANDLER = Handler(Versions.parse("0-18"), handle)
