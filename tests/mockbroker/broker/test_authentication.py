"""The order of requests on a SASL listener, by a clock that the test moves: what Kafka 4.2.0 was seen to do."""

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
from mockbroker.base.effects import Call, Client, Close, Dismiss, Reply, Ticket
from mockbroker.base.settings import Settings
from mockbroker.broker.authentication import Authentication, Token
from mockbroker.broker.handlers import HANDLERS
from mockbroker.broker.router import UnsupportedVersion
from mockbroker.broker.sasl.users import Users

WALL = 1_700_000_000_000  # ms, when the clock of the test is 0
AUTHENTICATE = 36
GOES_ON, CLOSED, CLOSED_LATER = "goes on", "closed", "closed later"
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4
VERSIONS = ApiVersionsRequest(client_software_name="me", client_software_version="1"), 3
UNNAMED = ApiVersionsRequest(client_software_name="!", client_software_version="1"), 3
TOO_NEW = UnsupportedVersion(), 0
METADATA = MetadataRequest(topics=[]), 9
KNOWN = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
BARE = Token(b"\0alice\0alice-secret"), 0


def shake(mechanism: str = "PLAIN", version: int = 1) -> tuple[Any, int]:
    return SaslHandshakeRequest(mechanism=mechanism), version


def plain(user: str = "alice", password: str = "alice-secret", version: int = 2) -> tuple[Any, int]:
    return SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), version


def bearer(user: str = "alice", seconds: float = 3600) -> tuple[Any, int]:
    claims = {"sub": user, "exp": WALL / 1000 + seconds}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims)]
    return SaslAuthenticateRequest(auth_bytes=b"n,,\1auth=Bearer " + b".".join([*parts, b""]) + b"\1\1"), 2


class Connection:
    """One, and what became of each request: an error code where it was answered, and a word where it was not."""

    def __init__(self, **settings: Any) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        users = Users({"alice": "alice-secret", "bob": "bob-secret"})
        self.authentication = Authentication(users, Settings.parse(given), lambda: "server")
        self.now = 0.0
        self.last = None

    def say(self, request: Any, version: int) -> Any:
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
                return GOES_ON
            case Close():
                return CLOSED
            case Dismiss(response=None):
                return CLOSED_LATER
            case Dismiss():
                return CLOSED_LATER, getattr(self.last, "error_code", None)
            case Reply():
                return self.last if isinstance(self.last, Token) else E(self.last.error_code)


OK, ILLEGAL, UNSUPPORTED = E.NONE, E.ILLEGAL_SASL_STATE, E.UNSUPPORTED_SASL_MECHANISM
FAILED = CLOSED_LATER, E.SASL_AUTHENTICATION_FAILED
OUT_OF_ORDER = CLOSED_LATER, ILLEGAL
ORDER = [  # what it is about, then what is said, and what becomes of it
    ("nothing before", [(METADATA, CLOSED)]),
    ("versions first", [(VERSIONS, GOES_ON), (shake(), OK), (plain(), OK), (METADATA, GOES_ON)]),
    ("versions too new do not count", [(TOO_NEW, GOES_ON), (TOO_NEW, GOES_ON), (VERSIONS, GOES_ON), (shake(), OK)]),
    ("versions of nobody do not count", [(UNNAMED, GOES_ON), (VERSIONS, GOES_ON), (shake(), OK)]),
    ("versions twice", [(VERSIONS, GOES_ON), (VERSIONS, CLOSED)]),
    ("versions too new after versions", [(VERSIONS, GOES_ON), (TOO_NEW, CLOSED)]),
    ("versions after the handshake", [(shake(), OK), (VERSIONS, OUT_OF_ORDER)]),
    ("versions too new after the handshake", [(shake(), OK), (TOO_NEW, OUT_OF_ORDER)]),
    ("handshake twice", [(shake(), OK), (shake(), OUT_OF_ORDER)]),
    ("another request after the handshake", [(shake(), OK), (BEAT, OUT_OF_ORDER)]),
    ("one without an error of its own", [(shake(), OK), (METADATA, OUT_OF_ORDER)]),
    *(
        (f"mechanism {name!r}", [(shake(name), (CLOSED_LATER, UNSUPPORTED))])
        for name in ("NOPE", "GSSAPI", "", "plain")
    ),
    ("mechanism, v0", [(shake("NOPE", 0), (CLOSED_LATER, UNSUPPORTED))]),
    ("token before the handshake", [(plain(), CLOSED)]),
    ("wrong password", [(shake(), OK), (plain("alice", "x"), FAILED)]),
    ("bare token", [(shake(version=0), OK), (BARE, Token(b"")), (METADATA, GOES_ON)]),
    ("wrong bare token", [(shake(version=0), OK), ((Token(b"\0alice\0x"), 0), CLOSED_LATER)]),
    ("empty bare token", [(shake(version=0), OK), ((Token(b""), 0), CLOSED_LATER)]),
    ("authenticated is authenticated", [(shake(), OK), (plain(), OK), (shake(), GOES_ON), (plain(), GOES_ON)]),
    ("versions any time then", [(shake(), OK), (plain(), OK), (VERSIONS, GOES_ON), (VERSIONS, GOES_ON)]),
]


