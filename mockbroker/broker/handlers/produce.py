"""Produce: v0-13. Not modelled: quotas.

Batches are opaque but for their header and checksum, unless the settings want records looked at; they are stored as
they come. The message sets of v0-2 become batches.
"""

from __future__ import annotations

from uuid import UUID

from kwire import DecodeError, ErrorCode, LimitError, Truncated
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.records.batch import CRC_FROM, HEADER, MAGIC_AT, MAX_BATCH, PREFIX, TRANSACTIONAL, Batch, read_batch, restamp
from kwire.records.compression import decompress, may_be_produced
from kwire.records.message_set import PRODUCE_BATCHES_SINCE
from kwire.schema import Versions
from mockbroker.base.effects import Call, Close, Effects, NoReply, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.delayed_fetch import complete_delayed_fetches
from mockbroker.broker.handlers.handler import Handler
from mockbroker.topics import configs as topic_configs
from mockbroker.topics import message_sets
from mockbroker.topics.model import Partition, Topic
from mockbroker.topics.producers import Appended
from mockbroker.topics.record_rules import RecordRules, Rejection, rejection
from mockbroker.transactions.state import NO_PRODUCER, Identity

NONE = ErrorCode.NONE
RequestTopic = ProduceRequest.Topic
Answer = ProduceResponse.Topic.Partition
NOT_ADDED = "Partition was not added to the transaction"
ABORTABLE_SINCE = 11  # the version that knows TRANSACTION_ABORTABLE
KIP_890_SINCE = 12  # the version whose batches take their partition into the transaction
TRANSACTIONAL_AT = CRC_FROM + 1  # the byte of a batch that says it
MAGIC_2 = 2
NO_APPEND_TIME = -1
BATCHES_AT_BEST = 7  # a batch in an older version is taken all the same, with all of what this version has
ACKS = (-1, 0, 1)  # all, none, leader: with everything in memory, all and leader are the same
ALL = -1
APPEND = 3  # elements of a slice that appending to a partition is worth
BYTES = 16_384  # bytes of records that are worth one more
MIN_IN_SYNC = "min.insync.replicas"


