"""A consumer and producer with aiokafka, for ``mockbroker torture -- python aiokafka_client.py``."""

import asyncio
import os

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError
from aiokafka.helpers import create_ssl_context

servers, topic = os.environ["MOCKBROKER_BOOTSTRAP_SERVERS"], os.environ["MOCKBROKER_TOPIC"]
protocol = os.environ.get("MOCKBROKER_SECURITY_PROTOCOL", "PLAINTEXT")
security = {"security_protocol": protocol}
if protocol.endswith("SSL"):
    security["ssl_context"] = create_ssl_context(cafile=os.environ["MOCKBROKER_TLS_CA"])
if protocol.startswith("SASL"):
    security["sasl_mechanism"] = os.environ["MOCKBROKER_SASL_MECHANISM"]
    security["sasl_plain_username"] = os.environ["MOCKBROKER_SASL_USERNAME"]
    security["sasl_plain_password"] = os.environ["MOCKBROKER_SASL_PASSWORD"]


class Tokens(AbstractTokenProvider):
    async def token(self):
        return os.environ["MOCKBROKER_SASL_TOKEN"]


if security.get("sasl_mechanism") == "OAUTHBEARER":
    security["sasl_oauth_token_provider"] = Tokens()


async def started(make):
    """Start a client; it may take several attempts, because it asks the broker for metadata."""
    while True:
        client = make()
        try:
            await client.start()
        except KafkaError as error:
            print(f"start: {error!r}", flush=True)
            await client.stop()
            await asyncio.sleep(0.5)
        else:
            return client


async def main():
    consumer = await started(
        lambda: AIOKafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=os.environ["MOCKBROKER_GROUP"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            request_timeout_ms=3_000,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
            max_poll_interval_ms=10_000,
            rebalance_timeout_ms=10_000,
            metadata_max_age_ms=3_000,
            **security,
        )
    )
    producer = await started(lambda: AIOKafkaProducer(bootstrap_servers=servers, request_timeout_ms=3_000, **security))
    while True:
        try:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                await consumer.commit()
                await producer.send(f"{topic}-results", records[-1].value[:100])
        except KafkaError as error:
            print(f"{error!r}", flush=True)
            await asyncio.sleep(0.1)


asyncio.run(main())
