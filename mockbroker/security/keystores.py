"""Reader of keystores and truststores in PEM, JKS and PKCS12, with their passwords, as Kafka reads them.

The only I/O of this module is reading the files. Source: Kafka's DefaultSslEngineFactory, as recorded in
fixtures/keystores.json.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.lazy_dataclass import dataclass
from mockbroker.security import jks

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

PEM, JKS, PKCS12 = "PEM", "JKS", "PKCS12"
PEM_ALIAS = "kafka"  # of the only entry of a keystore in PEM
KEY = re.compile(rb"-----BEGIN (?P<kind>[A-Z ]*)PRIVATE KEY-----.*?-----END (?P=kind)PRIVATE KEY-----", re.DOTALL)
CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
LOCATION, TYPE, PASSWORD = "location", "type", "password"
INVALID = "org.apache.kafka.common.errors.InvalidConfigurationException"
KAFKA = "org.apache.kafka.common.KafkaException"
NEEDS_NONE = "SSL key store password cannot be specified with PEM format, only key password may be specified"
NO_KEY = "The keystore has no private key with a certificate."  # Kafka accepts it, and every handshake fails
NOT_PKCS8 = ": the private key is not in PKCS #8, which Kafka needs: convert it with openssl pkcs8 -topk8"
BAD_KEY = "Such issues can arise if a bad key is used during decryption."
UNRECOVERABLE = "java.security.UnrecoverableKeyException: "
Text = Callable[[str], str | None]  # returns the value of a setting, None if it is not set


class KeystoreError(Exception):
    """The error for a keystore or truststore that cannot be used. Its text is ``java``, a colon and ``reason``, as in
    Kafka.

    Args:
        reason: Kafka's message, without the name of the exception.
        java: name of the Java exception.
        hint: what the user can do; "" if Kafka's message contains this.
    """

    def __init__(self, reason: str, java: str = INVALID, hint: str = "") -> None:
        self.reason = reason
        self.hint = hint
        super().__init__(f"{java}: {reason}")


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a keystore or truststore.

    Attributes:
        certificates: certificates in PEM; in a keystore, the certificate of the key is first.
        key: private key in PEM, unencrypted; empty for a truststore.
        alias: name of the keystore entry with the key.
    """

    certificates: tuple[bytes, ...]
    key: bytes = field(default=b"", repr=False)
    alias: str = PEM_ALIAS

    @property
    def pem(self) -> bytes:
        """The key and the certificates, in this order, as the content of one PEM file."""
        return b"\n".join(filter(None, (self.key, *self.certificates))) + b"\n"


def read_keystore(text: Text) -> Contents | None:
    """Read the keystore that the settings ``ssl.keystore.*`` specify; return None if they specify no keystore.

    Args:
        text: function that returns the value of a setting ``ssl.*`` as text, or None if the setting is not set.

    Raises:
        KeystoreError: The settings contradict each other, or the keystore cannot be used.
    """
    path, password, kind = _place(text, "keystore")
    key, chain, key_password = (
        text(f"ssl.{name}") for name in ("keystore.key", "keystore.certificate.chain", "key.password")
    )
    if key is not None:
        if kind not in (None, PEM):
            raise KeystoreError(f"SSL private key can be specified only for PEM, but key store type is {kind}.")
        if chain is None:
            raise KeystoreError("SSL private key is specified, but certificate chain is not specified.")
        if path is not None:
            raise KeystoreError("Both SSL key store location and separate private key are specified.")
        if password is not None:
            raise KeystoreError(f"{NEEDS_NONE}.")
        return _pem_keystore(f"{key}\n{chain}".encode(), key_password, "Invalid PEM keystore configs")
    if chain is not None:
        raise KeystoreError("SSL certificate chain is specified, but private key is not specified")
    if path is None:
        if password is not None:
            raise KeystoreError("SSL key store is not specified, but key store password is specified.")
        return None
    content, kind = _read(path, kind)
    if kind == PEM:
        if password is not None:
            raise KeystoreError(NEEDS_NONE)
        return _pem_keystore(content, key_password, f"Failed to load PEM SSL keystore {path}")
    if password is None:
        raise KeystoreError("SSL key store is specified, but key store password is not specified.")
    if kind.upper() not in (JKS, PKCS12):
        raise _failed(path, kind)
    return _java_keystore(content, password, key_password, _failed(path, kind))


