"""Real clients and listeners with SASL and TLS: each client connects in every way that it supports, or is refused."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from interop.matrix import REASONS
from interop.secure import TOPIC, VALUE, Way, come_in, read
from interop.stage import CONFIG, FAMILIES, MARKS

from mockbroker import ThreadCluster, run_cluster
from mockbroker.net.listeners import PROTOCOLS

pytestmark = MARKS

USERS = {"alice": "alice-secret"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
REFUSED = {  # the error of each client for a wrong password; some clients report the reason only in their logs
    "kafka-python": "KafkaTimeoutError: Unable to bootstrap",
    "confluent-kafka": "_AUTHENTICATION",
    "aiokafka": "KafkaConnectionError: Unable to bootstrap",
    "kcat": "SASL authentication error: Authentication failed: Invalid username or password",
    "java": "SaslAuthenticationException",
    "franz-go": "SASL_AUTHENTICATION_FAILED",
    "kafkajs": "KafkaJSSASLAuthenticationError",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with run_cluster(topics={TOPIC: 1}, config=CONFIG, listeners=PROTOCOLS, users=USERS) as found:
        yield found


@pytest.fixture
def fresh(cluster: ThreadCluster) -> ThreadCluster:
    cluster.reset()
    return cluster


@pytest.mark.scenario("{mechanism}")
@pytest.mark.parametrize(
    ("family", "mechanism"),
    [(family, mechanism) for family in FAMILIES for mechanism in MECHANISMS if (mechanism, family) not in REASONS],
)
def test_sasl(fresh: ThreadCluster, family: str, mechanism: str) -> None:
    way = Way(servers=fresh.listeners["SASL_PLAINTEXT"], mechanism=mechanism)
    assert come_in(family, way) == VALUE
    assert {request.body.mechanism for request in fresh.requests("SaslHandshake")} == {mechanism}


@pytest.mark.scenario("TLS")
@pytest.mark.parametrize("family", FAMILIES)
def test_tls(fresh: ThreadCluster, family: str) -> None:
    assert come_in(family, Way(servers=fresh.listeners["SSL"], ca=fresh.tls.ca)) == VALUE


@pytest.mark.scenario("SASL over TLS")
@pytest.mark.parametrize("family", FAMILIES)
def test_sasl_over_tls(fresh: ThreadCluster, family: str) -> None:
    mechanism = "PLAIN" if ("SCRAM-SHA-512", family) in REASONS else "SCRAM-SHA-512"
    way = Way(servers=fresh.listeners["SASL_SSL"], mechanism=mechanism, ca=fresh.tls.ca)
    assert come_in(family, way) == VALUE


@pytest.fixture(scope="module")
def strict() -> Iterator[ThreadCluster]:
    with run_cluster(topics={TOPIC: 1}, config=CONFIG | {"ssl.client.auth": "required"}, listeners=["SSL"]) as found:
        yield found


@pytest.mark.scenario("client certificate")
@pytest.mark.parametrize("family", FAMILIES)
def test_client_certificate(strict: ThreadCluster, family: str) -> None:
    strict.reset()
    assert come_in(family, Way(servers=strict.bootstrap_servers, ca=strict.tls.ca, client=strict.tls.client)) == VALUE


@pytest.mark.scenario("wrong password is refused")
@pytest.mark.parametrize("family", FAMILIES)
def test_wrong_password(fresh: ThreadCluster, family: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="kafka")  # log records would keep sockets of kafka-python open
    way = Way(servers=fresh.listeners["SASL_PLAINTEXT"], mechanism="PLAIN", password="other")
    with pytest.raises(Exception) as refused:  # noqa: PT011 - each has its own
        come_in(family, way)
    assert REFUSED[family] in f"{type(refused.value).__name__} {refused.value}"
    assert fresh.records(TOPIC) == []


@contextmanager
def produced_slowly(cluster: ThreadCluster, values: Sequence[str]) -> Iterator[None]:
    """Write a record every 0.3 s during the block; values that are not written when it ends are skipped."""
    over = threading.Event()

    def produce() -> None:
        for value in values:
            cluster.produce(TOPIC, [value])
            if over.wait(0.3):
                return

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("family", ["confluent-kafka", "java", "franz-go", "kafkajs"])
def test_session_is_renewed(family: str, caplog: pytest.LogCaptureFixture) -> None:
    """A consumer that reads for longer than a session of 2 s reauthenticates on the same connections."""
    config = CONFIG | {"connections.max.reauth.ms": 2_000}
    values = [str(number) for number in range(14)]
    with run_cluster(topics={TOPIC: 1}, config=config, listeners=["SASL_PLAINTEXT"], users=USERS) as cluster:
        way = Way(servers=cluster.bootstrap_servers, mechanism="SCRAM-SHA-256")
        with produced_slowly(cluster, values):
            assert read(family, way, len(values)) == values
        times = [request.time_ms for request in cluster.requests("SaslHandshake")]
    assert max(times) - min(times) > 1_500
    assert [record.getMessage() for record in caplog.records if "session expired" in record.getMessage()] == []
