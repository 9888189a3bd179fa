"""The handler of Produce v0-13.

The broker validates header and checksum of a record batch, and stores the batch as received. The records in the batch
are validated only if a setting or the header requires it. The message sets of v0-2 are converted to batches.
"""

from __future__ import annotations

import struct
from typing import TypeAlias
from uuid import UUID

from kwire import DecodeError, ErrorCode, LimitError
from kwire.codec import encode
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_FROM,
    HEADER,
    LOG_APPEND_TIME,
    MAGIC_AT,
    PREFIX,
    TRANSACTIONAL,
    Batch,
    read_batch,
    read_only_batch,
    restamp,
)
from kwire.records.compression import decompress, may_be_produced
from kwire.records.message_set import PRODUCE_BATCHES_SINCE
from mockbroker.base.effects import Call, Close, Effects, EncodedReply, NoReply, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.completion import complete_delayed_fetches
from mockbroker.topics import configs as topic_configs
from mockbroker.topics import message_sets
from mockbroker.topics.model import INTERNAL, Partition, Topic
from mockbroker.topics.producers import Appended as ProducerBatch
from mockbroker.topics.record_rules import RecordRules, Rejection, rejection
from mockbroker.transactions.state import NO_PRODUCER, Identity

NONE, INVALID_RECORD = ErrorCode.NONE, ErrorCode.INVALID_RECORD
MAX_BATCH = 2**31 - 1  # bytes with base offset and length: an int in Kafka
RequestTopic = ProduceRequest.Topic
ResponseTopic = ProduceResponse.Topic
ResponsePartition = ProduceResponse.Topic.Partition
Appended: TypeAlias = tuple[int, int, int]  # base offset, append time and log start offset of appended records
NOT_ADDED = "Partition was not added to the transaction"
ABORTABLE_SINCE = 11  # first version that returns TRANSACTION_ABORTABLE
KIP_890_SINCE = 12  # first version that adds partitions to the transaction
LENGTH, LENGTH_AT = struct.Struct(">i"), 8  # the field of a batch with its size, without base offset and length
MIN_LENGTH = 14  # of a message of magic 0
TRANSACTIONAL_AT = CRC_FROM + 1  # offset in a batch of the byte with the transactional bit
MAGIC_2 = 2
NO_APPEND_TIME = -1
VERSION_OF_BATCHES_BEFORE_V3 = 7  # record batches in v0-2 are validated as in this version
ACKS = (-1, 0, 1)  # all, none, leader
ALL = -1
APPEND_COST = 3  # elements of a slice that a partition counts as
BYTES_PER_ELEMENT = 4_096  # bytes of records that count as one more element
MIN_IN_SYNC = "min.insync.replicas"
# Fields of a partition in a response from v5 on: index, error, base offset, append time, log start offset.
FIELDS = struct.Struct(">ihqqq")
FIELDS_SINCE = 5
FIELD_NAMES = ("index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset")
UNSET = FIELDS.unpack(b"\x7f" * FIELDS.size)  # values that no response has


