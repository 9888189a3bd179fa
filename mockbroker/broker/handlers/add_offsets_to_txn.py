"""The handler of AddOffsetsToTxn v0-4, which adds the group's partition of the offsets topic to the transaction."""

from __future__ import annotations

from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.transactions import rules
from mockbroker.transactions.state import Identity

FENCED_SINCE = 2  # first version that returns PRODUCER_FENCED


def handle(broker: Broker, call: Call[AddOffsetsToTxnRequest], now: float) -> Effects:
    request = call.request
    transactional_id = request.transactional_id
    identity = Identity(request.producer_id, request.producer_epoch)
    error = broker.transaction_error(transactional_id, call.client.node)
    error = error or broker.transactions.add(
        transactional_id, identity, [broker.offsets_partition(request.group_id)], now, kip890=False
    )
    error = rules.error_for_client(error, knows_fenced=call.version >= FENCED_SINCE)
    return [Reply(call.ticket, AddOffsetsToTxnResponse(error_code=error))]
