"""The handler of AddPartitionsToTxn v0-5.

From v4 on, brokers send the request, to add or verify partitions of several transactions.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    Topic,
    TopicResult,
)
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import in_slices, merge_array, split_array
from mockbroker.transactions import rules
from mockbroker.transactions.state import Identity

BATCHED_SINCE = 4
FENCED_SINCE = 2  # first version that returns PRODUCER_FENCED
Errors = dict[tuple[str, int], ErrorCode]


def _handle(broker: Broker, call: Call[AddPartitionsToTxnRequest], now: float) -> Effects:
    request = call.request
    if call.version < BATCHED_SINCE:
        errors = _add(
            broker,
            call,
            request.v3_and_below_transactional_id,
            Identity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            request.v3_and_below_topics,
            now,
        )
        rejected = ErrorCode.OPERATION_NOT_ATTEMPTED in errors.values()
        results = _merged(errors) if rejected else _results(request.v3_and_below_topics, errors)
        return [Reply(call.ticket, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))]
    response = AddPartitionsToTxnResponse()
    _add_combined(broker, call, now)
    for transaction in request.transactions:
        identity = Identity(transaction.producer_id, transaction.producer_epoch)
        handle_transaction = _verify if transaction.verify_only else _add
        errors = handle_transaction(broker, call, transaction.transactional_id, identity, transaction.topics, now)
        merged = transaction.verify_only or ErrorCode.OPERATION_NOT_ATTEMPTED in errors.values()
        response.results_by_transaction.append(
            AddPartitionsToTxnResponse.Transaction(
                transactional_id=transaction.transactional_id,
                topic_results=_merged(errors) if merged else _results(transaction.topics, errors),
            )
        )
    return [Reply(call.ticket, response)]


def _add_combined(broker: Broker, call: Call[AddPartitionsToTxnRequest], now: float) -> None:
    """Add the partitions of all elements with the same transaction at once (v4+).

    So the transaction is logged once.

    Elements that only verify partitions, and elements with an invalid partition, are left out. If no element is left
    out and each element has its own transaction, nothing is added.

    Args:
        broker: the state of the cluster.
        call: the request, its client, and its ticket (the object that identifies the request).
        now: the broker's time in seconds.
    """
    combined: dict[tuple[str, Identity], list[tuple[str, int]]] = {}
    for transaction in call.request.transactions:
        partitions = _partitions(transaction.topics)
        failed = any(_partition_error(broker, call.version, *partition) for partition in partitions)
        if not transaction.verify_only and not failed:
            producer = Identity(transaction.producer_id, transaction.producer_epoch)
            combined.setdefault((transaction.transactional_id, producer), []).extend(partitions)
    if len(combined) == len(call.request.transactions):
        return
    for (transactional_id, producer), partitions in combined.items():
        if not broker.transaction_error(transactional_id, call.client.node):
            broker.transactions.add(transactional_id, producer, partitions, now)


def _add(
    broker: Broker,
    call: Call[AddPartitionsToTxnRequest],
    transactional_id: str,
    producer: Identity,
    topics: list[Topic],
    now: float,
) -> Errors:
    """Add all partitions to a transaction, or none of them if one has an error.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        transactional_id: The transactional id.
        producer: Producer id and epoch.
        topics: The topics and partitions to add.
        now: The broker's time in seconds.

    Returns: (topic name, partition index) -> error code.
    """
    partitions = _partitions(topics)
    errors = {each: error for each in partitions if (error := _partition_error(broker, call.version, *each))}
    if errors:
        return {each: errors.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}
    error = broker.transaction_error(transactional_id, call.client.node)
    error = error or broker.transactions.add(transactional_id, producer, partitions, now)
    error = rules.error_for_client(error, knows_fenced=call.version >= FENCED_SINCE)
    return dict.fromkeys(partitions, error)


def _partition_error(broker: Broker, version: int, name: str, index: int) -> ErrorCode:
    topic = broker.cluster.topics.get(name)
    if topic is not None and topic.internal and version < BATCHED_SINCE:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED  # clients add the offsets topic with AddOffsetsToTxn
    known = topic is not None and topic.partition(index) is not None
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _verify(
    broker: Broker,
    call: Call[AddPartitionsToTxnRequest],
    transactional_id: str,
    producer: Identity,
    topics: list[Topic],
    now: float,  # noqa: ARG001
) -> Errors:
    error = broker.transaction_error(transactional_id, call.client.node)
    verify = broker.transactions.verify
    return {each: error or verify(transactional_id, producer, each) for each in _partitions(topics)}


def _partitions(topics: list[Topic]) -> list[tuple[str, int]]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _merged(errors: Errors) -> list[TopicResult]:
    """Return the results for the response, each topic and partition once.

    As in Kafka, this function is used after an error and for verifications.

    ``errors``: (topic name, partition index) -> error code.
    """
    topics: dict[str, TopicResult] = {}
    for (name, index), error in errors.items():
        result = TopicResult.Partition(partition_index=index, partition_error_code=error)
        topics.setdefault(name, TopicResult(name=name)).results_by_partition.append(result)
    return list(topics.values())


def _results(topics: list[Topic], errors: Errors) -> list[TopicResult]:
    return [
        TopicResult(
            name=topic.name,
            results_by_partition=[
                TopicResult.Partition(partition_index=index, partition_error_code=errors[topic.name, index])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


handle = in_slices(_handle, split_array("transactions"), merge_array("results_by_transaction"))
