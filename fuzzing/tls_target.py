"""The fuzzing target for the records of a TLS connection whose secrets are known.

An input begins with the number of a handshake: 0 for none, because the input contains its own. Pieces of one direction
follow, each with two bytes before it: the direction in the highest bit, SEALED in the next one, and the length. A
length of 0 means bytes that were not captured. A sealed piece is a content type and a plaintext, which the target
encrypts with the next keys of its direction, so that most inputs reach the code after the decryption.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from kwire.capture.tls.ciphers import SUITES, Suite, expand_label
from kwire.capture.tls.keylog import KeyLog
from kwire.capture.tls.session import TlsSession

FROM_CLIENT, SEALED, LENGTH = 0x8000, 0x4000, 0x3FFF
MOST_PIECES = 64  # the rest of an input is ignored
LOST = 100  # bytes
KINDS, DATA = range(20, 24), 23  # content types of records
SECRET = bytes(range(48))
CAPTURES = Path(__file__).parent.parent / "fixtures" / "tls"
CHOICES = [(version, suite) for version, suite in ((3, 0xC02F), (3, 0xC030), (3, 0xCCA8), (4, 0x1301), (4, 0x1302))]


@dataclass
class Sealer:
    """The encryption of one direction.

    Attributes:
        suite: the cipher suite.
        key: the key.
        iv: the fixed part of the nonce.
        number: sequence number of the next record.
        is_whole: True while every byte of the direction since the handshake was in a sealed record.
    """

    suite: Suite
    key: bytes
    iv: bytes
    number: int = 0
    is_whole: bool = True
    _cipher: AESGCM | ChaCha20Poly1305 = field(init=False)

    def __post_init__(self) -> None:
        self._cipher = self.suite.cipher(self.key)

    def seal(self, minor: int, kind: int, plain: bytes) -> bytes:
        """Return the next record.

        Args:
            minor: 3 for TLS 1.2, 4 for TLS 1.3.
            kind: content type.
            plain: plaintext.
        """
        number, self.number = self.number, self.number + 1
        nonce = (int.from_bytes(self.iv.rjust(12, b"\0"), "big") ^ number).to_bytes(12, "big")
        if minor == 4:
            header = struct.pack(">BHH", DATA, 0x0303, len(plain) + 17)
            return header + self._cipher.encrypt(nonce, plain + bytes([kind]), header)
        explicit = b""
        if len(self.iv) == 4:
            explicit, nonce = number.to_bytes(8, "big"), self.iv + number.to_bytes(8, "big")
        sealed = self._cipher.encrypt(nonce, plain, struct.pack(">QBHH", number, kind, 0x0303, len(plain)))
        return struct.pack(">BHH", kind, 0x0303, len(explicit) + len(sealed)) + explicit + sealed


@dataclass(frozen=True)
class Handshake:
    """The hellos of a connection, and its keys.

    Attributes:
        minor: 3 for TLS 1.2, 4 for TLS 1.3.
        suite: number of the cipher suite.
        client_random: random value of the client.
    """

    minor: int
    suite: int
    client_random: bytes

    def hello(self, from_client: bool) -> bytes:
        """Return the bytes of a direction up to the first sealed record."""
        if from_client:
            body = b"\3\3" + self.client_random + b"\0\0\2" + struct.pack(">H", self.suite) + b"\1\0"
        else:
            body = b"\3\3" + bytes(32) + b"\0" + struct.pack(">H", self.suite) + b"\0"
            body += struct.pack(">HHHH", 6, 43, 2, 0x0304) if self.minor == 4 else b""
        message = bytes([1 if from_client else 2]) + len(body).to_bytes(3, "big") + body
        return b"\x16\3\3" + struct.pack(">H", len(message)) + message + b"\x14\3\3\0\1\1"

    def sealer(self, from_client: bool) -> Sealer:
        """Return the encryption of a direction."""
        suite = SUITES[self.suite]
        if self.minor == 4:
            secret = SECRET[: hashlib.new(suite.digest).digest_size]
            key = expand_label(suite.digest, secret, b"key", suite.key)
            return Sealer(suite, key, expand_label(suite.digest, secret, b"iv", 12))
        fixed = 12 if suite.cipher is ChaCha20Poly1305 else 4
        seed, block = b"key expansion" + bytes(32) + self.client_random, b""
        last = seed
        while len(block) < 2 * (suite.key + fixed):  # RFC 5246, section 5
            last = hmac.digest(SECRET, last, suite.digest)
            block += hmac.digest(SECRET, last + seed, suite.digest)
        first_key, first_iv = (0, 2 * suite.key) if from_client else (suite.key, 2 * suite.key + fixed)
        return Sealer(suite, block[first_key : first_key + suite.key], block[first_iv : first_iv + fixed])


HANDSHAKES = [Handshake(minor, suite, bytes([number]) * 32) for number, (minor, suite) in enumerate(CHOICES)]


def tls_session(data: bytes) -> None:
    """Check the records of a TLS connection, in the form that is described above."""
    session = TlsSession(_key_log())
    sealers: dict[bool, Sealer] = {}
    fed = plain = 0
    number = data[0] if data else 0
    handshake = HANDSHAKES[(number - 1) % len(HANDSHAKES)]
    if number:
        for from_client in (True, False):
            hello = handshake.hello(from_client)
            fed += len(hello)
            assert not session.feed(from_client, hello), "plaintext in a handshake"
            sealers[from_client] = handshake.sealer(from_client)
        assert session.refused is None, session.refused
    for from_client, is_sealed, piece in _pieces(data[1:]):
        if session.refused is not None:
            break
        sealer, expected = sealers.get(from_client), None
        if sealer is not None and is_sealed and piece:
            kind, content = piece[0], piece[1:]
            sealer.is_whole &= handshake.minor == 4 or kind in KINDS
            piece = sealer.seal(handshake.minor, kind, content)
            if sealer.is_whole and kind == DATA and content:
                expected = [(from_client, content)]
        elif sealer is not None:
            sealer.is_whole = False
        if not piece:
            session.lost(from_client, LOST)
            continue
        out = session.feed(from_client, piece)
        fed += len(piece)
        plain += sum(len(part) for _, part in out)
        assert plain + session.held <= fed, "more plaintext than bytes"
        assert expected is None or out == expected, "a sealed record is not decrypted"


def _pieces(data: bytes) -> Iterator[tuple[bool, bool, bytes]]:
    """Yield the direction of each piece (True: from the client), whether it is sealed, and its bytes."""
    at = 0
    for _ in range(MOST_PIECES):
        if at >= len(data):
            return
        head = int.from_bytes(data[at : at + 2], "big")
        end = at + 2 + (head & LENGTH)
        yield bool(head & FROM_CLIENT), bool(head & SEALED), data[at + 2 : end]
        at = end


@cache
def _key_log() -> KeyLog:
    """Return the secrets of the handshakes, and of the captured connections of the corpus."""
    lines = [(CAPTURES / name).read_bytes() for name in ("kafka_python_1_2.keys", "kafka_python_1_3.keys")]
    for handshake in HANDSHAKES:
        secret = SECRET
        labels = ["CLIENT_RANDOM"]
        if handshake.minor == 4:
            secret = SECRET[: hashlib.new(SUITES[handshake.suite].digest).digest_size]
            labels = ["CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"]
        lines += [f"{label} {handshake.client_random.hex()} {secret.hex()}\n".encode() for label in labels]
    keylog = KeyLog()
    keylog.add(b"".join(lines))
    return keylog
