"""PEM keystores and truststores for tests and for recordings: what is in each file of fixtures/keystores.json."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec

BEGIN, DAYS = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), 20_000


def write_keystores(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    """Write files, each with a new key; return the certificates in DER by file name.

    Args:
        folder: where to write.
        files: by file name its ``subject`` (RFC 4514), its alternative ``names``, and its ``parts``: ``key`` and
            ``certificate`` in PEM, or ``der`` for a certificate in DER; or ``text`` for any other content.
    """
    return {name: _write(folder / name, **given) for name, given in files.items()}


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
    content = {
        "key": key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()),
        "certificate": certificate.public_bytes(form.Encoding.PEM),
        "der": certificate.public_bytes(form.Encoding.DER),
    }
    path.write_bytes(b"".join(content[part] for part in (parts or "key certificate").split()))
    return content["der"]


def _general_name(text: str) -> x509.GeneralName:
    if "@" in text:
        return x509.RFC822Name(text)
    return x509.IPAddress(ip_address(text)) if text[0].isdigit() or ":" in text else x509.DNSName(text)
