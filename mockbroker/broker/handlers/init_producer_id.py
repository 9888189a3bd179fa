"""InitProducerId: v0-5. Not modelled: two-phase commit (v6, not stable in Kafka 4.2)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.delayed_fetch import complete_transaction
from mockbroker.broker.handlers.handler import Handler
from mockbroker.transactions import rules
from mockbroker.transactions.state import NO_EPOCH, NO_PRODUCER, Identity

FENCED_SINCE = 4  # the version that knows PRODUCER_FENCED


def handle(broker: Broker, call: Call[InitProducerIdRequest], now: float) -> Effects:
    request = call.request
    said = Identity(request.producer_id, request.producer_epoch)
    if (said.producer_id == NO_PRODUCER) != (said.epoch == NO_EPOCH):
        return [_refused(call, ErrorCode.INVALID_REQUEST)]
    name = request.transactional_id
    if name is None:
        return [Reply(call.ticket, InitProducerIdResponse(producer_id=broker.new_producer_id()))]
    if error := broker.transaction_error(name, call.client.node):
        return [_refused(call, error)]
    expected = None if said.producer_id == NO_PRODUCER else said
    ended = broker.transactions.init(name, request.transaction_timeout_ms, expected, now)
    effects = complete_transaction(broker, ended)
    if ended.error:
        return [*effects, _refused(call, ended.error)]
    given = InitProducerIdResponse(producer_id=ended.identity.producer_id, producer_epoch=ended.identity.epoch)
    return [*effects, Reply(call.ticket, given)]


def _refused(call: Call[InitProducerIdRequest], error: ErrorCode) -> Reply:
    error = rules.error_for_client(error, knows_fenced=call.version >= FENCED_SINCE)
    return Reply(call.ticket, InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1))


HANDLER = Handler(Versions.parse("0-5"), handle)
