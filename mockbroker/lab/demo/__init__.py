"""The demo (``mockbroker demo``): three kinds of real client in one consumer group."""

GROUP = "demo"
TOPIC = "orders"
PARTITIONS = 6
SESSION_S = 2.0
HEARTBEAT_S = 0.3
KINDS = ("kafka-python", "confluent-kafka", "aiokafka")
