"""kafka-python in group `demo`: python examples/connect_kafka_python.py HOST:PORT."""

import sys

from kafka import KafkaConsumer

consumer = KafkaConsumer("orders", bootstrap_servers=sys.argv[1], group_id="demo", auto_offset_reset="earliest")
for record in consumer:
    print(record.partition, record.offset, record.value.decode(), flush=True)
