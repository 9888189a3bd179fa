"""The handler of ListTransactions v0-2, which lists the transactions that the broker coordinates."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.groups.consumer import regex
from mockbroker.transactions.state import UNSEEN, State, Transaction

ResponseTransaction = ListTransactionsResponse.Transaction
KNOWN_STATES = UNSEEN | set(State)


def handle(broker: Broker, call: Call[ListTransactionsRequest], now: float) -> Effects:
    request = call.request
    names = {name for name in broker.transactions if broker.transaction_coordinator(name) == call.client.node}
    if request.transactional_id_pattern:
        try:
            names = set(regex.matching_names(request.transactional_id_pattern, names))
        except regex.InvalidRegex:
            error_response = ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
            return [Reply(call.ticket, error_response)]
    transactions = [broker.transactions[name] for name in sorted(names)]
    states, producers = dict.fromkeys(request.state_filters), frozenset(request.producer_id_filters)
    response = ListTransactionsResponse(
        unknown_state_filters=[name for name in states if name not in KNOWN_STATES],
        transaction_states=[
            ResponseTransaction(
                transactional_id=txn.transactional_id, producer_id=txn.producer_id, transaction_state=txn.state
            )
            for txn in transactions
            if (not states or txn.state in states)
            and (not producers or txn.producer_id in producers)
            and _exceeds_duration(txn, request.duration_filter, now)
        ],
    )
    return [Reply(call.ticket, response)]


def _exceeds_duration(txn: Transaction, duration_ms: int, now: float) -> bool:
    """Return whether a transaction has been open for longer than the duration filter of ListTransactions.

    As in Kafka, the result is True if no transaction is open.

    Args:
        txn: the transaction.
        duration_ms: the duration in milliseconds; negative for no filter, which gives the result True.
        now: the broker's time in seconds.
    """
    return duration_ms < 0 or txn.started is None or (now - txn.started) * 1000 > duration_ms
