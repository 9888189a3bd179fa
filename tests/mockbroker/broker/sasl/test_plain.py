"""PLAIN tokens, and the response of Kafka 4.2.0 to each."""

from __future__ import annotations

import pytest

from mockbroker.broker.sasl.mechanism import Authenticated, Failed
from mockbroker.broker.sasl.plain import OTHER_AUTHORIZATION, Plain
from mockbroker.security.users import Users

WRONG = "Authentication failed: Invalid username or password"
NO_USER, NO_PASSWORD = (f"Authentication failed: {what} not specified" for what in ("username", "password"))
TOKENS = [
    (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
    (b"\0alice\0alice-secret", None),
    (b"alice\0alice\0alice-secret", None),
    (b"bob\0alice\0alice-secret", OTHER_AUTHORIZATION),
    (b"bob\0alice\0wrong", WRONG),
    (b"\0\0alice-secret", NO_USER),
    (b"\0alice\0", NO_PASSWORD),
    (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    (b"\0alice\0alice-secret\0x", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    (b"\0nobody\0alice-secret", WRONG),
    (b"\0\xff\0x", WRONG),
    (b"\0alice\0wrong", WRONG),
    (b"\0alice\0alice-secret ", WRONG),
    (b"\0alice\0\xff", WRONG),
]


@pytest.mark.parametrize(("token", "text"), TOKENS)
def test_token(token, text):
    plain = Plain(Users({"alice": "alice-secret"}))
    assert plain.evaluate(token, 0) == (Authenticated("alice") if text is None else Failed(text))
