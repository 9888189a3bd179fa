"""OAUTHBEARER tokens, and what Kafka 4.2.0 said to each."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.broker.sasl.mechanism import Authenticated, Challenge, Failed
from mockbroker.broker.sasl.oauthbearer import INVALID_TOKEN, OAuthBearer

NOW = 1_700_000_000_500  # ms
SECOND = NOW // 1000
OK = {"sub": "alice", "iat": SECOND, "exp": SECOND + 3600}
NONE = {"alg": "none"}
INVALID, REFUSED = Challenge(INVALID_TOKEN), Failed()


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
    ("right", said(), Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000)),
    ("no begin", said(without("iat")), Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000)),
    (
        "fractions",
        said(token(iat=SECOND + 0.25, exp=SECOND + 1.5)),
        Authenticated("alice", expires_at_ms=SECOND * 1000 + 1500),
    ),
    ("it is over", said(token(iat=SECOND - 9, exp=SECOND - 1)), INVALID),
    ("it ends now", said(token(exp=SECOND + 0.5)), INVALID),
    ("it has not begun", said(token(iat=SECOND + 100)), INVALID),
    ("no end", said(without("exp")), INVALID),
    ("ends before it begins", said(token(iat=SECOND, exp=SECOND - 1)), INVALID),
    ("no subject", said(without("sub")), INVALID),
    ("empty subject", said(token(sub="")), INVALID),
    ("blank subject", said(token(sub=" ")), INVALID),
    ("subject is a number", said(token(sub=5)), INVALID),
    ("end is a text", said(token(exp="x")), INVALID),
    ("end is true", said(token(exp=True)), INVALID),
    ("end is no number", said(token(exp=float("nan"))), INVALID),
    ("end is beyond all times", said(token(exp=1e300)), INVALID),
    ("scope is a text", said(token(scope="a b")), Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000)),
    ("scope is a list", said(token(scope=["a", "b"])), Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000)),
    ("scope is a number", said(token(scope=4)), INVALID),
    ("claims are a list", said(token([1])), INVALID),
    ("claims nest too deep", said(token(b"[" * 20_000)), INVALID),
    ("signed", said(token(head={"alg": "HS256"}, signature=b"abc")), INVALID),
    ("of an algorithm, not signed", said(token(head={"alg": "HS256"})), INVALID),
    ("of none, signed", said(token(signature=b"abc")), INVALID),
    ("no algorithm", said(token(head={})), INVALID),  # Kafka closes the connection
    ("not a token", said(b"abc"), INVALID),
    ("not base64", said(b"a.b.c"), INVALID),
    ("not JSON", said(b"a.b."), INVALID),
    ("padded", said(token() + b"=="), INVALID),
    (
        "bearer in small letters",
        said().replace(b"Bearer", b"bearer"),
        Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000),
    ),
    ("another scheme", said().replace(b"Bearer", b"Basic"), REFUSED),  # Kafka closes the connection
    ("extension", said(more=b"\1foo=bar"), Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000)),
    ("extension with a digit", said(more=b"\1f1=bar"), REFUSED),
    ("auth twice", said(more=b"\1auth=x"), REFUSED),
    (
        "own authorization id",
        said(authorization=b"a=alice"),
        Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000),
    ),
    (
        "another authorization id",
        said(authorization=b"a=bob"),
        Failed(
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
    assert OAuthBearer().evaluate(said(token({**OK, "sub": "Zoë"})), NOW) == Authenticated(
        "Zoë", expires_at_ms=(SECOND + 3600) * 1000
    )


OVER = said(token(exp=SECOND - 1))
AFTER = [
    (b"\1", Failed('{"status":"invalid_token"}')),
    (b"x", REFUSED),
    (OVER, INVALID),
    (said(), Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000)),
]


@pytest.mark.parametrize(("then", "verdict"), AFTER)
def test_after_a_token_that_is_not_valid(then, verdict):
    mechanism = OAuthBearer()
    assert mechanism.evaluate(OVER, NOW) == INVALID
    assert mechanism.evaluate(then, NOW) == verdict


@given(st.binary(max_size=60), st.integers(0, 200))
def test_anything_gets_a_verdict(noise, at):
    whole = said()
    for data in (noise, whole[:at] + noise + whole[at:], said(noise)):
        assert isinstance(OAuthBearer().evaluate(data, NOW), Challenge | Authenticated | Failed)
