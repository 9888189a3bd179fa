"""Fetch: v0-18, with sessions. Not modelled: fetching from followers, quotas.

A fetch that finds less than min_bytes is parked until records come or max_wait is over, by the client's own time.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.timers import FetchDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.answers import NOT_THERE, has_enough, read, reply
from mockbroker.broker.handlers.handler import Handler


def handle(broker: Broker, call: Call[FetchRequest], now: float) -> Effects:
    request = call.request
    reading = broker.fetch_sessions(call.client.node).open(request, call.version, now)
    if isinstance(reading, ErrorCode):
        return [Reply(call.ticket, FetchResponse(error_code=reading))]
    result = read(broker, call, reading)
    reading.unknown = {key for key, _, answer in result.answers if answer.error_code in NOT_THERE}
    if has_enough(call, result) or request.max_wait_ms <= 0 or not result.waits_for:
        return [reply(broker, call, reading, result)]
    broker.fetches.park(call, reading, result.waits_for)
    broker.patience.set(FetchDue(call.ticket), broker.outside(now) + request.max_wait_ms / 1000)
    return []


HANDLER = Handler(Versions.parse("0-18"), handle)