@pytest.mark.parametrize("said", [row[1] for row in ORDER], ids=[row[0] for row in ORDER])
def test_order(said):
    connection = Connection()
    assert [connection.say(*what) for what, _ in said] == [became for _, became in said]


LATE = 1.7
AGAIN = [  # numbers are seconds that pass; sessions last 1.5 s
    ("late", [(shake(), OK), (plain(), OK), (BEAT, GOES_ON), LATE, (BEAT, CLOSED)]),
    (
        "in time",
        [(shake(), OK), (plain(), OK), 0.5, (shake(), OK), (plain(), OK), 1.2, (BEAT, GOES_ON), 0.5, (BEAT, CLOSED)],
    ),
    ("late, but at once", [(shake(), OK), (plain(), OK), LATE, (shake(), OK), (plain(), OK), (BEAT, GOES_ON)]),
    ("versions do not count as that", [(shake(), OK), (plain(), OK), LATE, (VERSIONS, CLOSED)]),
    ("tokens do not either", [(shake(), OK), (plain(), OK), LATE, (plain(), CLOSED)]),
    (
        "twice in a second",
        [(shake(), OK), (plain(), OK), (shake(), OK), (plain(), OK), (shake(), GOES_ON), (BEAT, GOES_ON)],
    ),
    ("twice, a second apart", [(shake(), OK), (plain(), OK), (shake(), OK), (plain(), OK), 1.0, (shake(), OK)]),
    ("a client that cannot", [(shake(), OK), (plain(version=0), OK), LATE, (BEAT, CLOSED)]),
    ("after bare tokens", [(shake(version=0), OK), (BARE, Token(b"")), LATE, (BEAT, CLOSED)]),
    ("by bare tokens", [(shake(), OK), (plain(), OK), (shake(version=0), OK), (BARE, Token(b"")), (BEAT, GOES_ON)]),
    ("other mechanism", [(shake(), OK), (plain(), OK), (shake("OAUTHBEARER"), OK), (bearer(), CLOSED_LATER)]),
    ("unknown mechanism", [(shake(), OK), (plain(), OK), (shake("NOPE"), CLOSED_LATER)]),
    ("other user", [(shake(), OK), (plain(), OK), (shake(), OK), (plain("bob", "bob-secret"), FAILED)]),
    ("wrong password", [(shake(), OK), (plain(), OK), (shake(), OK), (plain("alice", "x"), FAILED)]),
    ("something else between", [(shake(), OK), (plain(), OK), (shake(), OK), (BEAT, OUT_OF_ORDER)]),
    ("something else between, late", [(shake(), OK), (plain(), OK), LATE, (shake(), OK), (BEAT, OUT_OF_ORDER)]),
    ("only a token", [(shake(), OK), (plain(), OK), (plain(), GOES_ON), (BEAT, GOES_ON)]),
]


