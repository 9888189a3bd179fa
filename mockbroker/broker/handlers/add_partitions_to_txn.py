"""AddPartitionsToTxn: v0-5. From v4 on as brokers ask one another, of many transactions at once."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    Topic,
    TopicResult,
)
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.transactions import rules
from mockbroker.transactions.state import Identity

BATCHED_SINCE = 4
FENCED_SINCE = 2  # the version that knows PRODUCER_FENCED
Errors = dict[tuple[str, int], ErrorCode]


def handle(broker: Broker, call: Call[AddPartitionsToTxnRequest], now: float) -> Effects:
    request = call.request
    if call.version < BATCHED_SINCE:
        found = _add(
            broker,
            call,
            request.v3_and_below_transactional_id,
            Identity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            request.v3_and_below_topics,
            now,
        )
        refused = ErrorCode.OPERATION_NOT_ATTEMPTED in found.values()
        results = _merged(found) if refused else _results(request.v3_and_below_topics, found)
        return [Reply(call.ticket, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))]
    response = AddPartitionsToTxnResponse()
    _add_together(broker, call, now)
    for asked in request.transactions:
        identity = Identity(asked.producer_id, asked.producer_epoch)
        answer = _verify if asked.verify_only else _add
        found = answer(broker, call, asked.transactional_id, identity, asked.topics, now)
        merged = asked.verify_only or ErrorCode.OPERATION_NOT_ATTEMPTED in found.values()
        response.results_by_transaction.append(
            AddPartitionsToTxnResponse.Transaction(
                transactional_id=asked.transactional_id,
                topic_results=_merged(found) if merged else _results(asked.topics, found),
            )
        )
    return [Reply(call.ticket, response)]


def _add_together(broker: Broker, call: Call[AddPartitionsToTxnRequest], now: float) -> None:
    """Add what several entries of a request name for one transaction at once, so that it is written once."""
    together: dict[tuple[str, Identity], list[tuple[str, int]]] = {}
    for asked in call.request.transactions:
        places = _places(asked.topics)
        if not asked.verify_only and not any(_refused(broker, call.version, *place) for place in places):
            producer = Identity(asked.producer_id, asked.producer_epoch)
            together.setdefault((asked.transactional_id, producer), []).extend(places)
    if len(together) == len(call.request.transactions):
        return
    for (transactional_id, producer), places in together.items():
        if not broker.transaction_error(transactional_id, call.client.node):
            broker.transactions.add(transactional_id, producer, places, now)


def _add(
    broker: Broker,
    call: Call[AddPartitionsToTxnRequest],
    transactional_id: str,
    asked: Identity,
    topics: list[Topic],
    now: float,
) -> Errors:
    """All of them, or none."""
    refused = {place: error for place in _places(topics) if (error := _refused(broker, call.version, *place))}
    if refused:
        return {place: refused.get(place, ErrorCode.OPERATION_NOT_ATTEMPTED) for place in _places(topics)}
    error = broker.transaction_error(transactional_id, call.client.node)
    error = error or broker.transactions.add(transactional_id, asked, _places(topics), now)
    error = rules.error_for_client(error, knows_fenced=call.version >= FENCED_SINCE)
    return dict.fromkeys(_places(topics), error)


def _refused(broker: Broker, version: int, name: str, index: int) -> ErrorCode:
    topic = broker.cluster.topics.get(name)
    if topic is not None and topic.internal and version < BATCHED_SINCE:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED  # clients take the groups' log in by AddOffsetsToTxn
    known = topic is not None and topic.partition(index) is not None
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _verify(
    broker: Broker,
    call: Call[AddPartitionsToTxnRequest],
    transactional_id: str,
    asked: Identity,
    topics: list[Topic],
    now: float,  # noqa: ARG001
) -> Errors:
    error = broker.transaction_error(transactional_id, call.client.node)
    return {place: error or broker.transactions.verify(transactional_id, asked, place) for place in _places(topics)}


def _places(topics: list[Topic]) -> list[tuple[str, int]]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _merged(errors: Errors) -> list[TopicResult]:
    """Each topic and partition once, as Kafka answers errors and verifications."""
    found: dict[str, TopicResult] = {}
    for (name, index), error in errors.items():
        line = TopicResult.Partition(partition_index=index, partition_error_code=error)
        found.setdefault(name, TopicResult(name=name)).results_by_partition.append(line)
    return list(found.values())


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


HANDLER = Handler(Versions.parse("0-5"), handle)
