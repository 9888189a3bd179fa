"""The fields of ClientHello and ServerHello messages that decide on the keys. Source: RFC 8446, section 4.1."""

from __future__ import annotations

import struct
from typing import NamedTuple

from kwire.capture.tls.ciphers import TLS_1_2

CLIENT_HELLO, SERVER_HELLO = 1, 2
RANDOM = 32  # bytes
SUPPORTED_VERSIONS = 43  # extension
RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")  # random: HelloRetryRequest


class HelloError(ValueError):
    """The error for handshake messages that do not begin with a valid hello."""

    def __init__(self) -> None:
        super().__init__("the handshake does not begin with a valid ClientHello and ServerHello")


class Choice(NamedTuple):
    """The protocol version and the cipher suite that a server has chosen.

    Attributes:
        version: protocol version, such as 0x0304 for TLS 1.3.
        suite: number of the cipher suite.
        server_random: random value of the server.
        is_retry: True for a HelloRetryRequest, after which the client sends another ClientHello.
    """

    version: int
    suite: int
    server_random: bytes
    is_retry: bool


def client_random(data: bytes) -> bytes | None:
    """Return the random value in a ClientHello; None if the message is incomplete.

    ``data``: handshake messages, of which the first is examined. Raises: HelloError if the first message is not a
    ClientHello.
    """
    body = _message(data, CLIENT_HELLO)
    return None if body is None else body[2 : 2 + RANDOM]


def server_choice(data: bytes) -> Choice | None:
    """Return the choice in a ServerHello; None if the message is incomplete.

    ``data``: handshake messages, of which the first is examined. Raises: HelloError if the first message is not a valid
    ServerHello.
    """
    body = _message(data, SERVER_HELLO)
    if body is None:
        return None
    try:
        (version,) = struct.unpack_from(">H", body)
        chosen = body[2 : 2 + RANDOM]
        at = 2 + RANDOM + 1 + body[2 + RANDOM]
        (suite,) = struct.unpack_from(">H", body, at)
        at += 3
        if version == TLS_1_2 and at < len(body):
            version = _supported_version(body, at) or version
    except (struct.error, IndexError) as error:
        raise HelloError from error
    return Choice(version, suite, chosen, chosen == RETRY)


def _supported_version(body: bytes, at: int) -> int | None:
    end = min(at + 2 + int.from_bytes(body[at : at + 2], "big"), len(body))
    at += 2
    while at + 4 <= end:
        kind, size = struct.unpack_from(">HH", body, at)
        if kind == SUPPORTED_VERSIONS and size == 2:
            return int.from_bytes(body[at + 4 : at + 6], "big")
        at += 4 + size
    return None


def _message(data: bytes, kind: int) -> bytes | None:
    """Return the body of the first handshake message; None if it is incomplete.

    Raises: HelloError if the type of the message is not ``kind``, or the message is too short.
    """
    if not data:
        return None
    size = int.from_bytes(data[1:4], "big")
    if data[0] != kind or (len(data) >= 4 and size < 2 + RANDOM):
        raise HelloError
    return data[4 : 4 + size] if len(data) >= 4 + size else None
