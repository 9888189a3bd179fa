"""OAUTHBEARER tokens, and what Kafka 4.2.0 said to each."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.broker.sasl.mechanism import Challenge, Passed, Refused
from mockbroker.broker.sasl.oauthbearer import INVALID, OAuthBearer

NOW = 1_700_000_000_500  # ms
SECOND = NOW // 1000
OK = {"sub": "alice", "iat": SECOND, "exp": SECOND + 3600}
NONE = {"alg": "none"}
INVALID_TOKEN, REFUSED = Challenge(INVALID), Refused()


def segment(value: Any) -> bytes:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token(claims: Any = None, head: Any = None, signature: bytes = b"", **changes: Any) -> bytes:
    body = OK | changes if claims is None else claims
    return segment(NONE if head is None else head) + b"." + segment(body) + b"." + signature


def said(bearer: bytes = b"", *, authorization: bytes = b"", more: bytes = b"", end: bytes = b"\1\1") -> bytes:
    return b"n," + authorization + b",\1auth=Bearer " + (bearer or token()) + more + end


def without(name: str) -> bytes:
    return token({key: value for key, value in OK.items() if key != name})


RESPONSES = [
    ("right", said(), Passed("alice", until_ms=(SECOND + 3600) * 1000)),
    ("no begin", said(without("iat")), Passed("alice", until_ms=(SECOND + 3600) * 1000)),
    ("fractions", said(token(iat=SECOND + 0.25, exp=SECOND + 1.5)), Passed("alice", until_ms=SECOND * 1000 + 1500)),
    ("it is over", said(token(iat=SECOND - 9, exp=SECOND - 1)), INVALID_TOKEN),
    ("it ends now", said(token(exp=SECOND + 0.5)), INVALID_TOKEN),
    ("it has not begun", said(token(iat=SECOND + 100)), INVALID_TOKEN),
    ("no end", said(without("exp")), INVALID_TOKEN),
    ("ends before it begins", said(token(iat=SECOND, exp=SECOND - 1)), INVALID_TOKEN),
    ("no subject", said(without("sub")), INVALID_TOKEN),
    ("empty subject", said(token(sub="")), INVALID_TOKEN),
    ("blank subject", said(token(sub=" ")), INVALID_TOKEN),
    ("subject is a number", said(token(sub=5)), INVALID_TOKEN),
    ("end is a text", said(token(exp="x")), INVALID_TOKEN),
    ("end is true", said(token(exp=True)), INVALID_TOKEN),
    ("end is no number", said(token(exp=float("nan"))), INVALID_TOKEN),
    ("end is beyond all times", said(token(exp=1e300)), INVALID_TOKEN),
    ("scope is a text", said(token(scope="a b")), Passed("alice", until_ms=(SECOND + 3600) * 1000)),
    ("scope is a list", said(token(scope=["a", "b"])), Passed("alice", until_ms=(SECOND + 3600) * 1000)),
    ("scope is a number", said(token(scope=4)), INVALID_TOKEN),
    ("claims are a list", said(token([1])), INVALID_TOKEN),
    ("claims nest too deep", said(token(b"[" * 20_000)), INVALID_TOKEN),
    ("signed", said(token(head={"alg": "HS256"}, signature=b"abc")), INVALID_TOKEN),
    ("of an algorithm, not signed", said(token(head={"alg": "HS256"})), INVALID_TOKEN),
    ("of none, signed", said(token(signature=b"abc")), INVALID_TOKEN),
    ("no algorithm", said(token(head={})), INVALID_TOKEN),  # Kafka closes the connection
    ("not a token", said(b"abc"), INVALID_TOKEN),
    ("not base64", said(b"a.b.c"), INVALID_TOKEN),
    ("not JSON", said(b"a.b."), INVALID_TOKEN),
    ("padded", said(token() + b"=="), INVALID_TOKEN),
    ("bearer in small letters", said().replace(b"Bearer", b"bearer"), Passed("alice", until_ms=(SECOND + 3600) * 1000)),
    ("another scheme", said().replace(b"Bearer", b"Basic"), REFUSED),  # Kafka closes the connection
    ("extension", said(more=b"\1foo=bar"), Passed("alice", until_ms=(SECOND + 3600) * 1000)),
    ("extension with a digit", said(more=b"\1f1=bar"), REFUSED),
    ("auth twice", said(more=b"\1auth=x"), REFUSED),
    ("own authorization id", said(authorization=b"a=alice"), Passed("alice", until_ms=(SECOND + 3600) * 1000)),
    (
        "another authorization id",
        said(authorization=b"a=bob"),
        Refused(
            "Authentication failed: Client requested an authorization id (bob) that is different from the token's "
            "principal name (alice)"
        ),
    ),
    ("one separator", said(end=b"\1"), REFUSED),
    ("no separator", said(end=b""), REFUSED),
    ("y for n", said().replace(b"n,", b"y,", 1), REFUSED),
    ("no token", b"n,,\1auth=Bearer \1\1", REFUSED),
    ("empty", b"", REFUSED),
    ("garbage", b"xyz", REFUSED),
    ("not UTF-8", b"n,,\1auth=Bearer \xff\1\1", REFUSED),
    ("agrees to nothing", b"\1", REFUSED),
]


@pytest.mark.parametrize(("response", "verdict"), [row[1:] for row in RESPONSES], ids=[row[0] for row in RESPONSES])
def test_response(response, verdict):
    assert OAuthBearer().evaluate(response, NOW) == verdict


def test_a_token_in_utf_8():
    assert OAuthBearer().evaluate(said(token({**OK, "sub": "Zoë"})), NOW) == Passed(
        "Zoë", until_ms=(SECOND + 3600) * 1000
    )


OVER = said(token(exp=SECOND - 1))
AFTER = [
    (b"\1", Refused('{"status":"invalid_token"}')),
    (b"x", REFUSED),
    (OVER, INVALID_TOKEN),
    (said(), Passed("alice", until_ms=(SECOND + 3600) * 1000)),
]


@pytest.mark.parametrize(("then", "verdict"), AFTER)
def test_after_a_token_that_is_not_valid(then, verdict):
    mechanism = OAuthBearer()
    assert mechanism.evaluate(OVER, NOW) == INVALID_TOKEN
    assert mechanism.evaluate(then, NOW) == verdict


@given(st.binary(max_size=60), st.integers(0, 200))
def test_anything_gets_a_verdict(noise, at):
    whole = said()
    for data in (noise, whole[:at] + noise + whole[at:], said(noise)):
        assert isinstance(OAuthBearer().evaluate(data, NOW), Challenge | Passed | Refused)
