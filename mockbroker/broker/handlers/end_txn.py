"""The handler of EndTxn v0-5.

From v5 on, the response contains the producer id and epoch for the next transaction (KIP-890).
"""

from __future__ import annotations

from kwire.messages.end_txn import EndTxnRequest, EndTxnResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.completion import complete_transaction
from mockbroker.transactions import rules
from mockbroker.transactions.state import Identity

FENCED_SINCE = 2  # first version that returns PRODUCER_FENCED
KIP_890_SINCE = 5


def handle(broker: Broker, call: Call[EndTxnRequest], now: float) -> Effects:
    request = call.request
    transactional_id = request.transactional_id
    if error := broker.transaction_error(transactional_id, call.client.node):
        return [Reply(call.ticket, EndTxnResponse(error_code=error))]
    kip890 = call.version >= KIP_890_SINCE
    producer = Identity(request.producer_id, request.producer_epoch)
    ended = broker.transactions.end(transactional_id, producer, committed=request.committed, kip890=kip890, now=now)
    error = rules.error_for_client(ended.error, knows_fenced=call.version >= FENCED_SINCE)
    response = EndTxnResponse(error_code=error)
    if kip890 and not error:
        response.producer_id, response.producer_epoch = ended.identity
    return [*complete_transaction(broker, ended), Reply(call.ticket, response)]