@pytest.mark.parametrize("said", [row[1] for row in AGAIN], ids=[row[0] for row in AGAIN])
def test_again(said):
    connection = Connection(connections_max_reauth_ms=1500)
    for step in said:
        if isinstance(step, float):
            connection.now += step
        else:
            assert connection.say(*step[0]) == step[1], step


LIFETIMES = [  # connections.max.reauth.ms, seconds a token holds or None for a password, session in ms
    (0, None, 0),
    (1500, None, 1500),
    (0, 60, 60_000),
    (1500, 60, 1500),
    (90_000, 60, 60_000),
]


@pytest.mark.parametrize(("most", "seconds", "lifetime"), LIFETIMES)
def test_lifetime(most, seconds, lifetime):
    connection = Connection(connections_max_reauth_ms=most)
    connection.say(*shake("PLAIN" if seconds is None else "OAUTHBEARER"))
    connection.say(*(plain() if seconds is None else bearer(seconds=seconds)))
    assert connection.last == SaslAuthenticateResponse(error_message="", session_lifetime_ms=lifetime)
    connection.now = max(lifetime / 1000, 1) + 0.001
    assert connection.say(*BEAT) == (CLOSED if lifetime else GOES_ON)


def test_what_a_handshake_tells():
    connection = Connection(sasl_enabled_mechanisms="SCRAM-SHA-256,PLAIN")
    connection.say(*shake())
    assert connection.last == SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256", "PLAIN"])
    connection = Connection()
    connection.say(*shake("NOPE"))
    assert connection.last == SaslHandshakeResponse(error_code=UNSUPPORTED, mechanisms=KNOWN)


NOBODY = SaslAuthenticateRequest(auth_bytes=b"n,,n=nobody,r=abc"), 2
TEXTS = [  # what is said, the last of which fails, and the text
    ([shake(), plain("alice", "x")], "Authentication failed: Invalid username or password"),
    (
        [shake("SCRAM-SHA-256"), NOBODY],
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
    ),
    (
        [shake(), plain(), shake(), plain("bob", "bob-secret")],
        "Cannot change principals during re-authentication from User.alice: User.bob",
    ),
    (
        [shake("OAUTHBEARER"), bearer(), shake("OAUTHBEARER"), NOBODY],
        "Authentication failed during re-authentication due to invalid credentials with SASL mechanism OAUTHBEARER",
    ),
    (
        [shake("OAUTHBEARER"), bearer(seconds=-1), (SaslAuthenticateRequest(auth_bytes=b"\1"), 2)],
        '{"status":"invalid_token"}',
    ),
]


@pytest.mark.parametrize(("said", "text"), TEXTS)
def test_text(said, text):
    connection = Connection(connections_max_reauth_ms=1500)
    became = [connection.say(*what) for what in said]
    assert became == [OK] * (len(said) - 1) + [FAILED]
    assert connection.last == SaslAuthenticateResponse(error_code=E.SASL_AUTHENTICATION_FAILED, error_message=text)


@pytest.mark.parametrize("key", HANDLERS)
def test_every_api_has_an_answer_out_of_order(key):
    """In each of its versions, one that can be written."""
    versions = HANDLERS[key].versions
    for version in range(versions.first, versions.last + 1):
        connection = Connection()
        connection.say(*shake())
        said = connection.say(APIS[key].request(), version)
        assert said[0] == CLOSED_LATER or key == AUTHENTICATE
        codec.encode(connection.last, version)


def test_answers_out_of_order():
    for request, response in ((VERSIONS, ApiVersionsResponse), (BEAT, HeartbeatResponse)):
        connection = Connection()
        connection.say(*shake())
        connection.say(*request)
        assert connection.last == response(error_code=ILLEGAL)
