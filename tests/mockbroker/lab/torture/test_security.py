"""The listener of a torture case, as the cluster and the client see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mockbroker import run_cluster
from mockbroker.broker.sasl.mechanism import Authenticated
from mockbroker.broker.sasl.oauthbearer import OAuthBearer
from mockbroker.lab.torture.security import EXPIRY, PASSWORD, PROTOCOLS, USER, Protocol, Security

CA = Path("/ca.pem")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cluster_has_one_listener_of_the_protocol(protocol: Protocol) -> None:
    with run_cluster(**Security(protocol).cluster_options()) as cluster:
        assert list(cluster.listeners) == [protocol]
        assert (cluster.tls.ca is not None) == Security(protocol).has_tls


def test_the_client_gets_what_its_protocol_needs() -> None:
    tls, sasl = {"MOCKBROKER_TLS_CA": str(CA)}, {"MOCKBROKER_SASL_USERNAME": USER, "MOCKBROKER_SASL_PASSWORD": PASSWORD}
    protocol, mechanism = "MOCKBROKER_SECURITY_PROTOCOL", "MOCKBROKER_SASL_MECHANISM"
    assert Security().environment(None) == {protocol: "PLAINTEXT"}
    assert Security("SSL").environment(CA) == {protocol: "SSL", **tls}
    plain = Security("SASL_PLAINTEXT", "PLAIN").environment(None)
    assert plain == {protocol: "SASL_PLAINTEXT", mechanism: "PLAIN", **sasl}
    assert Security("SASL_SSL").environment(CA) == {protocol: "SASL_SSL", mechanism: "SCRAM-SHA-256", **tls, **sasl}


def test_the_token_of_the_client_is_valid() -> None:
    token = Security("SASL_SSL", "OAUTHBEARER").environment(CA)["MOCKBROKER_SASL_TOKEN"]
    message = b"n,,\1auth=Bearer " + token.encode() + b"\1\1"
    assert OAuthBearer().evaluate(message, 1_800_000_000_000) == Authenticated(USER, expires_at_ms=EXPIRY * 1_000)


def test_the_arguments_select_the_settings_again() -> None:
    assert Security().arguments == []
    assert Security("SSL").arguments == ["--security-protocol", "SSL"]
    wanted = ["--security-protocol", "SASL_SSL", "--sasl-mechanism", "PLAIN"]
    assert Security("SASL_SSL", "PLAIN").arguments == wanted
