"""InitProducerId: v0-5. Served: idempotent producers. Not modelled: transactional ids (INVALID_REQUEST)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.handlers.handler import Handler


def handle(broker: Broker, call: Call[InitProducerIdRequest], now: float) -> Effects:  # noqa: ARG001
    if call.request.transactional_id is not None:
        refused = InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
        return [Reply(call.ticket, refused)]
    return [Reply(call.ticket, InitProducerIdResponse(producer_id=next(broker.producer_ids)))]


HANDLER = Handler(Versions.parse("0-5"), handle)
