"""DescribeTransactions: v0."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.transactions.state import PREPARED

Answer = DescribeTransactionsResponse.Transaction
TRANSACTION = 50  # bytes in a response, roughly, without names and partitions


def handle(broker: Broker, call: Call[DescribeTransactionsRequest], now: float) -> Effects:  # noqa: ARG001
    """An id that is named twice is described twice, as by Kafka."""
    room = broker.response_room()
    ids = call.request.transactional_ids
    found = room.describe_each(ids, lambda name: _describe(broker, name, call.client.node), _size)
    return [Reply(call.ticket, DescribeTransactionsResponse(transaction_states=found))]


def _size(described: Answer) -> int:
    topics = sum(len(topic.topic) + 4 * len(topic.partitions) for topic in described.topics)
    return TRANSACTION + len(described.transactional_id) + topics


def _describe(broker: Broker, name: str, node: int) -> Answer:
    if error := broker.transaction_error(name, node):
        return Answer(transactional_id=name, error_code=error)
    txn = broker.transactions.get(name)
    if txn is None:
        return Answer(transactional_id=name, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(txn.partitions):
        topics.setdefault(topic, []).append(index)
    owner = txn.marker if txn.state in PREPARED and txn.marker else txn.identity
    return Answer(
        transactional_id=name,
        transaction_state=txn.state,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_start_time_ms=-1 if txn.started is None else broker.wall_ms(txn.started),
        producer_id=owner.producer_id,
        producer_epoch=owner.epoch,
        topics=[Answer.Topic(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
    )


HANDLER = Handler(Versions.parse("0"), handle)
