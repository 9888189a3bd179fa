from __future__ import annotations

import ssl
from pathlib import Path

import click
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from trustme import CA

from kwire.client_properties import Credentials
from mockbroker.cli.client_properties import addresses, read_cluster
from mockbroker.proxy.addresses import Address

SERVERS = [Address("a", 1)]
SASL = "sasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=secret\n"


def test_addresses_are_divided_by_commas() -> None:
    assert addresses("--to", "a:1, b:2") == [Address("a", 1), Address("b", 2)]
    with pytest.raises(click.UsageError, match="--to: 'b' is not an address: use HOST:PORT"):
        addresses("--to", "a:1,b")


@pytest.mark.parametrize(
    ("protocol", "has_tls", "logs_in"),
    [("PLAINTEXT", False, False), ("SSL", True, False), ("SASL_PLAINTEXT", False, True), ("SASL_SSL", True, True)],
)
def test_the_security_protocol_decides(protocol: str, has_tls: bool, logs_in: bool, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol={protocol}\nclient.id=x\n{SASL}")
    cluster = read_cluster("--record-config", path, SERVERS)
    assert (cluster.bootstrap, cluster.tls is not None) == (SERVERS, has_tls)
    assert cluster.credentials == (Credentials("PLAIN", "alice", "secret") if logs_in else None)
    if cluster.tls is not None:
        assert (cluster.tls.verify_mode, cluster.tls.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_without_a_security_protocol_connections_are_plain(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(SASL)
    cluster = read_cluster("--record-config", path, SERVERS)
    assert (cluster.tls, cluster.credentials) == (None, None)


def test_stores_are_pem_files(tmp_path: Path) -> None:
    authority, ca, own = CA(), tmp_path / "ca.pem", tmp_path / "own.pem"
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(own)
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol=SSL\nssl.truststore.location={ca}\nssl.keystore.location={own}\n")
    cluster = read_cluster("--record-config", path, SERVERS)
    assert cluster.tls is not None
    assert len(cluster.tls.get_ca_certs()) == 1
    locked = load_pem_private_key(own.read_bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")
    )
    own.write_bytes(locked + own.read_bytes().partition(b"-----END EC PRIVATE KEY-----\n")[2])
    with pytest.raises(click.UsageError, match="must contain a valid certificate and its private key"):
        read_cluster("--record-config", path, SERVERS)  # the terminal does not ask for the password
    with path.open("a") as file:
        file.write("ssl.key.password=password\n")
    assert read_cluster("--record-config", path, SERVERS).tls is not None
    with path.open("a") as file:
        file.write("ssl.key.password=wrong\n")
    with pytest.raises(click.UsageError, match=r"its private key with the password in ssl\.key\.password"):
        read_cluster("--record-config", path, SERVERS)
    path.write_text(f"security.protocol=SSL\nssl.truststore.location={path}\n")
    with pytest.raises(click.UsageError, match="must contain valid CA certificates"):
        read_cluster("--record-config", path, SERVERS)
