"""AddOffsetsToTxn: v0-4. The partition of the offsets topic that keeps the group becomes part of the transaction."""

from __future__ import annotations

from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.transactions import rules
from mockbroker.transactions.state import Identity

FENCED_SINCE = 2  # the version that knows PRODUCER_FENCED


def handle(broker: Broker, call: Call[AddOffsetsToTxnRequest], now: float) -> Effects:
    request = call.request
    name = request.transactional_id
    identity = Identity(request.producer_id, request.producer_epoch)
    error = broker.transaction_error(name, call.client.node)
    error = error or broker.transactions.add(name, identity, [broker.offsets_partition(request.group_id)], now)
    error = rules.error_for_client(error, knows_fenced=call.version >= FENCED_SINCE)
    return [Reply(call.ticket, AddOffsetsToTxnResponse(error_code=error))]


HANDLER = Handler(Versions.parse("0-4"), handle)
