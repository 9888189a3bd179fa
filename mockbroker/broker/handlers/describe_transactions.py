"""The handler of DescribeTransactions v0, which describes the transactions that the broker coordinates."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from mockbroker.base.effects import Call, Effects, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import describe_in_slices
from mockbroker.transactions.state import PREPARED

ResponseTransaction = DescribeTransactionsResponse.Transaction
TRANSACTION = 50  # approximate bytes of a transaction in a response, without names and partitions


def handle(broker: Broker, call: Call[DescribeTransactionsRequest], now: float) -> Effects:  # noqa: ARG001
    """Respond with a description of each transactional id in the request.

    As in Kafka, a duplicate id is described twice.

    Args:
        broker: the state of the cluster.
        call: the request, its client, and its ticket (the object that identifies the request).
        now: the broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    steps = describe_in_slices(
        broker,
        call.ticket,
        call.request.transactional_ids,
        lambda transactional_id: _describe(broker, transactional_id, call.client.node),
        _size,
        lambda transactions: DescribeTransactionsResponse(transaction_states=transactions),
    )
    return begin(call.ticket, steps)


def _size(described: ResponseTransaction) -> int:
    topics = sum(len(topic.topic) + 4 * len(topic.partitions) for topic in described.topics)
    return TRANSACTION + len(described.transactional_id) + topics


def _describe(broker: Broker, transactional_id: str, node: int) -> ResponseTransaction:
    if error := broker.transaction_error(transactional_id, node):
        return ResponseTransaction(transactional_id=transactional_id, error_code=error)
    txn = broker.transactions.get(transactional_id)
    if txn is None:
        return ResponseTransaction(transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(txn.partitions):
        topics.setdefault(topic, []).append(index)
    producer = txn.marker if txn.state in PREPARED and txn.marker else txn.identity
    return ResponseTransaction(
        transactional_id=transactional_id,
        transaction_state=txn.state,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_start_time_ms=-1 if txn.started is None else broker.wall_ms(txn.started),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[ResponseTransaction.Topic(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
    )
