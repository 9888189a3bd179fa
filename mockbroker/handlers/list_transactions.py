"""ListTransactions: v0-2. Those whose coordinator is asked."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.group import regex
from mockbroker.handlers.handler import Handler
from mockbroker.transaction.state import UNSEEN, State, Transaction

Answer = ListTransactionsResponse.Transaction


def handle(broker: Broker, call: Call[ListTransactionsRequest], now: float) -> Effects:
    request = call.request
    names = {name for name in broker.transactions if broker.transaction_coordinator(name) == call.client.node}
    if request.transactional_id_pattern:
        try:
            names = set(regex.matching(request.transactional_id_pattern, names))
        except regex.InvalidRegex:
            refused = ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
            return [Reply(call.ticket, refused)]
    found = [broker.transactions[name] for name in sorted(names)]
    response = ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in UNSEEN | set(State)],
        transaction_states=[
            Answer(transactional_id=txn.transactional_id, producer_id=txn.producer_id, transaction_state=txn.state)
            for txn in found
            if _fits(request, txn, now)
        ],
    )
    return [Reply(call.ticket, response)]


def _fits(request: ListTransactionsRequest, txn: Transaction, now: float) -> bool:
    """An id without a transaction has run for ever, as at Kafka."""
    states, producers = request.state_filters, request.producer_id_filters
    if (states and txn.state not in states) or (producers and txn.producer_id not in producers):
        return False
    return request.duration_filter < 0 or txn.started is None or (now - txn.started) * 1000 > request.duration_filter


HANDLER = Handler(Versions.parse("0-2"), handle)
