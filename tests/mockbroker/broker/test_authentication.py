"""The order of requests on a SASL listener, in virtual time. The expected results are those of Kafka 4.2.0."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kwire import APIS, codec
from kwire import ErrorCode as E
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.metadata import MetadataRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.schema import schema_of
from mockbroker.base.effects import Call, Client, Close, Dismiss, Reply, Ticket, Token
from mockbroker.base.settings import Settings
from mockbroker.broker.authentication import Authentication
from mockbroker.broker.handlers import HANDLERS
from mockbroker.broker.router import UnsupportedVersion
from mockbroker.security.users import Users

WALL = 1_700_000_000_000  # ms since 1970 at time 0 of the test
AUTHENTICATE = 36
PASSED, CLOSED, DISMISSED = "passed", "closed", "dismissed"
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4
VERSIONS = ApiVersionsRequest(client_software_name="me", client_software_version="1"), 3
UNNAMED = ApiVersionsRequest(client_software_name="!", client_software_version="1"), 3
TOO_NEW = UnsupportedVersion(), 0
METADATA = MetadataRequest(topics=[]), 9
KNOWN = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
RAW_TOKEN = Token(b"\0alice\0alice-secret"), 0


def handshake(mechanism: str = "PLAIN", version: int = 1) -> tuple[Any, int]:
    return SaslHandshakeRequest(mechanism=mechanism), version


def plain(user: str = "alice", password: str = "alice-secret", version: int = 2) -> tuple[Any, int]:
    return SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), version


def bearer(user: str = "alice", seconds: float = 3600) -> tuple[Any, int]:
    claims = {"sub": user, "exp": WALL / 1000 + seconds}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims)]
    return SaslAuthenticateRequest(auth_bytes=b"n,,\1auth=Bearer " + b".".join([*parts, b""]) + b"\1\1"), 2


class Connection:
    """A connection to a SASL listener. ``send`` returns the error code of the response, or the outcome without one."""

    def __init__(self, **settings: Any) -> None:
        config = {name.replace("_", "."): value for name, value in settings.items()}
        users = Users({"alice": "alice-secret", "bob": "bob-secret"})
        self.authentication = Authentication(users, Settings.parse(config), lambda: "server")
        self.now = 0.0
        self.last = None

    def send(self, request: Any, version: int) -> Any:
        key = AUTHENTICATE if isinstance(request, Token) else 18
        if not isinstance(request, Token | UnsupportedVersion):
            key = schema_of(type(request)).api.key
        ticket = Ticket(1, 1, key, version)
        assert self.authentication.raw_tokens == isinstance(request, Token) or not isinstance(request, Token)
        outcome = self.authentication.check(
            Call(ticket, Client(0, "me", "/"), request), self.now, WALL + round(self.now * 1000)
        )
        self.last = getattr(outcome, "response", None)
        match outcome:
            case None:
                return PASSED
            case Close():
                return CLOSED
            case Dismiss(response=None):
                return DISMISSED
            case Dismiss():
                return DISMISSED, getattr(self.last, "error_code", None)
            case Reply():
                return self.last if isinstance(self.last, Token) else E(self.last.error_code)


OK, ILLEGAL, UNSUPPORTED = E.NONE, E.ILLEGAL_SASL_STATE, E.UNSUPPORTED_SASL_MECHANISM
FAILED = DISMISSED, E.SASL_AUTHENTICATION_FAILED
OUT_OF_ORDER = DISMISSED, ILLEGAL
ORDER = [  # id, then requests with their outcomes
    ("Metadata before the handshake", [(METADATA, CLOSED)]),
    ("versions first", [(VERSIONS, PASSED), (handshake(), OK), (plain(), OK), (METADATA, PASSED)]),
    ("versions too new do not count", [(TOO_NEW, PASSED), (TOO_NEW, PASSED), (VERSIONS, PASSED), (handshake(), OK)]),
    ("invalid versions do not count", [(UNNAMED, PASSED), (VERSIONS, PASSED), (handshake(), OK)]),
    ("versions twice", [(VERSIONS, PASSED), (VERSIONS, CLOSED)]),
    ("versions too new after versions", [(VERSIONS, PASSED), (TOO_NEW, CLOSED)]),
    ("versions after the handshake", [(handshake(), OK), (VERSIONS, OUT_OF_ORDER)]),
    ("versions too new after the handshake", [(handshake(), OK), (TOO_NEW, OUT_OF_ORDER)]),
    ("handshake twice", [(handshake(), OK), (handshake(), OUT_OF_ORDER)]),
    ("another request after the handshake", [(handshake(), OK), (BEAT, OUT_OF_ORDER)]),
    ("API without error code after the handshake", [(handshake(), OK), (METADATA, OUT_OF_ORDER)]),
    *(
        (f"mechanism {name!r}", [(handshake(name), (DISMISSED, UNSUPPORTED))])
        for name in ("NOPE", "GSSAPI", "", "plain")
    ),
    ("mechanism, v0", [(handshake("NOPE", 0), (DISMISSED, UNSUPPORTED))]),
    ("token before the handshake", [(plain(), CLOSED)]),
    ("wrong password", [(handshake(), OK), (plain("alice", "x"), FAILED)]),
    ("raw token", [(handshake(version=0), OK), (RAW_TOKEN, Token(b"")), (METADATA, PASSED)]),
    ("wrong raw token", [(handshake(version=0), OK), ((Token(b"\0alice\0x"), 0), DISMISSED)]),
    ("empty raw token", [(handshake(version=0), OK), ((Token(b""), 0), DISMISSED)]),
    (
        "SASL requests after authentication",
        [(handshake(), OK), (plain(), OK), (handshake(), PASSED), (plain(), PASSED)],
    ),
    ("versions after authentication", [(handshake(), OK), (plain(), OK), (VERSIONS, PASSED), (VERSIONS, PASSED)]),
]


@pytest.mark.parametrize("requests", [row[1] for row in ORDER], ids=[row[0] for row in ORDER])
def test_order_of_requests(requests):
    connection = Connection()
    assert [connection.send(*request) for request, _ in requests] == [outcome for _, outcome in requests]


LATE = 1.7
REAUTHENTICATION = [  # a number is a wait in seconds; sessions last 1.5 s
    ("late", [(handshake(), OK), (plain(), OK), (BEAT, PASSED), LATE, (BEAT, CLOSED)]),
    (
        "in time",
        [
            (handshake(), OK),
            (plain(), OK),
            0.5,
            (handshake(), OK),
            (plain(), OK),
            1.2,
            (BEAT, PASSED),
            0.5,
            (BEAT, CLOSED),
        ],
    ),
    ("late handshake", [(handshake(), OK), (plain(), OK), LATE, (handshake(), OK), (plain(), OK), (BEAT, PASSED)]),
    ("late versions", [(handshake(), OK), (plain(), OK), LATE, (VERSIONS, CLOSED)]),
    ("late token", [(handshake(), OK), (plain(), OK), LATE, (plain(), CLOSED)]),
    (
        "twice in a second",
        [(handshake(), OK), (plain(), OK), (handshake(), OK), (plain(), OK), (handshake(), PASSED), (BEAT, PASSED)],
    ),
    (
        "twice, a second apart",
        [(handshake(), OK), (plain(), OK), (handshake(), OK), (plain(), OK), 1.0, (handshake(), OK)],
    ),
    ("SaslAuthenticate v0", [(handshake(), OK), (plain(version=0), OK), LATE, (BEAT, CLOSED)]),
    ("late after raw tokens", [(handshake(version=0), OK), (RAW_TOKEN, Token(b"")), LATE, (BEAT, CLOSED)]),
    (
        "with raw tokens",
        [(handshake(), OK), (plain(), OK), (handshake(version=0), OK), (RAW_TOKEN, Token(b"")), (BEAT, PASSED)],
    ),
    ("other mechanism", [(handshake(), OK), (plain(), OK), (handshake("OAUTHBEARER"), OK), (bearer(), DISMISSED)]),
    ("unknown mechanism", [(handshake(), OK), (plain(), OK), (handshake("NOPE"), DISMISSED)]),
    ("other user", [(handshake(), OK), (plain(), OK), (handshake(), OK), (plain("bob", "bob-secret"), FAILED)]),
    ("wrong password", [(handshake(), OK), (plain(), OK), (handshake(), OK), (plain("alice", "x"), FAILED)]),
    ("other request between", [(handshake(), OK), (plain(), OK), (handshake(), OK), (BEAT, OUT_OF_ORDER)]),
    ("late, other request between", [(handshake(), OK), (plain(), OK), LATE, (handshake(), OK), (BEAT, OUT_OF_ORDER)]),
    ("token without handshake", [(handshake(), OK), (plain(), OK), (plain(), PASSED), (BEAT, PASSED)]),
]


@pytest.mark.parametrize("requests", [row[1] for row in REAUTHENTICATION], ids=[row[0] for row in REAUTHENTICATION])
def test_reauthentication(requests):
    connection = Connection(connections_max_reauth_ms=1500)
    for step in requests:
        if isinstance(step, float):
            connection.now += step
        else:
            assert connection.send(*step[0]) == step[1], step


LIFETIMES = [  # connections.max.reauth.ms, seconds until the token expires or None for a password, session lifetime in ms
    (0, None, 0),
    (1500, None, 1500),
    (0, 60, 60_000),
    (1500, 60, 1500),
    (90_000, 60, 60_000),
]


@pytest.mark.parametrize(("max_reauth_ms", "seconds", "lifetime"), LIFETIMES)
def test_session_lifetime(max_reauth_ms, seconds, lifetime):
    connection = Connection(connections_max_reauth_ms=max_reauth_ms)
    connection.send(*handshake("PLAIN" if seconds is None else "OAUTHBEARER"))
    connection.send(*(plain() if seconds is None else bearer(seconds=seconds)))
    assert connection.last == SaslAuthenticateResponse(error_message="", session_lifetime_ms=lifetime)
    connection.now = max(lifetime / 1000, 1) + 0.001
    assert connection.send(*BEAT) == (CLOSED if lifetime else PASSED)


def test_handshake_returns_the_enabled_mechanisms():
    connection = Connection(sasl_enabled_mechanisms="SCRAM-SHA-256,PLAIN")
    connection.send(*handshake())
    assert connection.last == SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256", "PLAIN"])
    connection = Connection()
    connection.send(*handshake("NOPE"))
    assert connection.last == SaslHandshakeResponse(error_code=UNSUPPORTED, mechanisms=KNOWN)


UNKNOWN_USER = SaslAuthenticateRequest(auth_bytes=b"n,,n=unknown,r=abc"), 2
TEXTS = [  # requests, the last of which fails, and its error message
    ([handshake(), plain("alice", "x")], "Authentication failed: Invalid username or password"),
    (
        [handshake("SCRAM-SHA-256"), UNKNOWN_USER],
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
    ),
    (
        [handshake(), plain(), handshake(), plain("bob", "bob-secret")],
        "Cannot change principals during re-authentication from User.alice: User.bob",
    ),
    (
        [handshake("OAUTHBEARER"), bearer(), handshake("OAUTHBEARER"), UNKNOWN_USER],
        "Authentication failed during re-authentication due to invalid credentials with SASL mechanism OAUTHBEARER",
    ),
    (
        [handshake("OAUTHBEARER"), bearer(seconds=-1), (SaslAuthenticateRequest(auth_bytes=b"\1"), 2)],
        '{"status":"invalid_token"}',
    ),
]


@pytest.mark.parametrize(("requests", "text"), TEXTS)
def test_error_message(requests, text):
    connection = Connection(connections_max_reauth_ms=1500)
    outcomes = [connection.send(*request) for request in requests]
    assert outcomes == [OK] * (len(requests) - 1) + [FAILED]
    assert connection.last == SaslAuthenticateResponse(error_code=E.SASL_AUTHENTICATION_FAILED, error_message=text)


@pytest.mark.parametrize("key", HANDLERS)
def test_every_api_has_a_response_during_authentication(key):
    """The response can be encoded in every version of the API."""
    versions = HANDLERS[key].versions
    for version in range(versions.first, versions.last + 1):
        connection = Connection()
        connection.send(*handshake())
        outcome = connection.send(APIS[key].request(), version)
        assert outcome[0] == DISMISSED or key == AUTHENTICATE
        codec.encode(connection.last, version)


def test_illegal_state_where_the_response_has_an_error_code():
    for request, response in ((VERSIONS, ApiVersionsResponse), (BEAT, HeartbeatResponse)):
        connection = Connection()
        connection.send(*handshake())
        connection.send(*request)
        assert connection.last == response(error_code=ILLEGAL)
