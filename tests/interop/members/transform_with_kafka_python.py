"""Consume, transform, produce with kafka-python, in transactions."""

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import InvalidProducerEpochError, ProducerFencedError
from talk import OPTIONS, tell, tell_fenced, tell_left, tell_record, transact, transformed

consumer = KafkaConsumer(
    OPTIONS["topic"],
    bootstrap_servers=OPTIONS["bootstrap"],
    client_id=OPTIONS["client_id"],
    group_id=OPTIONS["group"],
    session_timeout_ms=OPTIONS["session_ms"],
    heartbeat_interval_ms=OPTIONS["heartbeat_ms"],
    auto_offset_reset="earliest",
    isolation_level="read_committed",
    enable_auto_commit=False,
)
producer = KafkaProducer(
    bootstrap_servers=OPTIONS["bootstrap"],
    client_id=OPTIONS["client_id"],
    transactional_id=OPTIONS["transactional_id"],
    transaction_timeout_ms=OPTIONS["transaction_timeout_ms"],
)


def take(wanted: int) -> dict[tuple[str, int], int]:
    """Transform this many records in a transaction; return the positions after them."""
    positions = {}
    producer.begin_transaction()
    while wanted > 0:
        for at, records in consumer.poll(timeout_ms=60_000, max_records=wanted).items():
            for record in records:
                tell_record(record.topic, record.partition, record.offset, record.value)
                producer.send(OPTIONS["output"], transformed(record.value), partition=record.partition)
            positions[at] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
            wanted -= len(records)
    producer.flush()
    producer.send_offsets_to_transaction(positions, consumer.group_metadata())
    return positions


def abort(positions: dict[tuple[str, int], int]) -> None:
    """Seek to the committed offsets of the group, because aborted records must be processed again."""
    producer.abort_transaction()
    for at in positions:
        committed = consumer.committed(TopicPartition(at.topic, at.partition))
        consumer.seek(at, committed or 0)


def run() -> None:
    producer.init_transactions()
    tell("ready")
    transact(take, producer.commit_transaction, abort)


try:
    run()
except (ProducerFencedError, InvalidProducerEpochError) as fenced:
    tell_fenced(fenced)
producer.close()
consumer.close(autocommit=False)
tell_left()
