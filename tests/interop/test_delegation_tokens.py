"""kafka-delegation-tokens.sh creates a token, and a Java client logs in with it as the owner of the token."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from interop.kafka_tools import with_login
from interop.stage import CONFIG, MARKS

from mockbroker import run_cluster

pytestmark = MARKS

USERS = {"alice": "alice-secret"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
HMAC = re.compile(r"(?P<id>[A-Za-z0-9_-]{22})\s+(?P<hmac>[A-Za-z0-9+/=]{88})\s+User:alice")


def login(folder: Path, name: str, jaas: str) -> Path:
    path = folder / f"{name}.properties"
    lines = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=SCRAM-SHA-512", f"sasl.jaas.config={SCRAM} {jaas};"]
    path.write_text("\n".join(lines))
    return path


def test_kafka_tool_and_a_java_client_use_a_token(tmp_path: Path) -> None:
    config = CONFIG | {"delegation.token.secret.key": "the key of the cluster"}
    with run_cluster(topics={"orders": 1}, config=config, listeners=["SASL_PLAINTEXT"], users=USERS) as cluster:
        alice = login(tmp_path, "alice", 'username="alice" password="alice-secret"')
        lifetime, renewer = ("--max-life-time-period", "-1"), ("--renewer-principal", "User:bob")
        created = with_login(TOKENS, cluster.bootstrap_servers, alice, "--create", *lifetime, *renewer)
        assert created[0].startswith("Calling create token operation with renewers :[User:bob] , max-life-time-period")
        found = HMAC.search("\n".join(created))
        assert found is not None, created
        by_token = login(tmp_path, "token", f'username="{found["id"]}" password="{found["hmac"]}" tokenauth="true"')
        listed = with_login("org.apache.kafka.tools.TopicCommand", cluster.bootstrap_servers, by_token, "--list")
        assert "orders" in listed


@pytest.mark.long
def test_kafka_tool_describes_renews_and_expires_a_token(tmp_path: Path) -> None:
    config = CONFIG | {"delegation.token.secret.key": "the key of the cluster"}
    with run_cluster(config=config, listeners=["SASL_PLAINTEXT"], users=USERS) as cluster:
        servers, alice = cluster.bootstrap_servers, login(tmp_path, "alice", 'username="alice" password="alice-secret"')
        created = with_login(TOKENS, servers, alice, "--create", "--max-life-time-period", "-1")
        found = HMAC.search("\n".join(created))
        assert found is not None, created
        owned = ("--describe", "--owner-principal", "User:alice")
        described = with_login(TOKENS, servers, alice, *owned)
        assert described[0].startswith("Calling describe token operation for ")
        assert HMAC.search("\n".join(described)) is not None
        for verb, period in (("renew", "--renew-time-period"), ("expire", "--expiry-time-period")):
            printed = with_login(TOKENS, servers, alice, f"--{verb}", period, "-1", "--hmac", found["hmac"])
            assert f"Completed {verb} operation. New expiry date" in printed[-1]
        assert HMAC.search("\n".join(with_login(TOKENS, servers, alice, *owned))) is None
