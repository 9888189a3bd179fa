"""A consumer and producer with kafka-python, for ``mockbroker torture -- python kafka_python.py``."""

import os
import time

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

servers, topic = os.environ["MOCKBROKER_BOOTSTRAP_SERVERS"].split(","), os.environ["MOCKBROKER_TOPIC"]
security = {
    name: os.environ[variable]
    for name, variable in {
        "security_protocol": "MOCKBROKER_SECURITY_PROTOCOL",
        "ssl_cafile": "MOCKBROKER_TLS_CA",
        "sasl_mechanism": "MOCKBROKER_SASL_MECHANISM",
        "sasl_plain_username": "MOCKBROKER_SASL_USERNAME",
        "sasl_plain_password": "MOCKBROKER_SASL_PASSWORD",
    }.items()
    if variable in os.environ
}


class Tokens(AbstractTokenProvider):
    def token(self):
        return os.environ["MOCKBROKER_SASL_TOKEN"]


if security.get("sasl_mechanism") == "OAUTHBEARER":
    security["sasl_oauth_token_provider"] = Tokens()


def started(kind, **options):
    """Create a client; it may take several attempts, because it asks the broker for its versions."""
    while True:
        try:
            return kind(bootstrap_servers=servers, request_timeout_ms=3_000, **security, **options)
        except KafkaError as error:
            print(f"start: {error!r}", flush=True)
            time.sleep(0.5)


consumer = started(
    lambda **options: KafkaConsumer(topic, **options),
    group_id=os.environ["MOCKBROKER_GROUP"],
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    session_timeout_ms=2_500,
    heartbeat_interval_ms=500,
    max_poll_interval_ms=10_000,
    metadata_max_age_ms=3_000,
)
producer = started(KafkaProducer, max_block_ms=3_000)
while True:
    try:
        for records in consumer.poll(timeout_ms=500).values():
            consumer.commit()
            producer.send(f"{topic}-results", records[-1].value[:100])
    except KafkaError as error:
        print(f"{error!r}", flush=True)
        time.sleep(0.1)
