"""The handler of AddPartitionsToTxn v0-5.

From v4 on, brokers send the request, to add or verify partitions of several transactions.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from kwire import ErrorCode
from kwire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    Topic,
    TopicResult,
)
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks, topics_in_slices
from mockbroker.transactions import rules
from mockbroker.transactions.state import Identity

Transaction = AddPartitionsToTxnRequest.Transaction
BATCHED_SINCE = 4
FENCED_SINCE = 2  # first version that returns PRODUCER_FENCED
Errors = dict[tuple[str, int], ErrorCode]


def handle(broker: Broker, call: Call[AddPartitionsToTxnRequest], now: float) -> Effects:
    return begin(call.ticket, _add_in_slices(broker, call, now))


def _add_in_slices(broker: Broker, call: Call[AddPartitionsToTxnRequest], now: float) -> Steps:
    """Add or verify the partitions of each transaction, and yield after each ``Broker.slice_size`` partitions."""
    batched = call.version >= BATCHED_SINCE
    transactions = call.request.transactions if batched else [_only_transaction(call.request)]
    now = yield from _add_combined(broker, call, transactions, now)
    results: list[AddPartitionsToTxnResponse.Transaction] = []
    handled = 0
    for transaction in transactions:
        if handled >= broker.slice_size:
            handled = 0
            now = yield []
        handled += max(sum(len(topic.partitions) for topic in transaction.topics), 1)
        if transaction.verify_only:
            topic_results = yield from _verify(broker, call, transaction)
        else:
            topic_results = yield from _add(broker, call, transaction, now)
        results.append(
            AddPartitionsToTxnResponse.Transaction(
                transactional_id=transaction.transactional_id, topic_results=topic_results
            )
        )
    if batched:
        return [Reply(call.ticket, AddPartitionsToTxnResponse(results_by_transaction=results))]
    return [Reply(call.ticket, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results))]


def _only_transaction(request: AddPartitionsToTxnRequest) -> Transaction:
    """Return the transaction of a request before v4."""
    return Transaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _add_combined(
    broker: Broker, call: Call[AddPartitionsToTxnRequest], transactions: Sequence[Transaction], now: float
) -> Generator[Effects, float, float]:
    """Add the partitions of all elements with the same transaction at once, so that the transaction is logged once.

    Elements that only verify partitions, and elements with an invalid partition, are left out.

    Args:
        broker: the state of the cluster.
        call: the request, its client, and its ticket (the object that identifies the request).
        transactions: the elements of the request.
        now: the broker's time in seconds.

    Returns: the broker's time after the last slice.
    """
    elements: dict[tuple[str, Identity], list[Transaction]] = {}
    for transaction in transactions:
        if not transaction.verify_only:
            elements.setdefault((transaction.transactional_id, _producer(transaction)), []).append(transaction)
    for (transactional_id, producer), same in elements.items():
        if len(same) == 1:
            continue
        combined: list[tuple[str, int]] = []
        for transaction in same:
            partitions = _partitions(transaction.topics)
            errors, now = yield from _partition_errors(broker, call.version, partitions, now)
            if not errors:
                combined += partitions
        if combined and not broker.transaction_error(transactional_id, call.client.node):
            kip890 = call.version >= BATCHED_SINCE
            broker.transactions.add(transactional_id, producer, combined, now, kip890=kip890)
    return now


def _add(
    broker: Broker, call: Call[AddPartitionsToTxnRequest], transaction: Transaction, now: float
) -> Generator[Effects, float, list[TopicResult]]:
    """Add all partitions to a transaction, or none of them if one has an error. Return the results.

    As in Kafka, the results have each topic and partition once after an error.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        transaction: The transaction, with the topics and partitions to add.
        now: The broker's time in seconds.
    """
    partitions = _partitions(transaction.topics)
    errors, now = yield from _partition_errors(broker, call.version, partitions, now)
    if errors:
        merged = yield from _merged(broker, partitions)
        return (yield from _results(broker, merged, errors, ErrorCode.OPERATION_NOT_ATTEMPTED))
    error = broker.transaction_error(transaction.transactional_id, call.client.node)
    error = error or broker.transactions.add(
        transaction.transactional_id, _producer(transaction), partitions, now, kip890=call.version >= BATCHED_SINCE
    )
    error = rules.error_for_client(error, knows_fenced=call.version >= FENCED_SINCE)
    return (yield from _results(broker, transaction.topics, {}, error))


def _partition_errors(
    broker: Broker, version: int, partitions: Sequence[tuple[str, int]], now: float
) -> Generator[Effects, float, tuple[Errors, float]]:
    """Return the errors of invalid partitions, and the broker's time after the last slice."""
    errors: Errors = {}
    for number, part in enumerate(chunks(partitions, broker.slice_size)):
        if number:
            now = yield []
        errors |= {each: error for each in part if (error := _partition_error(broker, version, *each))}
    return errors, now


def _partition_error(broker: Broker, version: int, name: str, index: int) -> ErrorCode:
    topic = broker.cluster.topics.get(name)
    if topic is not None and topic.internal and version < BATCHED_SINCE:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED  # clients add the offsets topic with AddOffsetsToTxn
    known = topic is not None and topic.partition(index) is not None
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _verify(
    broker: Broker,
    call: Call[AddPartitionsToTxnRequest],
    transaction: Transaction,
) -> Generator[Effects, float, list[TopicResult]]:
    """Verify that the partitions are part of a transaction. Return the results, each topic and partition once."""
    error = broker.transaction_error(transaction.transactional_id, call.client.node)
    verify, producer = broker.transactions.verify, _producer(transaction)
    errors: Errors = {}
    partitions = _partitions(transaction.topics)
    for number, part in enumerate(chunks([] if error else partitions, broker.slice_size)):
        if number:
            yield []
        errors |= {each: verify(transaction.transactional_id, producer, each) for each in part}
    merged = yield from _merged(broker, partitions)
    return (yield from _results(broker, merged, errors, error))


def _producer(transaction: Transaction) -> Identity:
    return Identity(transaction.producer_id, transaction.producer_epoch)


def _partitions(topics: Sequence[Topic]) -> list[tuple[str, int]]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _merged(broker: Broker, partitions: Sequence[tuple[str, int]]) -> Generator[Effects, float, list[Topic]]:
    """Return distinct topics with distinct partitions, for (topic name, partition index)."""
    topics: dict[str, Topic] = {}
    for number, part in enumerate(chunks(list(dict.fromkeys(partitions)), broker.slice_size)):
        if number:
            yield []
        for name, index in part:
            topics.setdefault(name, Topic(name=name, partitions=[])).partitions.append(index)
    return list(topics.values())


def _results(
    broker: Broker, topics: Sequence[Topic], errors: Errors, otherwise: ErrorCode
) -> Generator[Effects, float, list[TopicResult]]:
    """Return the results of topics.

    Args:
        broker: The state of the cluster.
        topics: The topics and partitions.
        errors: Error codes by topic name and partition index.
        otherwise: Error code of all other partitions.
    """
    result = TopicResult.Partition
    return topics_in_slices(
        broker,
        topics,
        lambda topic: TopicResult(name=topic.name, results_by_partition=[]),
        lambda topic, indexes: [
            result(partition_index=index, partition_error_code=errors.get((topic.name, index), otherwise))
            for index in indexes
        ],
        results="results_by_partition",
    )