def handle(broker: Broker, call: Call[ProduceRequest], now: float) -> Effects:
    request, version = call.request, call.ticket.version
    if request.transactional_id is None and _has_transactions(request):
        return _respond(call, _error_response(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if version >= KIP_890_SINCE and request.transactional_id is not None:
        _add_to_transaction(broker, call, request.transactional_id, now)
    if len(request.topic_data) == 1 and len((requested := request.topic_data[0]).partition_data) == 1:  # most requests
        appended: list[Partition] = []
        topic = broker.cluster.find(requested.name, requested.topic_id, by_id=version >= 13)
        data = requested.partition_data[0]
        result = _append(broker, call, topic, data, appended, now)
        if topic is None or version < FIELDS_SINCE or isinstance(result, ResponsePartition):
            results = [_partition_response(data, result)]
            effects = _respond(call, ProduceResponse(responses=[_response_topic(requested, results)]))
        elif request.acks == 0:
            effects = [NoReply(call.ticket)]
        else:
            effects = [EncodedReply(call.ticket, _encoded(topic, version, requested, result))]
        return effects + complete_delayed_fetches(broker, appended)
    return begin(call.ticket, _append_all(broker, call, now))


def _append_all(broker: Broker, call: Call[ProduceRequest], now: float) -> Steps:
    """Append to many partitions. A slice has a limited number of partitions and a limited size of records.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response.

    Delayed fetches are completed once, at the end, because a fetch may wait for many of the partitions.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        now: The broker's time in seconds.
    """
    response = ProduceResponse()
    appended: list[Partition] = []
    remaining = broker.slice_size
    for requested in _without_duplicates(call.request.topic_data):
        topic, results = _topic(broker, call, requested), list[ResponsePartition]()
        for data in requested.partition_data:
            if remaining <= 0:
                now = yield []
                remaining = broker.slice_size
                topic = _topic(broker, call, requested)  # it may have been deleted
            results.append(_partition_response(data, _append(broker, call, topic, data, appended, now)))
            remaining -= APPEND_COST + len(data.records or b"") // BYTES_PER_ELEMENT
        response.responses.append(_response_topic(requested, results))
    return _respond(call, response) + complete_delayed_fetches(broker, appended)


def _topic(broker: Broker, call: Call[ProduceRequest], requested: RequestTopic) -> Topic | None:
    return broker.cluster.find(requested.name, requested.topic_id, by_id=call.version >= 13)


def _response_topic(requested: RequestTopic, results: list[ResponsePartition]) -> ResponseTopic:
    return ResponseTopic(name=requested.name, topic_id=requested.topic_id, partition_responses=results)


def _partition_response(data: RequestTopic.Partition, result: Appended | ResponsePartition) -> ResponsePartition:
    """Return the part of a response about one partition.

    Args:
        data: The partition in the request.
        result: The result of ``_append``.
    """
    if isinstance(result, ResponsePartition):
        return result
    base_offset, append_time, start = result
    return ResponsePartition(
        index=data.index, base_offset=base_offset, log_append_time_ms=append_time, log_start_offset=start
    )


def _without_duplicates(requested: list[RequestTopic]) -> list[RequestTopic]:
    """Return the topics of a Produce (``requested``) without duplicate topics and partitions.

    If a partition occurs twice, its last data is used.
    """
    partitions_by_topic: dict[tuple[str, UUID], dict[int, RequestTopic.Partition]] = {}
    for topic in requested:
        partitions = partitions_by_topic.setdefault((topic.name, topic.topic_id), {})
        partitions.update((data.index, data) for data in topic.partition_data)
    return [
        RequestTopic(name=name, topic_id=topic_id, partition_data=list(partitions.values()))
        for (name, topic_id), partitions in partitions_by_topic.items()
    ]


def _add_to_transaction(broker: Broker, call: Call[ProduceRequest], transactional_id: str, now: float) -> None:
    """Add all partitions of a request to the transaction at once, so that the transaction is logged once (KIP-890).

    Errors of single partitions are reported when their batches are appended.

    If a producer has only one partition in the request, the partition is added when its batch is appended.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        transactional_id: The transactional id.
        now: The broker's time in seconds.
    """
    partitions_by_producer: dict[Identity, set[tuple[str, int]]] = {}
    for requested in call.request.topic_data:
        topic = broker.cluster.find(requested.name, requested.topic_id, by_id=call.version >= 13)
        for data in requested.partition_data:
            partition = topic.partition(data.index) if topic and not topic.internal else None
            if partition is None or broker.leader_error(partition, call.client.node):
                continue
            try:
                batch = read_batch(data.records or b"")
            except DecodeError:
                continue
            if batch.transactional and batch.producer_id != NO_PRODUCER:
                producer = Identity(batch.producer_id, batch.producer_epoch)
                partitions_by_producer.setdefault(producer, set()).add((partition.topic, partition.index))
    for producer, transaction_partitions in partitions_by_producer.items():
        if len(transaction_partitions) > 1:
            broker.transactions.add(transactional_id, producer, transaction_partitions, now, kip890=True)


def _has_transactions(request: ProduceRequest) -> bool:
    """Return whether a Produce request contains a transactional batch."""
    for topic in request.topic_data:  # plain loops, because every request is checked
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) <= TRANSACTIONAL_AT or records[MAGIC_AT] != MAGIC_2:
                continue
            if records[TRANSACTIONAL_AT] & TRANSACTIONAL:
                return True
    return False


def _error_response(request: ProduceRequest, error: ErrorCode) -> ProduceResponse:
    """Return a Produce response with the same error for every partition."""
    return ProduceResponse(
        responses=[
            ProduceResponse.Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    ResponsePartition(index=data.index, error_code=error, base_offset=-1)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _encoded(topic: Topic, version: int, requested: RequestTopic, appended: Appended) -> bytes:
    """Return the encoded response to a Produce with one partition that has no error.

    Responses about the same topic differ only in the fields of the partition. The other bytes are cached.

    Args:
        topic: The topic.
        version: API version.
        requested: The topic in the request, with one partition.
        appended: The result of the append to this partition.
    """
    around = topic.produce_responses.get(version)
    if around is None:
        unset = ResponsePartition(**dict(zip(FIELD_NAMES, UNSET, strict=True)))
        response = ProduceResponse(responses=[_response_topic(requested, [unset])])
        before, _, after = encode(response, version).partition(FIELDS.pack(*UNSET))
        around = topic.produce_responses[version] = before, after
    return around[0] + FIELDS.pack(requested.partition_data[0].index, 0, *appended) + around[1]


def _respond(call: Call[ProduceRequest], response: ProduceResponse) -> Effects:
    if call.request.acks != 0:
        return [Reply(call.ticket, response)]
    errors = {result.error_code for topic in response.responses for result in topic.partition_responses} - {NONE}
    if errors:  # there is no response, so Kafka closes the connection
        names = ", ".join(ErrorCode(error).name for error in sorted(errors))
        return [Close(call.ticket, f"Produce with acks=0 failed: {names}")]
    return [NoReply(call.ticket)]


def _append(
    broker: Broker,
    call: Call[ProduceRequest],
    topic: Topic | None,
    data: ProduceRequest.Topic.Partition,
    appended: list[Partition],
    now: float,
) -> Appended | ResponsePartition:
    """Append the records of a partition. Return where they were appended, or the response with the error.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        topic: The topic; None if it does not exist.
        data: The partition in the request.
        appended: List to which the partition is added if the records are appended.
        now: The broker's time in seconds.
    """
    partition = topic.partition(data.index) if topic else None
    leads = partition is not None and partition.leader == call.client.node
    error = NONE if leads else broker.leader_error(partition, call.client.node)
    version, acks = call.ticket.version, call.request.acks
    if topic is None and version >= 13:
        error = ErrorCode.UNKNOWN_TOPIC_ID
    if partition is not None and acks not in ACKS:  # Kafka's order: unknown, acks, leader
        error = ErrorCode.INVALID_REQUIRED_ACKS
    if not error and topic is not None and topic.name in INTERNAL:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    if (
        acks == ALL
        and not error
        and partition is not None
        and (broker.cluster.down or partition.catching_up)
        and _lacks_replicas(broker, topic, partition)
    ):
        error = ErrorCode.NOT_ENOUGH_REPLICAS
    if error or partition is None:
        return ResponsePartition(index=data.index, error_code=error, base_offset=-1)
    assert topic is not None
    rules = topic.rules.get(partition.leader)
    if rules is None:
        settings = broker.settings_of(partition.leader)
        rules = topic.rules[partition.leader] = RecordRules.of(topic.configs, settings, broker.release)
    config = topic.log_configs.get(partition.leader) or broker.logs.config(topic, partition)
    partition.log.limits = config.limits
    batch = check(data.records, version, rules.largest_batch)
    if batch is None:
        return ResponsePartition(index=data.index, base_offset=-1)
    if isinstance(batch, ErrorCode):
        return ResponsePartition(index=data.index, error_code=batch, base_offset=-1)
    now_ms = broker.wall_ms(now)
    if (rules.need_records(batch, now_ms) or broker.settings.mockbroker_check_records) and (
        rejected := _rejection(batch, rules, partition, now_ms)
    ):
        return _rejected(partition, rejected)
    if rules.codec is not None and rules.changes_codec(batch):
        recompressed = _recompressed(batch, rules)
        if isinstance(recompressed, ErrorCode):
            return ResponsePartition(index=data.index, error_code=recompressed, base_offset=-1)
        batch = recompressed
    if len(batch.data) > rules.largest_segment:
        return ResponsePartition(index=data.index, error_code=ErrorCode.RECORD_LIST_TOO_LARGE, base_offset=-1)
    if rules.append_time or batch.attributes & LOG_APPEND_TIME:  # the timestamp type of the producer is ignored
        stamp = now_ms if rules.append_time else batch.max_timestamp
        batch = restamp(batch, stamp, log_append_time=rules.append_time)
    transactional = bool(batch.attributes & TRANSACTIONAL)
    has_producer = batch.producer_id != NO_PRODUCER  # Kafka validates only these
    if transactional and has_producer and (error := _transaction_error(broker, call, partition, batch, now)):
        message = NOT_ADDED if error == ErrorCode.INVALID_TXN_STATE else None
        return ResponsePartition(index=data.index, error_code=error, base_offset=-1, error_message=message)
    result = _append_batch(
        partition, batch, appended, now_ms, starts_at_zero=transactional and version >= KIP_890_SINCE
    )
    if not isinstance(result, ResponsePartition) and appended and appended[-1] is partition:
        broker.logs.appended(topic, partition, config, result[0], now)
    return result


def _recompressed(batch: Batch, rules: RecordRules) -> Batch | ErrorCode:
    """Return a batch with the compression that the topic's ``compression.type`` requires, or the error.

    Args:
        batch: The batch.
        rules: Requirements of the topic on records.
    """
    try:
        recompressed = rules.recompressed(batch)
    except LimitError:
        return ErrorCode.MESSAGE_TOO_LARGE
    except DecodeError:
        return ErrorCode.CORRUPT_MESSAGE
    return ErrorCode.MESSAGE_TOO_LARGE if len(recompressed.data) > rules.largest_batch else recompressed


def _rejected(partition: Partition, rejected: Rejection) -> ResponsePartition:
    return ResponsePartition(
        index=partition.index,
        error_code=rejected.error,
        base_offset=-1,
        log_start_offset=partition.log.start if rejected.text else -1,
        record_errors=[
            ResponsePartition.RecordError(batch_index=index, batch_index_error_message=text)
            for index, text in rejected.records
        ],
        error_message=rejected.text,
    )


def _lacks_replicas(broker: Broker, topic: Topic | None, partition: Partition | None) -> bool:
    """Return whether a Produce with acks=all must fail, because too few replicas are in sync.

    The partition needs ``min.insync.replicas`` in-sync replicas; if it has fewer replicas, all of them must be in sync.

    Args:
        broker: the state of the cluster.
        topic: the topic, which must not be None.
        partition: the partition of the topic, which must not be None.

    Source: Kafka's Partition.effectiveMinIsr.
    """
    assert topic is not None
    assert partition is not None
    settings = broker.settings_of(partition.leader)
    min_in_sync = topic_configs.effective(topic.configs, MIN_IN_SYNC, settings, broker.release)
    assert isinstance(min_in_sync, int)
    return len(broker.cluster.in_sync(partition)) < min(min_in_sync, len(partition.replicas))


def _transaction_error(
    broker: Broker, call: Call[ProduceRequest], partition: Partition, batch: Batch, now: float
) -> ErrorCode:
    """Return the transaction coordinator's error for a batch, or NONE if its partition is in the transaction.

    For the errors, see ``Transactions.write_error``.

    Since v12, the partition is added to the transaction (KIP-890). In older versions, the result is NONE without
    ``transaction.partition.verification.enable``.

    Args:
        broker: the state of the cluster.
        call: the request, its client, and its ticket (the object that identifies the request).
        partition: the partition.
        batch: the batch.
        now: the broker's time in seconds.
    """
    producer = Identity(batch.producer_id, batch.producer_epoch)
    if partition.producers.is_open(producer.producer_id, producer.epoch if broker.release.kip890 else None):
        return NONE
    adds = call.version >= KIP_890_SINCE
    if not adds and not broker.settings_of(partition.leader).transaction_partition_verification_enable:
        return NONE
    partition.producers.begin_verification(batch)
    return broker.transactions.write_error(
        call.request.transactional_id or "",
        producer,
        (partition.topic, partition.index),
        now,
        adds=adds,
        abortable=call.version >= ABORTABLE_SINCE,
        busy=ErrorCode.NOT_ENOUGH_REPLICAS,
    )


def _append_batch(
    partition: Partition, batch: Batch, appended: list[Partition], now_ms: int, *, starts_at_zero: bool
) -> Appended | ResponsePartition:
    """Append a batch, unless it is invalid, a duplicate or out of order. Return a result of ``_append``.

    Args:
        partition: The partition.
        batch: The batch.
        appended: List to which the partition is added if the batch is appended.
        now_ms: The current time in milliseconds since 1970.
        starts_at_zero: True if a producer that is new to the partition must start with sequence 0 (KIP-890).
    """
    log = partition.log
    outcome: ProducerBatch | ErrorCode = INVALID_RECORD
    if _is_valid_for_log(batch):
        outcome = partition.producers.check(batch, starts_at_zero=starts_at_zero)
    if isinstance(outcome, ProducerBatch):
        return outcome.base_offset, outcome.max_timestamp, log.start
    if outcome:
        return ResponsePartition(index=partition.index, error_code=outcome, base_offset=-1, log_start_offset=log.start)
    base_offset = partition.append(batch, now_ms)
    appended.append(partition)
    append_time = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else NO_APPEND_TIME
    return base_offset, append_time, log.start


def check(records: bytes | None, version: int, limit: int) -> Batch | ErrorCode | None:
    """Validate the records of a partition in a Produce request, and return the record batch.

    As in Kafka, a truncated second batch is ignored.

    Args:
        records: the records of the partition in the request; None if the field is null.
        version: API version of the request.
        limit: maximum size in bytes of a record batch, or of a message of a message set.

    Returns: the batch; an error code if the records are not valid; None for an empty message set (v0-2).
    """
    if version < PRODUCE_BATCHES_SINCE:
        if records is None:
            return ErrorCode.INVALID_RECORD
        if len(records) <= MAGIC_AT or records[MAGIC_AT] != MAGIC_2:
            return message_sets.to_batch(records, limit)
        version = VERSION_OF_BATCHES_BEFORE_V3
    if not records:
        return ErrorCode.INVALID_RECORD
    batch = read_only_batch(records)
    if batch is None:
        if error := _framing_error(records):
            return error
        try:
            batch = read_batch(records)
        except DecodeError:  # shorter than a header
            return ErrorCode.CORRUPT_MESSAGE
        if not batch.crc_is_right():
            return ErrorCode.CORRUPT_MESSAGE
    if len(batch.data) > limit:
        return ErrorCode.MESSAGE_TOO_LARGE
    if batch.attributes & CODEC_MASK and not may_be_produced(batch.codec, version):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return batch


def _rejection(batch: Batch, rules: RecordRules, partition: Partition, now_ms: int) -> Rejection | None:
    """Decode and validate the records of a batch.

    Args:
        batch: the batch.
        rules: requirements of the topic on records.
        partition: the partition.
        now_ms: the current time in milliseconds since 1970.

    Returns: the error with its message if a record is invalid; None if all records are valid, or if the batch is too
        large to be decompressed.
    """
    try:
        decompress(batch.codec, batch.data[HEADER.size :])
    except LimitError:  # Kafka would accept it
        return None
    except DecodeError:
        return Rejection(ErrorCode.CORRUPT_MESSAGE)
    try:
        partition_name = f"{partition.topic}-{partition.index}"
        return rejection(batch.records(verify_crc=False, copy=False), batch, rules, partition_name, now_ms)
    except DecodeError:
        return Rejection(ErrorCode.INVALID_RECORD)


def _framing_error(records: bytes) -> ErrorCode:
    """Return the error if the records are not exactly one batch of magic 2, or NONE.

    As in Kafka, a truncated second batch is ignored.

    Source: Kafka's ProduceRequest.validateRecords.
    """
    end = _batch_end(records, 0)
    if isinstance(end, ErrorCode):
        return end
    if end is None or records[MAGIC_AT] != MAGIC_2:  # truncated, or a message set, which is rejected from v3 on
        return INVALID_RECORD
    second = _batch_end(records, end)
    if isinstance(second, ErrorCode):
        return second
    return NONE if second is None else INVALID_RECORD


def _batch_end(records: bytes, at: int) -> int | ErrorCode | None:
    """Return the end of a batch or message, None if it is truncated, or the error if its length or magic is invalid.

    Args:
        records: The records of a partition in the request.
        at: Offset of the first byte of the batch.

    Source: Kafka's ByteBufferLogInputStream.
    """
    left = len(records) - at
    if left < PREFIX:
        return None
    (length,) = LENGTH.unpack_from(records, at + LENGTH_AT)
    if length < MIN_LENGTH:
        return ErrorCode.CORRUPT_MESSAGE
    if left <= MAGIC_AT:
        return None
    if records[at + MAGIC_AT] > MAGIC_2:
        return ErrorCode.CORRUPT_MESSAGE
    if length > MAX_BATCH - PREFIX:  # Kafka's sum overflows
        return ErrorCode.UNKNOWN_SERVER_ERROR
    end: int = at + PREFIX + length
    return end if end <= len(records) else None


def _is_valid_for_log(batch: Batch) -> bool:
    """Return whether a batch from a producer is valid.

    The record count must be correct, and the base offset 0. The batch must not be a control batch. If it has a producer
    id, its sequence number must not be negative. Source: Kafka's LogValidator.validateBatch.
    """
    if batch.base_sequence < 0 <= batch.producer_id:
        return False
    is_counted = batch.count > 0 and batch.last_offset_delta == batch.count - 1
    return is_counted and batch.base_offset == 0 and not batch.attributes & CONTROL