def handle(broker: Broker, call: Call[ProduceRequest], now: float) -> Effects:
    request = call.request
    if request.transactional_id is None and _has_transactions(request):
        return _answer(call, _refused(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if call.version >= KIP_890_SINCE and request.transactional_id is not None:
        _join_transaction(broker, call, request.transactional_id, now)
    if len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1:  # as most requests
        asked, grown = request.topic_data[0], list[Partition]()
        answer = _append(broker, call, _topic(broker, call, asked), asked.partition_data[0], grown, now)
        return _answer(call, ProduceResponse(responses=[_answered(asked, [answer])])) + complete_delayed_fetches(
            broker, grown
        )
    return begin(call.ticket, _append_all(broker, call, now))


def _append_all(broker: Broker, call: Call[ProduceRequest], now: float) -> Steps:
    """Append to many partitions. A slice ends after some of them, or with bytes that take as long to check and copy.

    Fetches that wait for any of them are read once, at the end: each may wait for all of them.
    """
    response = ProduceResponse()
    grown: list[Partition] = []
    left = broker.slice_size
    for asked in _once(call.request.topic_data):
        topic, answers = _topic(broker, call, asked), list[Answer]()
        for data in asked.partition_data:
            if left <= 0:
                now = yield []
                left = broker.slice_size
                topic = _topic(broker, call, asked)  # which may have been deleted
            answers.append(_append(broker, call, topic, data, grown, now))
            left -= APPEND + len(data.records or b"") // BYTES
        response.responses.append(_answered(asked, answers))
    return _answer(call, response) + complete_delayed_fetches(broker, grown)


def _topic(broker: Broker, call: Call[ProduceRequest], asked: RequestTopic) -> Topic | None:
    return broker.cluster.find(asked.name, asked.topic_id, by_id=call.version >= 13)


def _answered(asked: RequestTopic, answers: list[Answer]) -> ProduceResponse.Topic:
    return ProduceResponse.Topic(name=asked.name, topic_id=asked.topic_id, partition_responses=answers)


def _once(asked: list[RequestTopic]) -> list[RequestTopic]:
    """Each topic and partition once, as clients name them; of a partition that is named again the last counts."""
    wanted: dict[tuple[str, UUID], dict[int, RequestTopic.Partition]] = {}
    for topic in asked:
        named = wanted.setdefault((topic.name, topic.topic_id), {})
        named.update((data.index, data) for data in topic.partition_data)
    return [
        RequestTopic(name=name, topic_id=topic_id, partition_data=list(named.values()))
        for (name, topic_id), named in wanted.items()
    ]


def _join_transaction(broker: Broker, call: Call[ProduceRequest], transactional_id: str, now: float) -> None:
    """Add the partitions of a request to their transaction all at once, so that it is written once (KIP-890).

    What stops one of them is found when it is appended.
    """
    joining: dict[Identity, set[tuple[str, int]]] = {}
    for asked in call.request.topic_data:
        topic = broker.cluster.find(asked.name, asked.topic_id, by_id=call.version >= 13)
        for data in asked.partition_data:
            partition = topic.partition(data.index) if topic and not topic.internal else None
            if partition is None or broker.leader_error(partition, call.client.node):
                continue
            try:
                batch = read_batch(data.records or b"")
            except DecodeError:
                continue
            if batch.transactional and batch.producer_id != NO_PRODUCER:
                producer = Identity(batch.producer_id, batch.producer_epoch)
                joining.setdefault(producer, set()).add((partition.topic, partition.index))
    for producer, places in joining.items():
        if len(places) > 1:
            broker.transactions.add(transactional_id, producer, places, now)


def _has_transactions(request: ProduceRequest) -> bool:
    """True if some batch says that it is part of a transaction."""
    for topic in request.topic_data:  # plain loops: every request comes here
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) <= TRANSACTIONAL_AT or records[MAGIC_AT] != MAGIC_2:
                continue
            if records[TRANSACTIONAL_AT] & TRANSACTIONAL:
                return True
    return False


def _refused(request: ProduceRequest, error: ErrorCode) -> ProduceResponse:
    """The same error for every partition."""
    return ProduceResponse(
        responses=[
            ProduceResponse.Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    Answer(index=data.index, error_code=error, base_offset=-1) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _answer(call: Call[ProduceRequest], response: ProduceResponse) -> Effects:
    if call.request.acks != 0:
        return [Reply(call.ticket, response)]
    errors = {answer.error_code for topic in response.responses for answer in topic.partition_responses} - {NONE}
    if errors:  # nobody reads an answer, so Kafka makes the client look: it closes
        names = ", ".join(ErrorCode(error).name for error in sorted(errors))
        return [Close(call.ticket, f"Produce with acks 0 failed: {names}")]
    return [NoReply(call.ticket)]


def _append(
    broker: Broker,
    call: Call[ProduceRequest],
    topic: Topic | None,
    data: ProduceRequest.Topic.Partition,
    grown: list[Partition],
    now: float,
) -> Answer:
    partition = topic.partition(data.index) if topic else None
    error = broker.leader_error(partition, call.client.node)
    if topic is None and call.version >= 13:
        error = ErrorCode.UNKNOWN_TOPIC_ID
    if partition is not None and call.request.acks not in ACKS:  # Kafka's order: unknown, acks, leader
        error = ErrorCode.INVALID_REQUIRED_ACKS
    if not error and topic is not None and topic.internal:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    if not error and broker.cluster.down and call.request.acks == ALL and _too_few(broker, topic, partition):
        error = ErrorCode.NOT_ENOUGH_REPLICAS
    if error or partition is None:
        return Answer(index=data.index, error_code=error, base_offset=-1)
    assert topic is not None
    rules = topic.rules
    if rules is None:
        rules = topic.rules = RecordRules.of(topic.configs, broker.settings, broker.release)
    batch = check(data.records, call.version, rules.largest_batch)
    if batch is None:
        return Answer(index=data.index, base_offset=-1)
    if isinstance(batch, ErrorCode):
        return Answer(index=data.index, error_code=batch, base_offset=-1)
    now_ms = broker.wall_ms(now)
    if rejected := _rejection(broker, batch, rules, partition, now_ms):
        return _rejected(partition, rejected)
    if len(batch.data) > rules.largest_segment:
        return Answer(index=data.index, error_code=ErrorCode.RECORD_LIST_TOO_LARGE, base_offset=-1)
    if rules.append_time or batch.log_append_time:  # what producers say of the type of timestamps does not count
        stamp = now_ms if rules.append_time else batch.max_timestamp
        batch = restamp(batch, stamp, log_append_time=rules.append_time)
    named = batch.producer_id != NO_PRODUCER  # Kafka checks no others
    if batch.transactional and named and (error := _transaction_error(broker, call, partition, batch, now)):
        told = NOT_ADDED if error == ErrorCode.INVALID_TXN_STATE else None
        return Answer(index=data.index, error_code=error, base_offset=-1, error_message=told)
    return _store(partition, batch, grown, knows_all=batch.transactional and call.version >= KIP_890_SINCE)


def _rejected(partition: Partition, rejected: Rejection) -> Answer:
    return Answer(
        index=partition.index,
        error_code=rejected.error,
        base_offset=-1,
        log_start_offset=partition.log.start if rejected.text else -1,
        record_errors=[
            Answer.RecordError(batch_index=index, batch_index_error_message=text) for index, text in rejected.records
        ],
        error_message=rejected.text,
    )


def _too_few(broker: Broker, topic: Topic | None, partition: Partition | None) -> bool:
    """True if fewer replicas are in sync than the topic or the broker wants for acks=all; never more than there are.

    Source: Partition.effectiveMinIsr.
    """
    assert topic is not None
    assert partition is not None
    least = topic_configs.effective(topic.configs, MIN_IN_SYNC, broker.settings, broker.release)
    assert isinstance(least, int)
    return len(broker.cluster.in_sync(partition)) < min(least, len(partition.replicas))


def _transaction_error(
    broker: Broker, call: Call[ProduceRequest], partition: Partition, batch: Batch, now: float
) -> ErrorCode:
    """What the coordinator has against it, unless the transaction has come to this partition already (KIP-890)."""
    producer = Identity(batch.producer_id, batch.producer_epoch)
    if partition.producers.is_open(producer.producer_id, producer.epoch if broker.release.kip890 else None):
        return NONE
    partition.producers.begin_verification(batch)
    return broker.transactions.write_error(
        call.request.transactional_id or "",
        producer,
        (partition.topic, partition.index),
        now,
        adds=call.version >= KIP_890_SINCE,
        abortable=call.version >= ABORTABLE_SINCE,
        busy=ErrorCode.NOT_ENOUGH_REPLICAS,
    )


def _store(partition: Partition, batch: Batch, grown: list[Partition], *, knows_all: bool) -> Answer:
    """Append the batch, unless an idempotent producer sent it before or left one out."""
    log = partition.log
    fits = _fits_the_log(batch)
    verdict = partition.producers.check(batch, starts_at_zero=knows_all) if fits else ErrorCode.INVALID_RECORD
    if isinstance(verdict, Appended):
        return Answer(
            index=partition.index,
            base_offset=verdict.base_offset,
            log_append_time_ms=verdict.max_timestamp,
            log_start_offset=log.start,
        )
    if verdict:
        return Answer(index=partition.index, error_code=verdict, base_offset=-1, log_start_offset=log.start)
    base_offset = partition.append(batch)
    grown.append(partition)
    stored_at = batch.max_timestamp if batch.log_append_time else NO_APPEND_TIME
    return Answer(
        index=partition.index, base_offset=base_offset, log_append_time_ms=stored_at, log_start_offset=log.start
    )


def check(records: bytes | None, version: int, limit: int) -> Batch | ErrorCode | None:
    """The one batch in ``records``, or why it is refused. What stands cut off behind it is dropped, as by Kafka.

    None if there is nothing to store, which only clients with message sets may say.
    """
    if version < PRODUCE_BATCHES_SINCE:
        if records is None:
            return ErrorCode.INVALID_RECORD
        if len(records) <= MAGIC_AT or records[MAGIC_AT] != MAGIC_2:
            return message_sets.to_batch(records, limit)
        version = BATCHES_AT_BEST
    if not records:
        return ErrorCode.INVALID_RECORD
    if len(records) > MAGIC_AT and records[MAGIC_AT] in (0, 1):
        return ErrorCode.INVALID_RECORD  # message sets are not taken from v3 on
    try:
        batch = read_batch(records)
    except Truncated:
        return ErrorCode.INVALID_RECORD if _could_be_cut(records) else ErrorCode.CORRUPT_MESSAGE
    except DecodeError:
        return ErrorCode.CORRUPT_MESSAGE
    if not batch.crc_is_right():
        return ErrorCode.CORRUPT_MESSAGE
    if len(batch.data) > limit:
        return ErrorCode.MESSAGE_TOO_LARGE
    if not may_be_produced(batch.codec, version):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return batch if _is_alone(batch, records) else ErrorCode.INVALID_RECORD


def _rejection(broker: Broker, batch: Batch, rules: RecordRules, partition: Partition, now_ms: int) -> Rejection | None:
    """What is wrong with the records of a batch. They are read only if its header or a setting makes that necessary."""
    if not (rules.need_records(batch, now_ms) or broker.settings.mockbroker_check_records):
        return None
    try:
        decompress(batch.codec, batch.data[HEADER.size :])
    except LimitError:  # Kafka would take it
        return None
    except DecodeError:
        return Rejection(ErrorCode.CORRUPT_MESSAGE)
    try:
        place = f"{partition.topic}-{partition.index}"
        found = rejection(batch.records(verify_crc=False, copy=False), batch, rules, place, now_ms)
    except DecodeError:
        return Rejection(ErrorCode.INVALID_RECORD)
    return found


def _is_alone(batch: Batch, records: bytes) -> bool:
    if len(records) - len(batch.data) < HEADER.size:
        return True
    try:
        read_batch(records, len(batch.data))
    except Truncated:
        return True
    except DecodeError:
        return False
    return False


def _fits_the_log(batch: Batch) -> bool:
    """A batch that counts its records right and begins at offset 0, not a control batch."""
    counted = batch.count > 0 and batch.last_offset_delta == batch.count - 1
    return counted and batch.base_offset == 0 and not batch.control


def _could_be_cut(records: bytes) -> bool:
    """True if the length in the header is one that a batch can have, and bytes are missing."""
    if len(records) < HEADER.size:
        return False
    length: int = HEADER.unpack_from(records)[1]
    return length <= MAX_BATCH - PREFIX


HANDLER = Handler(Versions.parse("0-13"), handle)