def read_truststore(text: Text) -> Contents | None:
    """Read the truststore that the settings ``ssl.truststore.*`` specify; return None if they specify no truststore.

    Args:
        text: function that returns the value of a setting ``ssl.*`` as text, or None if the setting is not set.

    Raises:
        KeystoreError: The settings contradict each other, or the truststore cannot be used.
    """
    path, password, kind = _place(text, "truststore")
    if (certificates := text("ssl.truststore.certificates")) is not None:
        if kind not in (None, PEM):
            raise KeystoreError(f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}.")
        if path is not None:
            raise KeystoreError("Both SSL trust store location and separate trust certificates are specified.")
        if password is not None:
            raise KeystoreError("SSL trust store password cannot be specified for PEM format.")
        return _pem_truststore(certificates.encode(), "No matching CERTIFICATE entries in PEM file")
    if path is None:
        if password is not None:
            raise KeystoreError("SSL trust store is not specified, but trust store password is specified.")
        return None
    content, kind = _read(path, kind)
    if kind == PEM:
        if password is not None:
            raise KeystoreError("SSL trust store password cannot be specified for PEM format.")
        return _pem_truststore(content, f"Failed to load PEM SSL keystore {path}")
    if kind.upper() not in (JKS, PKCS12):
        raise _failed(path, kind)
    return _java_truststore(content, password, _failed(path, kind))


def _place(text: Text, store: str) -> tuple[str | None, str | None, str | None]:
    """Return the settings for location, password and type of a keystore or truststore; None for a setting that is not
    set.

    Args:
        text: function that returns the value of a setting ``ssl.*`` as text, or None if the setting is not set.
        store: ``keystore`` or ``truststore``.
    """
    path, password, kind = (text(f"ssl.{store}.{name}") for name in (LOCATION, PASSWORD, TYPE))
    return path, password, kind


def _read(path: str, kind: str | None) -> tuple[bytes, str]:
    """Return the content of a keystore file, and the type of the keystore. If the file cannot be read, the content is
    b"".

    Args:
        path: path of the file.
        kind: the type in the settings, which is returned. None to choose the type from the content: PEM for PEM or
            empty content, JKS for all other content.
    """
    file = Path(path)
    try:
        content = file.read_bytes() if file.is_file() else b""  # a named pipe would block the broker
    except OSError:
        content = b""
    guessed = PEM if b"-----BEGIN " in content or not content else JKS
    return content, kind or guessed


def pkcs8_pem(key: PrivateKeyTypes) -> bytes:
    """Return a private key as PEM in PKCS #8 format, without a password: the only format that Java clients read."""
    from cryptography.hazmat.primitives import serialization as form

    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())


def _pem_keystore(content: bytes, password: str | None, failure: str) -> Contents:
    from cryptography.hazmat.primitives import serialization as form

    found, certificates = KEY.search(content), tuple(CERTIFICATE.findall(content))
    locked = found is not None and found["kind"] == b"ENCRYPTED "
    if found is None or not certificates or locked is not (password is not None):
        raise KeystoreError(failure)
    if found["kind"] and not locked:
        raise KeystoreError(failure, hint=NOT_PKCS8)
    try:
        key = form.load_pem_private_key(found[0], password.encode() if password is not None else None)
        _check_certificates(certificates)
    except (ValueError, TypeError) as error:
        raise KeystoreError(failure) from error
    return Contents(certificates, pkcs8_pem(key))


