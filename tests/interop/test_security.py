"""Real clients and listeners with SASL and TLS: each comes in by every way that it has, and is refused in its own words."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from interop.matrix import REASONS
from interop.secure import TOPIC, VALUE, Way, come_in
from interop.stage import CONFIG, FAMILIES, MARKS

from mockbroker import ThreadCluster, run_cluster
from mockbroker.listeners import PROTOCOLS

pytestmark = MARKS

USERS = {"alice": "alice-secret"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
REFUSED = {  # what each says of a wrong password; some tell the reason in their logs only
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
    caplog.set_level(logging.CRITICAL, logger="kafka")  # kept lines would keep what kafka-python leaves open
    way = Way(servers=fresh.listeners["SASL_PLAINTEXT"], mechanism="PLAIN", password="other")
    with pytest.raises(Exception) as refused:  # noqa: PT011 - each has its own
        come_in(family, way)
    assert REFUSED[family] in f"{type(refused.value).__name__} {refused.value}"
    assert fresh.records(TOPIC) == []
