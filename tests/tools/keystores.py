"""Keystores and truststores for tests and recordings, from the descriptions of files in fixtures/keystores.json."""

from __future__ import annotations

import datetime
import hashlib
import os
import struct
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from trustme import LeafCert

from mockbroker.net.tls import pkcs8

PASSWORD, KEY_PASSWORD = b"changeit", b"of-the-key"
BEGIN, DAYS = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), 20_000


def write_keystores(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    """Write files, each with a new key; return the certificates in DER by file name.

    Args:
        folder: where to write.
        files: by file name its ``subject`` (RFC 4514), its alternative ``names``, and its ``parts``: ``key`` and
            ``certificate`` in PEM, or ``der`` for a certificate in DER; or ``text`` for any other content.
    """
    return {name: _write(folder / name, **given) for name, given in files.items()}


def keystore_pem(issued: LeafCert) -> bytes:
    """Return a PEM keystore with a certificate of trustme, whose keys have a format that Kafka does not read."""
    return pkcs8(issued.private_key_pem.bytes()) + b"".join(each.bytes() for each in issued.cert_chain_pems)


def part_of(text: str, part: str) -> str:
    """Return the key or the certificate of a PEM file. ``part``: ``key`` or ``certificate``."""
    begin = text.index("-----BEGIN CERTIFICATE")
    return text[:begin] if part == "key" else text[begin:]


def _write(path: Path, subject: str = "CN=broker", names: str = "", parts: str = "", text: str | None = None) -> bytes:
    if text is not None:
        path.write_text(text)
        return b""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name.from_rfc4514_string(subject)
    end = BEGIN + datetime.timedelta(days=DAYS)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), BEGIN, end)
    if names:
        others = x509.SubjectAlternativeName([_general_name(each) for each in names.split()])
        builder = builder.add_extension(others, critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    pem, pkcs8 = form.Encoding.PEM, form.PrivateFormat.PKCS8
    locked = form.BestAvailableEncryption(PASSWORD)
    content: dict[str, Callable[[], bytes]] = {
        "key": lambda: key.private_bytes(pem, pkcs8, form.NoEncryption()),
        "locked-key": lambda: key.private_bytes(pem, pkcs8, locked),
        "sec1-key": lambda: key.private_bytes(pem, form.PrivateFormat.TraditionalOpenSSL, form.NoEncryption()),
        "certificate": lambda: certificate.public_bytes(pem),
        "der": lambda: certificate.public_bytes(form.Encoding.DER),
        "pkcs12": lambda: pkcs12.serialize_key_and_certificates(b"broker", key, certificate, None, locked),
        "pkcs12-trust": lambda: pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(certificate, b"ca")], locked
        ),
        "jks": lambda: jks_with_key(key, certificate, PASSWORD, PASSWORD),
        "jks-two-passwords": lambda: jks_with_key(key, certificate, PASSWORD, KEY_PASSWORD),
        "jks-trust": lambda: jks_with_certificate(certificate, PASSWORD),
    }
    path.write_bytes(b"".join(content[part]() for part in (parts or "key certificate").split()))
    return content["der"]()


def _general_name(text: str) -> x509.GeneralName:
    if "@" in text:
        return x509.RFC822Name(text)
    return x509.IPAddress(ip_address(text)) if text[0].isdigit() or ":" in text else x509.DNSName(text)


def jks_with_key(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, password: bytes, own: bytes) -> bytes:
    """Return a keystore in Java's format JKS with a key, encrypted with the password ``own``, and its certificate."""
    plain = key.private_bytes(form.Encoding.DER, form.PrivateFormat.PKCS8, form.NoEncryption())
    secret, salt = own.decode().encode("utf-16-be"), os.urandom(20)
    stream, digest = b"", salt
    while len(stream) < len(plain):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    hidden = bytes(left ^ right for left, right in zip(plain, stream, strict=False))
    octets = salt + hidden + hashlib.sha1(secret + plain).digest()
    algorithm = bytes.fromhex("300e060a2b060104012a021101010500")  # 1.3.6.1.4.1.42.2.17.1.1, Sun's JKS key protector
    locked = _der(0x30, algorithm + _der(0x04, octets))
    entry = _jks_entry(1, b"broker") + struct.pack(">I", len(locked)) + locked + struct.pack(">I", 1)
    return _jks(entry + _jks_certificate(certificate), password)


def jks_with_certificate(certificate: x509.Certificate, password: bytes) -> bytes:
    """Return a truststore in Java's format JKS."""
    return _jks(_jks_entry(2, b"ca") + _jks_certificate(certificate), password)


def _jks(entry: bytes, password: bytes) -> bytes:
    content = struct.pack(">III", 0xFEEDFEED, 2, 1) + entry
    secret = password.decode().encode("utf-16-be")
    return content + hashlib.sha1(secret + b"Mighty Aphrodite" + content).digest()


def _jks_entry(tag: int, alias: bytes) -> bytes:
    return struct.pack(">IH", tag, len(alias)) + alias + bytes(8)  # the date


def _jks_certificate(certificate: x509.Certificate) -> bytes:
    content = certificate.public_bytes(form.Encoding.DER)
    return b"\0\x05X.509" + struct.pack(">I", len(content)) + content


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82]) + size.to_bytes(2, "big")
    return bytes([tag]) + length + content