def _pem_truststore(content: bytes, failure: str) -> Contents:
    certificates = tuple(CERTIFICATE.findall(content))
    try:
        _check_certificates(certificates)
    except ValueError as error:
        raise KeystoreError(failure) from error
    if not certificates:
        raise KeystoreError(failure)
    return Contents(certificates)


def _check_certificates(certificates: tuple[bytes, ...]) -> None:
    """Check that each certificate is well-formed PEM.

    Raises:
        ValueError: A certificate is malformed.
    """
    from cryptography.x509 import load_pem_x509_certificate

    for each in certificates:
        load_pem_x509_certificate(each)


def _java_keystore(content: bytes, password: str, key_password: str | None, failure: KeystoreError) -> Contents:
    """Return the content of a keystore in JKS or PKCS12.

    As in Java, the format is detected from the content. The configured type is not used.

    Args:
        content: bytes of the file.
        password: password of the keystore.
        key_password: password of the key; None if it is the password of the keystore.
        failure: error to raise if the content is neither JKS nor PKCS12, or if the password is wrong.
    """
    from cryptography.exceptions import UnsupportedAlgorithm

    of_key = password if key_password is None else key_password
    read = _jks_keystore if content.startswith(jks.MAGIC) else _pkcs12_keystore
    try:
        return read(content, password, of_key)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise failure from error


def _jks_keystore(content: bytes, password: str, of_key: str) -> Contents:
    from cryptography.hazmat.primitives import serialization as form

    entry = next((each for each in jks.read_jks(content, password) if each.protected_key), None)
    if entry is None:
        raise KeystoreError(NO_KEY)
    try:
        key = form.load_der_private_key(jks.private_key(entry, of_key), None)
    except ValueError as error:
        raise KeystoreError(f"{UNRECOVERABLE}Cannot recover key", KAFKA) from error
    return Contents(tuple(map(_pem_of, entry.certificates)), pkcs8_pem(key), entry.alias)


def _pkcs12_keystore(content: bytes, password: str, of_key: str) -> Contents:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.serialization import pkcs12

    opened = pkcs12.load_pkcs12(content, password.encode())
    if opened.key is None or opened.cert is None:
        raise KeystoreError(NO_KEY)
    if of_key != password:
        reason = f"Get Key failed: Given final block not properly padded. {BAD_KEY}"
        raise KeystoreError(f"{UNRECOVERABLE}{reason}", KAFKA)
    chain = (opened.cert, *opened.additional_certs)
    certificates = tuple(each.certificate.public_bytes(form.Encoding.PEM) for each in chain)
    return Contents(certificates, pkcs8_pem(opened.key), (opened.cert.friendly_name or b"1").decode())


def _java_truststore(content: bytes, password: str | None, failure: KeystoreError) -> Contents:
    """Return the content of a truststore in JKS or PKCS12.

    Args:
        content: bytes of the file.
        password: password of the truststore. None to read only unencrypted certificates, as Java does.
        failure: error to raise if the content is neither JKS nor PKCS12, or if the password is wrong.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        if content.startswith(jks.MAGIC):
            entries = jks.read_jks(content, password)
            return Contents(tuple(_pem_of(each.certificates[0]) for each in entries if each.certificates))
        if password is None and content:
            return Contents(())
        opened = pkcs12.load_pkcs12(content, (password or "").encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise failure from error
    trusted = [*filter(None, [opened.cert]), *opened.additional_certs]
    return Contents(tuple(each.certificate.public_bytes(form.Encoding.PEM) for each in trusted))


def _pem_of(certificate: bytes) -> bytes:
    """Return a certificate in DER as PEM."""
    from ssl import DER_cert_to_PEM_cert

    return DER_cert_to_PEM_cert(certificate).encode()


def _failed(path: str, kind: str) -> KeystoreError:
    return KeystoreError(f"Failed to load SSL keystore {path} of type {kind}", KAFKA)
