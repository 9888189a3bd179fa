"""Each client connects to a listener with SASL, TLS or both, writes a record, and reads the record."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import ssl
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from interop import programs
from interop.stage import LIMIT, need_client

TOPIC, VALUE = "orders", "hello"


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way to connect. ``mechanism``: SASL mechanism, "" for none; ``ca``: file with the CA certificate, None without
    TLS; ``client``: file with the key and the certificate of the client."""

    servers: str
    mechanism: str = ""
    user: str = "alice"
    password: str = "alice-secret"
    ca: Path | None = None
    client: Path | None = None

    @property
    def protocol(self) -> str:
        """Return Kafka's name of the security protocol."""
        return f"{'SASL_' if self.mechanism else ''}{'SSL' if self.ca else 'PLAINTEXT'}"

    @property
    def token(self) -> str:
        """Return an unsecured token (RFC 7515, alg none) with the user as its subject."""
        claims = {"sub": self.user, "iat": time.time() - 1, "exp": time.time() + 3600}
        parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
        return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), ""])

    def asked(self) -> Mapping[str, str]:
        """Return the fields of a request to a client program."""
        files = {"ca": self.ca, "client": self.client}
        sasl = {"mechanism": self.mechanism, "user": self.user, "password": self.password, "token": self.token}
        return (sasl if self.mechanism else {}) | {name: str(path) for name, path in files.items() if path}


def come_in(family: str, way: Way) -> str:
    """Return the value that the client has read. Raises: the exception of the client if it is refused."""
    need_client(family)
    return IN[family](way)


def read(family: str, way: Way, wanted: int) -> list[str]:
    """Read the first records with a client, which waits for them."""
    need_client(family)
    if family in programs.PROGRAMS:
        how = {"bootstrap": way.servers, "security": way.asked(), "topic": TOPIC, "partition": 0}
        return [value for _, value in programs.asked(family).ask("read", start=0, wanted=wanted, **how)]
    return _librdkafka_reads(way, wanted)


def _librdkafka_reads(way: Way, wanted: int) -> list[str]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": way.servers, "group.id": "reader", **_librdkafka(way)})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    messages = [consumer.poll(LIMIT) for _ in range(wanted)]
    consumer.close()
    values = [message.value() for message in messages if message is not None]
    return [value.decode() for value in values if value is not None]


def _pythonic(way: Way, tokens: object) -> dict[str, Any]:
    """Return the settings that have the same names in kafka-python and aiokafka: all except the TLS files."""
    how: dict[str, Any] = {"bootstrap_servers": way.servers, "security_protocol": way.protocol}
    if way.mechanism == "OAUTHBEARER":
        how |= {"sasl_mechanism": way.mechanism, "sasl_oauth_token_provider": tokens}
    elif way.mechanism:
        how |= {"sasl_mechanism": way.mechanism, "sasl_plain_username": way.user, "sasl_plain_password": way.password}
    return how


def _kafka_python(way: Way) -> str:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import KafkaTimeoutError
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):
        def __init__(self, **config: Any) -> None: ...

        def token(self) -> str:
            return way.token

    how = _pythonic(way, Tokens())
    if way.ca:
        how |= {"ssl_cafile": str(way.ca)}
    if way.client:
        how |= {"ssl_certfile": str(way.client), "ssl_keyfile": str(way.client)}
    producer, problem = None, ""
    try:
        producer = KafkaProducer(bootstrap_timeout_ms=2_000, **how)
    except KafkaTimeoutError as error:
        problem = str(error)
    if producer is None:
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            gc.collect()  # the client has left sockets open
        raise RuntimeError(problem)
    try:
        producer.send(TOPIC, VALUE.encode()).get(LIMIT)
    finally:
        producer.close(0)
    consumer = KafkaConsumer(TOPIC, auto_offset_reset="earliest", **how)
    try:
        return str(next(consumer).value.decode())
    finally:
        consumer.close()


def _librdkafka(way: Way) -> dict[str, str]:
    """Return the settings of confluent-kafka and kcat."""
    how = {"security.protocol": way.protocol}
    if way.mechanism == "OAUTHBEARER":
        how |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={way.user}"}
    elif way.mechanism:
        how |= {"sasl.username": way.user, "sasl.password": way.password}
    if way.mechanism:
        how |= {"sasl.mechanism": way.mechanism}
    if way.ca:
        how |= {"ssl.ca.location": str(way.ca)}
    if way.client:
        how |= {"ssl.certificate.location": str(way.client), "ssl.key.location": str(way.client)}
    return how


def _confluent_kafka(way: Way) -> str:
    from confluent_kafka import KafkaError, KafkaException, Producer

    refused: list[KafkaError] = []

    def heard(error: KafkaError) -> None:
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            refused.append(error)

    how: dict[str, Any] = {"bootstrap.servers": way.servers, "error_cb": heard, **_librdkafka(way)}
    producer = Producer(how)
    sent: list[object] = []
    producer.produce(TOPIC, VALUE, partition=0, on_delivery=lambda *arguments: sent.append(arguments))
    until = time.monotonic() + LIMIT
    try:
        while not sent:
            producer.poll(0.05)
            if refused:
                producer.purge()
                raise KafkaException(refused[0])
            assert time.monotonic() < until, "nothing came back"
    finally:
        del producer  # closes the producer, to which the traceback of the exception would otherwise refer
    return _librdkafka_reads(way, 1)[0]


def _kcat(way: Way) -> str:
    options = [word for name, value in _librdkafka(way).items() for word in ("-X", f"{name}={value}")]
    command = ["kcat", "-b", way.servers, *options, "-t", TOPIC, "-p", "0"]
    run = partial(subprocess.run, capture_output=True, text=True, timeout=LIMIT)
    if (listed := run(["kcat", "-b", way.servers, *options, "-L", "-m", "2"])).returncode:
        raise RuntimeError(listed.stderr)
    run([*command, "-P"], input=VALUE)
    return str(run([*command, "-C", "-o", "0", "-c", "1"]).stdout.strip())


def _aiokafka(way: Way) -> str:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return way.token

    how = _pythonic(way, Tokens())
    if way.ca:
        how |= {"ssl_context": ssl.create_default_context(cafile=way.ca)}
    if way.client:
        how["ssl_context"].load_cert_chain(way.client)

    async def run() -> str:
        producer = AIOKafkaProducer(**how)
        try:
            await producer.start()
            await producer.send_and_wait(TOPIC, VALUE.encode(), partition=0)
        finally:
            await producer.stop()
        async with AIOKafkaConsumer(TOPIC, auto_offset_reset="earliest", **how) as consumer:
            return (await consumer.getone()).value.decode()

    return asyncio.run(asyncio.wait_for(run(), LIMIT))


def _program(family: str) -> Callable[[Way], str]:
    def come_in_by_it(way: Way) -> str:
        how = {"bootstrap": way.servers, "security": way.asked(), "topic": TOPIC, "partition": 0}
        records = [{"partition": 0, "value": VALUE}]
        sent = {"acks": "all", "compression": "none", "idempotent": False, "timestamp": None}
        program = programs.asked(family)
        program.ask("nodes", **how)  # reports an error at once, where a producer would retry
        program.ask("produce", records=records, **sent, **how)
        return str(program.ask("read", start=0, wanted=1, **how)[0][1])

    return come_in_by_it


IN: Mapping[str, Callable[[Way], str]] = {
    "kafka-python": _kafka_python,
    "confluent-kafka": _confluent_kafka,
    "aiokafka": _aiokafka,
    "kcat": _kcat,
    **{family: _program(family) for family in programs.PROGRAMS},
}
