"""A recording in a topic as a frame log: python examples/recorded_topic.py HOST:PORT TOPIC > frames.jsonl

`kwire` reads topics itself (docs/recordings.md). For properties that it does not support, add them to CONFIG.
"""

import heapq
import sys
from collections.abc import Iterator

from confluent_kafka import Consumer, Message, TopicPartition

from kwire.recording import FrameLog

servers, topic = sys.argv[1:]
CONFIG = {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False}


def frames(partition: int) -> Iterator[tuple[int, dict[str, str], Message]]:
    """Yield the frames of a partition up to its present end: time, headers and record."""
    consumer = Consumer(CONFIG)
    first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
    consumer.assign([TopicPartition(topic, partition, first)])
    while first < end:
        record = consumer.poll(30)
        if record is None or record.error():
            sys.exit(f"partition {partition}: no record at offset {first}")
        first = record.offset() + 1
        headers = {name: value.decode() for name, value in record.headers() or ()}
        if "time_us" in headers:
            yield int(headers["time_us"]), headers, record
    consumer.close()


consumer = Consumer(CONFIG)
partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
consumer.close()
log, numbers = FrameLog(), dict[str, int]()
for time_us, headers, record in heapq.merge(*map(frames, partitions), key=lambda frame: frame[0]):
    connection = headers["connection"]
    if connection not in numbers:
        numbers[connection] = len(numbers) + 1
        log.opened(numbers[connection], headers["client"], headers["broker"], time_us)
    to_broker = headers["direction"] == "request"
    sys.stdout.buffer.write(log.frame(numbers[connection], to_broker, record.value(), time_us))
