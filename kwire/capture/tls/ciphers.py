"""The keys and the decryption of TLS records, for the cipher suites with authenticated encryption.

Source: RFC 5246 and RFC 5288 (TLS 1.2 with AES-GCM), RFC 7905 (ChaCha20-Poly1305), RFC 8446 (TLS 1.3).
"""

from __future__ import annotations

import hmac
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from kwire.lazy_dataclass import dataclass

TLS_1_2, TLS_1_3 = 0x0303, 0x0304
TAG = 16  # bytes of the authentication tag
_RECORD = struct.Struct(">QBHH")  # additional data of TLS 1.2: sequence number, content type, version, length
_EXPLICIT = 8  # bytes of the nonce that a record of AES-GCM in TLS 1.2 contains


@dataclass(frozen=True, slots=True)
class Suite:
    """A cipher suite.

    Attributes:
        cipher: AESGCM or ChaCha20Poly1305.
        key: size of a key in bytes.
        digest: hash function of the key derivation: ``sha256`` or ``sha384``.
    """

    cipher: type[AESGCM | ChaCha20Poly1305]
    key: int
    digest: str


_AES_128 = Suite(AESGCM, 16, "sha256")
_AES_256 = Suite(AESGCM, 32, "sha384")
_CHACHA = Suite(ChaCha20Poly1305, 32, "sha256")
SUITES = {
    **dict.fromkeys((0x1301, 0x009C, 0x009E, 0xC02B, 0xC02F), _AES_128),
    **dict.fromkeys((0x1302, 0x009D, 0x009F, 0xC02C, 0xC030), _AES_256),
    **dict.fromkeys((0x1303, 0xCCA8, 0xCCA9, 0xCCAA), _CHACHA),
}


class Keys12:
    """The keys of one direction of a TLS 1.2 connection.

    Args:
        suite: cipher suite of the connection.
        key: key of the cipher.
        iv: fixed part of the nonce: 4 bytes for AES-GCM, 12 bytes for ChaCha20-Poly1305.
    """

    def __init__(self, suite: Suite, key: bytes, iv: bytes) -> None:
        self._cipher = suite.cipher(key)
        self._iv = iv

    def decrypt(self, header: bytes, body: bytes, number: int) -> tuple[int, bytes] | None:
        """Return the content type and the plaintext of a record; None if the keys or the number are wrong.

        Args:
            header: the 5 bytes before the body.
            body: the encrypted record.
            number: sequence number of the record.
        """
        kind, version = header[0], int.from_bytes(header[1:3], "big")
        if len(self._iv) == 12:
            nonce, sealed = _xor(self._iv, number), body
        else:
            nonce, sealed = self._iv + body[:_EXPLICIT], body[_EXPLICIT:]
        if len(sealed) < TAG:
            return None
        try:
            plain = self._cipher.decrypt(nonce, sealed, _RECORD.pack(number, kind, version, len(sealed) - TAG))
        except InvalidTag:
            return None
        return kind, plain


class Keys13:
    """The keys of one direction of a TLS 1.3 connection that are derived from one traffic secret.

    Args:
        suite: cipher suite of the connection.
        secret: the traffic secret.
    """

    def __init__(self, suite: Suite, secret: bytes) -> None:
        self._suite = suite
        self._secret = secret
        self._cipher = suite.cipher(expand_label(suite.digest, secret, b"key", suite.key))
        self._iv = expand_label(suite.digest, secret, b"iv", 12)

    def decrypt(self, header: bytes, body: bytes, number: int) -> tuple[int, bytes] | None:
        """Return the content type and the plaintext of a record; None if the keys or the number are wrong.

        Args:
            header: the 5 bytes before the body.
            body: the encrypted record.
            number: sequence number of the record.
        """
        if len(body) < TAG:
            return None
        try:
            plain = self._cipher.decrypt(_xor(self._iv, number), body, header).rstrip(b"\0")
        except InvalidTag:
            return None
        return (plain[-1], plain[:-1]) if plain else (0, b"")

    def updated(self) -> Keys13:
        """Return the keys that replace these keys after a KeyUpdate message."""
        size = len(self._secret)
        return Keys13(self._suite, expand_label(self._suite.digest, self._secret, b"traffic upd", size))


def keys_of_tls_1_2(suite: Suite, master: bytes, randoms: bytes) -> tuple[Keys12, Keys12]:
    """Return the keys of the client and of the server.

    Args:
        suite: the cipher suite.
        master: the master secret.
        randoms: random value of the ServerHello, followed by the random value of the ClientHello.
    """
    fixed = 12 if suite.cipher is ChaCha20Poly1305 else 4
    block = _prf(suite.digest, master, b"key expansion" + randoms, 2 * (suite.key + fixed))
    keys, ivs = block[: 2 * suite.key], block[2 * suite.key :]
    return (
        Keys12(suite, keys[: suite.key], ivs[:fixed]),
        Keys12(suite, keys[suite.key :], ivs[fixed:]),
    )


def expand_label(digest: str, secret: bytes, label: bytes, size: int) -> bytes:
    """Return HKDF-Expand-Label of TLS 1.3 with an empty context.

    Args:
        digest: hash function.
        secret: the secret.
        label: the label, without ``tls13``.
        size: number of bytes to return.
    """
    label = b"tls13 " + label
    info = struct.pack(">HB", size, len(label)) + label + b"\0"
    out = last = b""
    for number in range(1, -(-size // len(secret)) + 1):
        last = hmac.digest(secret, last + info + bytes([number]), digest)
        out += last
    return out[:size]


def _prf(digest: str, secret: bytes, seed: bytes, size: int) -> bytes:
    out, last = b"", seed
    while len(out) < size:
        last = hmac.digest(secret, last, digest)
        out += hmac.digest(secret, last + seed, digest)
    return out[:size]


def _xor(iv: bytes, number: int) -> bytes:
    return (int.from_bytes(iv, "big") ^ number).to_bytes(len(iv), "big")
