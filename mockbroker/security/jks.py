"""Reader of keystores in the format JKS, which Java's KeyStore of the type ``JKS`` writes. The functions are pure.

Source: sun.security.provider.JavaKeyStore and KeyProtector of OpenJDK describe the format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import field
from hmac import compare_digest
from struct import unpack_from

from kwire.lazy_dataclass import dataclass

MAGIC = b"\xfe\xed\xfe\xed"
PRIVATE_KEY, CERTIFICATE = 1, 2  # tags of entries
PEPPER = b"Mighty Aphrodite"  # between the password and the content that the digest covers
DIGEST = 20  # bytes of SHA-1
OCTETS = 0x04  # DER's tag of an octet string


@dataclass(frozen=True, slots=True)
class JksEntry:
    """An entry of a keystore.

    Attributes:
        alias: name of the entry.
        protected_key: the encrypted private key; empty for an entry with only a certificate.
        certificates: the certificates in DER, that of the key first.
    """

    alias: str
    protected_key: bytes = field(repr=False)
    certificates: tuple[bytes, ...]


def read_jks(content: bytes, password: str | None) -> list[JksEntry]:
    """Return the entries of a keystore. ``password``: password of the keystore; None to skip the check of the digest.

    Raises: ValueError if the password is wrong or the content malformed.
    """
    body = content[:-DIGEST]
    if not content.startswith(MAGIC) or len(body) < 12:
        raise ValueError("not a keystore in the format JKS")
    if password is not None:
        digest = hashlib.sha1(_secret(password) + PEPPER + body, usedforsecurity=False).digest()
        if not compare_digest(digest, content[-DIGEST:]):
            raise ValueError("the keystore was changed, or the password is wrong")
    try:
        return list(_entries(_Reader(body, 8)))
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("the keystore is malformed") from error


def private_key(entry: JksEntry, password: str) -> bytes:
    """Return the private key of an entry, in PKCS #8 and DER. ``password``: password of the key.

    Raises: ValueError if the password is wrong or the key malformed.
    """
    protected = _protected(entry.protected_key)
    salt, hidden, digest = protected[:DIGEST], protected[DIGEST:-DIGEST], protected[-DIGEST:]
    secret = _secret(password)
    stream, last = b"", salt
    while len(stream) < len(hidden):
        last = hashlib.sha1(secret + last, usedforsecurity=False).digest()
        stream += last
    key = bytes(left ^ right for left, right in zip(hidden, stream, strict=False))
    if not compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), digest):
        raise ValueError("Cannot recover key")
    return key


class _Reader:
    """A reader that returns the numbers, texts and byte strings of a keystore one after the other.

    Args:
        content: the keystore.
        at: offset of the first byte to read.
    """

    def __init__(self, content: bytes, at: int) -> None:
        self._content, self._at = content, at

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes.

        Raises:
            IndexError: Fewer bytes remain.
        """
        piece = self._content[self._at : self._at + size]
        if len(piece) < size:
            raise IndexError
        self._at += size
        return piece

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def text(self) -> str:
        return self.take(int.from_bytes(self.take(2), "big")).decode()

    def blob(self) -> bytes:
        return self.take(self.number())


def _entries(reader: _Reader) -> Iterator[JksEntry]:
    for _ in range(reader.number()):
        tag, alias, _date = reader.number(), reader.text(), reader.take(8)
        if tag not in (PRIVATE_KEY, CERTIFICATE):
            raise IndexError
        key = reader.blob() if tag == PRIVATE_KEY else b""
        count = reader.number() if tag == PRIVATE_KEY else 1
        yield JksEntry(alias, key, tuple(_certificate(reader) for _ in range(count)))


def _certificate(reader: _Reader) -> bytes:
    reader.text()  # its type, X.509
    return reader.blob()


def _protected(encoded: bytes) -> bytes:
    """Return the encrypted key in an EncryptedPrivateKeyInfo, which is a DER sequence of an algorithm and an octet
    string.

    Raises:
        ValueError: The DER encoding is malformed.
    """
    _, at, _ = _der(encoded, 0)
    _, start, size = _der(encoded, at)
    tag, at, size = _der(encoded, start + size)
    octets = encoded[at : at + size]
    if tag != OCTETS or len(octets) < size or size < 2 * DIGEST:
        raise ValueError("Cannot recover key")
    return octets


def _der(encoded: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag of the DER value at offset ``at``, the offset of its content, and the size of its content in
    bytes.

    Raises:
        ValueError: The bytes end before the tag and the size.
    """
    if len(encoded) < at + 2:
        raise ValueError("Cannot recover key")
    tag, size = unpack_from("BB", encoded, at)
    if size < 0x80:
        return tag, at + 2, size
    more = size & 0x7F
    return tag, at + 2 + more, int.from_bytes(encoded[at + 2 : at + 2 + more], "big")


def _secret(password: str) -> bytes:
    return password.encode("utf-16-be")
