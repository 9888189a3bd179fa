"""OAUTHBEARER tokens, and the response of Kafka 4.2.0 to each."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.broker.sasl.mechanism import Authenticated, Challenge, Failed
from mockbroker.broker.sasl.oauthbearer import INVALID_TOKEN, OAuthBearer
from mockbroker.security.listener_sasl import TokenRules

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


def client_response(
    bearer: bytes = b"", *, authorization: bytes = b"", more: bytes = b"", end: bytes = b"\1\1"
) -> bytes:
    return b"n," + authorization + b",\1auth=Bearer " + (bearer or token()) + more + end


def without(name: str) -> bytes:
    return token({key: value for key, value in OK.items() if key != name})


RESPONSES = [
    ("valid token", client_response(), Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000)),
    ("no iat", client_response(without("iat")), Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000)),
    (
        "fractions",
        client_response(token(iat=SECOND + 0.25, exp=SECOND + 1.5)),
        Authenticated("alice", expires_at_ms=SECOND * 1000 + 1500),
    ),
    ("expired", client_response(token(iat=SECOND - 9, exp=SECOND - 1)), INVALID),
    ("expires now", client_response(token(exp=SECOND + 0.5)), INVALID),
    (
        "iat is now",
        client_response(token(iat=NOW / 1000)),
        Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000),
    ),
    ("iat in the future", client_response(token(iat=SECOND + 100)), INVALID),
    ("no exp", client_response(without("exp")), INVALID),
    ("exp before iat", client_response(token(iat=SECOND, exp=SECOND - 1)), INVALID),
    ("no subject", client_response(without("sub")), INVALID),
    ("empty subject", client_response(token(sub="")), INVALID),
    ("blank subject", client_response(token(sub=" ")), INVALID),
    ("subject with a lone surrogate", client_response(token(sub="a\ud800")), INVALID),
    ("subject with a line feed", client_response(token(sub="a\nb")), INVALID),
    ("subject is a number", client_response(token(sub=5)), INVALID),
    ("exp is a text", client_response(token(exp="x")), INVALID),
    ("exp is a boolean", client_response(token(exp=True)), INVALID),
    ("iat is a text", client_response(token(iat="x")), INVALID),
    ("iat is a boolean", client_response(token(iat=True)), INVALID),
    ("iat is too small", client_response(token(iat=-1e300)), INVALID),
    ("scope is a list with a number", client_response(token(scope=["a", 5])), INVALID),
    ("scope is a number", client_response(token(scope=5)), INVALID),
    ("exp is NaN", client_response(token(exp=float("nan"))), INVALID),
    ("exp is too large", client_response(token(exp=1e300)), INVALID),
    ("exp is 10^15 s", client_response(token(exp=10**15)), INVALID),
    ("exp below 10^15 s", client_response(token(exp=10**15 - 1)), Authenticated("alice", expires_at_ms=10**18 - 1000)),
    ("iat and exp are now", client_response(token(iat=NOW / 1000, exp=NOW / 1000)), INVALID),
    (
        "scope is a text",
        client_response(token(scope="a b")),
        Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000),
    ),
    (
        "scope is a list",
        client_response(token(scope=["a", "b"])),
        Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000),
    ),
    ("scope is a number", client_response(token(scope=4)), INVALID),
    ("claims are a list", client_response(token([1])), INVALID),
    ("claims are nested too deeply", client_response(token(b"[" * 20_000)), INVALID),
    ("signed", client_response(token(head={"alg": "HS256"}, signature=b"abc")), INVALID),
    ("algorithm HS256 without signature", client_response(token(head={"alg": "HS256"})), INVALID),
    ("algorithm none with signature", client_response(token(signature=b"abc")), INVALID),
    ("no algorithm", client_response(token(head={})), INVALID),  # Kafka closes the connection
    ("not a token", client_response(b"abc"), INVALID),
    ("not base64", client_response(b"a.b.c"), INVALID),
    ("not JSON", client_response(b"a.b."), INVALID),
    ("padded", client_response(token() + b"=="), INVALID),
    (
        "bearer in small letters",
        client_response().replace(b"Bearer", b"bearer"),
        Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000),
    ),
    ("another scheme", client_response().replace(b"Bearer", b"Basic"), REFUSED),  # Kafka closes the connection
    ("extension", client_response(more=b"\1foo=bar"), Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000)),
    ("extension with a digit", client_response(more=b"\1f1=bar"), REFUSED),
    ("duplicate auth", client_response(more=b"\1auth=x"), REFUSED),
    (
        "own authorization id",
        client_response(authorization=b"a=alice"),
        Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000),
    ),
    (
        "another authorization id",
        client_response(authorization=b"a=bob"),
        Failed(
            "Authentication failed: Client requested an authorization id (bob) that is different from the token's "
            "principal name (alice)"
        ),
    ),
    ("one separator", client_response(end=b"\1"), REFUSED),
    ("no separator", client_response(end=b""), REFUSED),
    ("channel binding flag y", client_response().replace(b"n,", b"y,", 1), REFUSED),
    ("no token", b"n,,\1auth=Bearer \1\1", REFUSED),
    ("empty", b"", REFUSED),
    ("garbage", b"xyz", REFUSED),
    ("not UTF-8", b"n,,\1auth=Bearer \xff\1\1", REFUSED),
    ("agrees to nothing", b"\1", REFUSED),
]


@pytest.mark.parametrize(("response", "verdict"), [row[1:] for row in RESPONSES], ids=[row[0] for row in RESPONSES])
def test_response(response, verdict):
    assert OAuthBearer().evaluate(response, NOW) == verdict


def test_utf_8_token():
    assert OAuthBearer().evaluate(client_response(token({**OK, "sub": "Zoë"})), NOW) == Authenticated(
        "Zoë", expires_at_ms=(SECOND + 3600) * 1000
    )


RULES = TokenRules("user", "roles", ("read", "write"), clock_skew_ms=3_000)
ROLES = ["write", "read", "more"]
VALID = Authenticated("bob", expires_at_ms=(SECOND + 3600) * 1000)
INSUFFICIENT = Challenge(b'{"status":"insufficient_scope", "scope":"[read, write]"}')


@pytest.mark.parametrize(
    ("claims", "verdict"),
    [
        pytest.param({}, VALID, id="other claims"),
        pytest.param({"user": None}, INVALID, id="only sub"),
        pytest.param({"roles": ["read"]}, INSUFFICIENT, id="one of two"),
        pytest.param({"roles": "read write"}, INSUFFICIENT, id="a text is one element"),
        pytest.param({"roles": [], "scope": ["read", "write"]}, INSUFFICIENT, id="another claim"),
        pytest.param({"scope": 5}, VALID, id="claim without a meaning"),
        pytest.param({"iat": SECOND + 3}, VALID, id="issued within the skew"),
        pytest.param({"iat": SECOND + 4}, INVALID, id="issued after the skew"),
        pytest.param({"exp": SECOND - 2}, replace(VALID, expires_at_ms=(SECOND - 2) * 1000), id="expired in the skew"),
        pytest.param({"exp": SECOND - 3}, INVALID, id="expired before the skew"),
        pytest.param({"iat": SECOND + 1, "exp": SECOND + 1}, INVALID, id="issued when it expires"),
    ],
)
def test_rules_of_the_listener(claims: dict[str, Any], verdict: object) -> None:
    claims = {"user": "bob", "roles": ROLES, **OK, "iat": SECOND - 60, **claims}
    assert OAuthBearer(RULES).evaluate(client_response(token(claims)), NOW) == verdict


def test_error_is_repeated_after_the_acknowledgement() -> None:
    mechanism = OAuthBearer(RULES)
    assert mechanism.evaluate(client_response(token({**OK, "user": "bob"})), NOW) == INSUFFICIENT
    assert mechanism.evaluate(b"\1", NOW) == Failed(INSUFFICIENT.token.decode())


EXPIRED = client_response(token(exp=SECOND - 1))
AFTER = [
    (b"\1", Failed('{"status":"invalid_token"}')),
    (b"x", REFUSED),
    (EXPIRED, INVALID),
    (client_response(), Authenticated("alice", expires_at_ms=(SECOND + 3600) * 1000)),
]


@pytest.mark.parametrize(("then", "verdict"), AFTER)
def test_second_token_after_an_invalid_one(then, verdict):
    mechanism = OAuthBearer()
    assert mechanism.evaluate(EXPIRED, NOW) == INVALID
    assert mechanism.evaluate(then, NOW) == verdict


@given(st.binary(max_size=60), st.integers(0, 200))
def test_random_token_has_a_result(noise, at):
    whole = client_response()
    for data in (noise, whole[:at] + noise + whole[at:], client_response(noise)):
        assert isinstance(OAuthBearer().evaluate(data, NOW), Challenge | Authenticated | Failed)
