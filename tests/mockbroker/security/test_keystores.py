"""Keystores and truststores in PEM, JKS and PKCS12: their contents, and rejected files."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as form
from tools.keystores import write_keystores

from mockbroker.security.keystores import NOT_PKCS8, Contents, KeystoreError, read_keystore, read_truststore

KEYSTORE, TRUSTSTORE = "ssl.keystore.location", "ssl.truststore.location"
WITH_PASSWORD = {"ssl.keystore.password": "changeit", "ssl.truststore.password": "changeit"}
OF_KEY = {"ssl.key.password": "changeit"}


def written(folder: Path, parts: str) -> tuple[str, bytes]:
    """Write a store; return its path and its certificate in DER."""
    certificates = write_keystores(folder, {"store": {"names": "localhost", "parts": parts}})
    return str(folder / "store"), certificates["store"]


def first_certificate(contents: Contents | None) -> bytes:
    from ssl import PEM_cert_to_DER_cert

    assert contents is not None
    return PEM_cert_to_DER_cert(contents.certificates[0].decode())


@pytest.mark.parametrize(
    ("parts", "settings", "alias"),
    [
        pytest.param("key certificate", {}, "kafka", id="PEM"),
        pytest.param("certificate key", {}, "kafka", id="PEM, the certificate first"),
        pytest.param("locked-key certificate", OF_KEY, "kafka", id="PEM, encrypted"),
        pytest.param("jks", WITH_PASSWORD, "broker", id="JKS"),
        pytest.param("jks-two-passwords", WITH_PASSWORD | {"ssl.key.password": "of-the-key"}, "broker", id="JKS, two"),
        pytest.param("pkcs12", WITH_PASSWORD, "broker", id="PKCS12"),
    ],
)
def test_keystore_has_key_and_certificate(parts: str, settings: dict[str, str], alias: str, tmp_path: Path) -> None:
    path, certificate = written(tmp_path, parts)
    contents = read_keystore(({KEYSTORE: path} | settings).get)
    assert first_certificate(contents) == certificate
    assert contents is not None
    assert contents.alias == alias
    assert contents.key.startswith(b"-----BEGIN PRIVATE KEY-----")
    form.load_pem_private_key(contents.key, None)
    assert contents.key.decode() not in repr(contents)


@pytest.mark.parametrize("parts", ["jks-trust", "pkcs12-trust", "certificate", "jks", "pkcs12"])
def test_truststore_has_certificates(parts: str, tmp_path: Path) -> None:
    path, certificate = written(tmp_path, parts)
    settings = {TRUSTSTORE: path} if parts == "certificate" else {TRUSTSTORE: path} | WITH_PASSWORD
    contents = read_truststore(settings.get)
    assert first_certificate(contents) == certificate
    assert contents is not None
    assert not contents.key


@pytest.mark.parametrize("parts", ["jks-trust", "pkcs12-trust"])
def test_keystore_without_a_key_is_refused(parts: str, tmp_path: Path) -> None:
    path, _ = written(tmp_path, parts)
    with pytest.raises(KeystoreError, match="no private key"):
        read_keystore(({KEYSTORE: path} | WITH_PASSWORD).get)


def test_private_key_must_be_in_pkcs8(tmp_path: Path) -> None:
    path, _ = written(tmp_path, "sec1-key certificate")
    with pytest.raises(KeystoreError, match="Failed to load PEM SSL keystore") as refused:
        read_keystore({KEYSTORE: path}.get)
    assert refused.value.hint == NOT_PKCS8


def test_settings_without_stores_have_none() -> None:
    assert (read_keystore({}.get), read_truststore({}.get)) == (None, None)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ssl.keystore.password": "x"}, "SSL key store is not specified, but key store password is specified."),
        (
            {"ssl.keystore.key": "x", "ssl.keystore.type": "JKS"},
            "SSL private key can be specified only for PEM, but key store type is JKS.",
        ),
    ],
)
def test_inconsistent_settings_of_a_keystore(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(KeystoreError) as refused:
        read_keystore(settings.get)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ssl.truststore.password": "x"}, "SSL trust store is not specified, but trust store password is specified."),
        (
            {"ssl.truststore.certificates": "x", "ssl.truststore.type": "JKS"},
            "SSL trust store certs can be specified only for PEM, but trust store type is JKS.",
        ),
        (
            {"ssl.truststore.certificates": "x", "ssl.truststore.password": "x"},
            "SSL trust store password cannot be specified for PEM format.",
        ),
    ],
)
def test_inconsistent_settings_of_a_truststore(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(KeystoreError) as refused:
        read_truststore(settings.get)
    assert refused.value.reason == reason
