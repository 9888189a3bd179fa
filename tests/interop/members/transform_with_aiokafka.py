"""Consume, transform, produce with aiokafka, in transactions."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import InvalidProducerEpoch, ProducerFenced
from aiokafka.structs import TopicPartition
from talk import OPTIONS, awaited, tell, tell_fenced, tell_left, tell_record, transformed


async def take(consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, wanted: int) -> dict[TopicPartition, int]:
    """Transform this many records in a transaction; return the positions after them."""
    positions = {}
    await producer.begin_transaction()
    while wanted > 0:
        for at, records in (await consumer.getmany(timeout_ms=60_000, max_records=wanted)).items():
            for record in records:
                tell_record(record.topic, record.partition, record.offset, record.value)
                await producer.send(OPTIONS["output"], transformed(record.value), partition=record.partition)
            positions[at] = records[-1].offset + 1
            wanted -= len(records)
    await producer.flush()
    await producer.send_offsets_to_transaction(positions, OPTIONS["group"])
    return positions


async def rewind(consumer: AIOKafkaConsumer, positions: dict[TopicPartition, int]) -> None:
    """Seek to the committed offsets of the group, because aborted records must be processed again."""
    for at in positions:
        consumer.seek(at, await consumer.committed(at) or 0)


async def run(consumer: AIOKafkaConsumer, producer: AIOKafkaProducer) -> None:
    positions = {}
    await producer.start()
    tell("ready")
    await consumer.start()
    while (requested := await asyncio.to_thread(awaited))[0] != "leave":
        match requested:
            case ["take", wanted]:
                positions = await take(consumer, producer, int(wanted))
                tell("taken")
            case ["commit"]:
                await producer.commit_transaction()
                tell("committed")
            case ["abort"]:
                await producer.abort_transaction()
                await rewind(consumer, positions)
                tell("aborted")


async def main() -> None:
    consumer = AIOKafkaConsumer(
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
    producer = AIOKafkaProducer(
        bootstrap_servers=OPTIONS["bootstrap"],
        client_id=OPTIONS["client_id"],
        transactional_id=OPTIONS["transactional_id"],
        transaction_timeout_ms=OPTIONS["transaction_timeout_ms"],
    )
    try:
        await run(consumer, producer)
    except (ProducerFenced, InvalidProducerEpoch) as fenced:
        tell_fenced(fenced)
    await producer.stop()
    await consumer.stop()
    tell_left()


asyncio.run(main())
