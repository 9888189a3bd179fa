"""The handler of InitProducerId v0-5. Not modelled: two-phase commit (v6, not stable in Kafka 4.2)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.completion import complete_transaction
from mockbroker.transactions import rules
from mockbroker.transactions.state import NO_EPOCH, NO_PRODUCER, Identity

FENCED_SINCE = 4  # first version that returns PRODUCER_FENCED


def handle(broker: Broker, call: Call[InitProducerIdRequest], now: float) -> Effects:
    request = call.request
    identity = Identity(request.producer_id, request.producer_epoch)
    if (identity.producer_id == NO_PRODUCER) != (identity.epoch == NO_EPOCH):
        return [_error_reply(call, ErrorCode.INVALID_REQUEST)]
    transactional_id = request.transactional_id
    if transactional_id is None:
        return [Reply(call.ticket, InitProducerIdResponse(producer_id=broker.new_producer_id()))]
    if error := broker.transaction_error(transactional_id, call.client.node):
        return [_error_reply(call, error)]
    expected = None if identity.producer_id == NO_PRODUCER else identity
    ended = broker.transactions.init(transactional_id, request.transaction_timeout_ms, expected, now)
    effects = complete_transaction(broker, ended)
    if ended.error:
        return [*effects, _error_reply(call, ended.error)]
    response = InitProducerIdResponse(producer_id=ended.identity.producer_id, producer_epoch=ended.identity.epoch)
    return [*effects, Reply(call.ticket, response)]


def _error_reply(call: Call[InitProducerIdRequest], error: ErrorCode) -> Reply:
    error = rules.error_for_client(error, knows_fenced=call.version >= FENCED_SINCE)
    return Reply(call.ticket, InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1))
