"""Conversations about SASL, which record.py records; each function is one conversation.

A conversation is replayed unchanged, so no step may depend on values that a broker generates: SCRAM can only fail here;
tokens of OAUTHBEARER expire in the year 2096.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from prober import Prober
from script import NEW, script

from kwire.frames import pack
from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
PLAIN, SCRAM, OAUTH = "PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"
NAMELESS = ApiVersionsRequest(client_software_name="!", client_software_version="1")
METADATA = MetadataRequest(topics=[])
FAR = 4_000_000_000  # seconds since 1970
LONG, SHORT = {"connections.max.reauth.ms": 3_600_000}, {"connections.max.reauth.ms": 1_500}
OF_LISTENER = {
    **LONG,
    "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
    "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorPrincipalClaimName="user" '
        'unsecuredValidatorScopeClaimName="roles" unsecuredValidatorRequiredScope="read write" '
        'unsecuredValidatorAllowableClockSkewMs="3000";'
    ),
}
Upsertion = AlterUserScramCredentialsRequest.Upsertion
Deletion = AlterUserScramCredentialsRequest.Deletion


async def shake(p: Prober, conn: str, mechanism: str = PLAIN, version: int = 1) -> None:
    await p.ask(conn, SaslHandshakeRequest(mechanism=mechanism), version)


async def give(p: Prober, conn: str, token: bytes, version: int = 2) -> None:
    await p.ask(conn, SaslAuthenticateRequest(auth_bytes=token), version)


async def password(p: Prober, conn: str, user: str = "alice", version: int = 2) -> None:
    await give(p, conn, f"\0{user}\0{USERS[user]}".encode(), version)


async def beat(p: Prober, conn: str) -> None:
    await p.ask(conn, HeartbeatRequest(group_id=p.group, generation_id=1, member_id="m"), 4)


def bearer(claims: object = None, head: object = None, *, signature: bytes = b"", before: bytes = b"n,,") -> bytes:
    parts = [{"alg": "none"} if head is None else head, {"sub": "alice", "exp": FAR} if claims is None else claims]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return before + b"\1auth=Bearer " + b".".join([*encoded, signature]) + b"\1\1"


@script(users=USERS)
async def sasl_order(p: Prober) -> None:
    """The requests that a client may send before and during authentication, and those after which the broker closes the
    connection."""
    await p.ask("versions", ApiVersionsRequest(client_software_name="!", client_software_version="1"), 3)
    await shake(p, "versions")
    await p.closed(await p.send("versions-wrong", METADATA, 9))
    await p.ask("handshake-twice", SaslHandshakeRequest(mechanism=PLAIN), 1)
    await shake(p, "handshake-twice")
    await p.closed("handshake-twice")
    for conn, mechanism, version in [
        ("nope", "NOPE", 0),
        ("gssapi", "GSSAPI", 1),
        ("small", "plain", 1),
        ("none", "", 1),
    ]:
        await shake(p, conn, mechanism, version)
        await p.closed(conn)
    for conn, request, version in [
        ("then-metadata", METADATA, 9),
        ("then-heartbeat", HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
        ("then-join", JoinGroupRequest(group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=1), 5),
        ("then-versions", NAMELESS, 3),
    ]:
        await shake(p, conn)
        await p.ask(conn, request, version)
        await p.closed(conn)
    await p.closed(await p.send("token-first", SaslAuthenticateRequest(auth_bytes=b"x"), 2))
    await p.raw("gssapi-token", pack(bytes.fromhex("6082025f06092a864886f71201020201")), "a token of GSSAPI")
    await p.closed("gssapi-token")
    await p.raw("empty", pack(b""), "an empty frame")
    await p.closed("empty")


@script(users=USERS)
async def sasl_bare_tokens(p: Prober) -> None:
    """After a handshake of version 0, tokens have no request headers; after one of version 1, they must have them."""
    await shake(p, "right", version=0)
    await p.raw("right", pack(b"\0alice\0alice-secret"), "the token of PLAIN")
    await p.unmatched("right")
    await beat(p, "right")
    await shake(p, "wrong", version=0)
    await p.raw("wrong", pack(b"\0alice\0x"), "a token with a wrong password")
    await p.closed("wrong")
    await shake(p, "empty", version=0)
    await p.raw("empty", pack(b""), "an empty token")
    await p.closed("empty")
    await shake(p, "framed", version=0)
    await p.closed(await p.send("framed", SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2))
    await shake(p, "bare", version=1)
    await p.raw("bare", pack(b"\0alice\0alice-secret"), "the token of PLAIN")
    await p.closed("bare")


@script(users=USERS)
async def sasl_sizes(p: Prober) -> None:
    """Before authentication a request may have at most 512 KiB; afterwards the general limit applies."""
    await p.raw("largest", (512 * 1024).to_bytes(4, "big"), "the length of a frame")
    await p.still_open("largest")
    await p.raw("too-large", (512 * 1024 + 1).to_bytes(4, "big"), "the length of a frame")
    await p.closed("too-large")
    await shake(p, "known")
    await password(p, "known")
    await p.raw("known", (600 * 1024).to_bytes(4, "big"), "the length of a frame")
    await p.still_open("known")


@script(users=USERS)
async def sasl_plain_tokens(p: Prober) -> None:
    """PLAIN tokens of every form, and the error messages for them."""
    for number, token in enumerate(
        [
            b"",
            b"alice",
            b"\0alice",
            b"\0alice\0alice-secret",
            b"alice\0alice\0alice-secret",
            b"bob\0alice\0alice-secret",
            b"bob\0alice\0x",
            b"\0\0x",
            b"\0alice\0",
            b"\0\0",
            b"\0alice\0alice-secret\0",
            b"\0nobody\0x",
            b"\0\xff\0x",
            b"\0alice\0x",
        ]
    ):
        await shake(p, f"T{number}")
        await give(p, f"T{number}", token, version=number % 3)


@script(users=USERS)
async def sasl_scram_refused(p: Prober) -> None:
    """First SCRAM messages that the broker refuses for any user."""
    for number, token in enumerate(
        [
            b"",
            b"garbage",
            b"n,,n=nobody,r=abc",
            b"n,,n=,r=abc",
            b"y,,n=nobody,r=abc",
            b"p=tls-unique,,n=nobody,r=abc",
            b"n,,n=nobody,r=a,b",
            b"n,,n=no=body,r=abc",
            b"n,,n=\xff,r=abc",
            b"n,,r=abc,n=nobody",
            b"n,,n=nobody,r=abc,tokenauth=true",
        ]
    ):
        await shake(p, f"T{number}", f"SCRAM-SHA-{(256, 512)[number % 2]}")
        await give(p, f"T{number}", token)
        await p.closed(f"T{number}")


@script(LONG, users=USERS)
async def sasl_oauthbearer_tokens(p: Prober) -> None:
    """OAUTHBEARER: valid and invalid unsecured tokens; sessions end after an hour, long before the tokens expire."""
    wrong: Mapping[str, bytes] = {
        "over": bearer({"sub": "alice", "exp": 1}),
        "begins-late": bearer({"sub": "alice", "iat": FAR - 1, "exp": FAR}),
        "no-end": bearer({"sub": "alice"}),
        "ends-before": bearer({"sub": "alice", "iat": 2, "exp": 1}),
        "nobody": bearer({"exp": FAR}),
        "empty": bearer({"sub": "", "exp": FAR}),
        "number": bearer({"sub": 5, "exp": FAR}),
        "text": bearer({"sub": "alice", "exp": "x"}),
        "scope": bearer({"sub": "alice", "exp": FAR, "scope": 4}),
        "list": bearer([1]),
        "signed": bearer(head={"alg": "HS256"}, signature=b"abc"),
        "HS256": bearer(head={"alg": "HS256"}),
        "none-signed": bearer(signature=b"abc"),
        "garbage": b"n,,\1auth=Bearer abc\1\1",
        "parts": b"n,,\1auth=Bearer a.b.c\1\1",
    }
    for conn, token in wrong.items():
        await shake(p, conn, OAUTH)
        await give(p, conn, token)
    for conn, then in [("over", b"\1"), ("garbage", b"x")]:
        await give(p, conn, then)
        await p.closed(conn)
    await give(p, "text", bearer())
    await beat(p, "text")
    right: Mapping[str, bytes] = {
        "right": bearer(),
        "fraction": bearer({"sub": "alice", "iat": 1.5, "exp": FAR + 0.5}),
        "scopes": bearer({"sub": "alice", "exp": FAR, "scope": ["a", "b"]}),
        "own-id": bearer(before=b"n,a=alice,"),
        "small": bearer().replace(b"Bearer", b"bearer"),
        "extension": bearer()[:-1] + b"foo=bar\1\1",
    }
    for conn, token in right.items():
        await shake(p, conn, OAUTH)
        await give(p, conn, token)
        await beat(p, conn)
    refused: Mapping[str, bytes] = {
        "other-id": bearer(before=b"n,a=bob,"),
        "no-token": b"n,,\1auth=Bearer \1\1",
        "one-end": bearer()[:-1],
        "no-end-at-all": bearer()[:-2],
        "auth-twice": bearer()[:-1] + b"auth=x\1\1",
        "digit": bearer()[:-1] + b"f1=x\1\1",
        "y": bearer(before=b"y,,"),
        "nothing": b"",
        "anything": b"xyz",
    }
    for conn, token in refused.items():
        await shake(p, conn, OAUTH)
        await give(p, conn, token)
        await p.closed(conn)


@script(OF_LISTENER, (NEW,), USERS)
async def sasl_settings_of_a_listener(p: Prober) -> None:
    """A listener with its own mechanisms, and with other claims and a required scope for OAUTHBEARER."""
    for mechanism in (SCRAM, "nonsense"):
        await shake(p, mechanism, mechanism)
        await p.closed(mechanism)
    await shake(p, "plain")
    await password(p, "plain")
    await beat(p, "plain")
    tokens: Mapping[str, bytes] = {
        "right": bearer({"user": "alice", "exp": FAR, "roles": ["write", " read ", "more"]}),
        "another-claim": bearer({"user": "alice", "sub": "bob", "exp": FAR, "roles": ["read", "write"]}),
        "own-id": bearer({"user": "alice", "exp": FAR, "roles": ["read", "write"]}, before=b"n,a=alice,"),
        "only-sub": bearer({"sub": "alice", "exp": FAR, "roles": ["read", "write"]}),
        "only-scope": bearer({"user": "alice", "exp": FAR, "scope": ["read", "write"]}),
        "one-role": bearer({"user": "alice", "exp": FAR, "roles": ["read"]}),
        "a-text": bearer({"user": "alice", "exp": FAR, "roles": "read write"}),
        "a-number": bearer({"user": "alice", "exp": FAR, "roles": 5}),
        "wrong-scope": bearer({"user": "alice", "exp": FAR, "scope": 5, "roles": ["read", "write"]}),
        "over": bearer({"user": "alice", "exp": 1, "roles": ["read"]}),
    }
    for conn, token in tokens.items():
        await shake(p, conn, OAUTH)
        await give(p, conn, token)
    for conn in ("one-role", "a-number"):
        await give(p, conn, b"\1")
        await p.closed(conn)
    await give(p, "only-scope", tokens["right"])
    await beat(p, "only-scope")


@script(SHORT, users=USERS)
async def sasl_again(p: Prober) -> None:
    """Sessions of 1.5 s: a client that reauthenticates in time continues; otherwise the broker closes the connection at
    the next request."""
    for conn in ("late", "punctual", "old"):
        await shake(p, conn)
        await password(p, conn, version=0 if conn == "old" else 2)
        await beat(p, conn)
    await p.wait(1_000)
    await shake(p, "punctual")
    await password(p, "punctual")
    await p.wait(900)
    await beat(p, "punctual")
    await p.closed(await p.send("late", HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4))
    await p.closed(await p.send("old", HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4))
    await p.wait(900)
    await shake(p, "punctual")  # after the session has expired, the first request reauthenticates
    await password(p, "punctual")
    await beat(p, "punctual")


@script(LONG, users=USERS)
async def sasl_again_wrongly(p: Prober) -> None:
    """Reauthentication too early, as another user, with another mechanism, with a wrong password, or with another
    request in between."""
    await shake(p, "soon")
    await password(p, "soon")
    await shake(p, "soon")
    await password(p, "soon")
    await shake(p, "soon")
    await password(p, "soon")
    await beat(p, "soon")
    for conn in ("other", "wrong", "between", "versions", "mechanism", "unknown", "bare"):
        await shake(p, conn)
        await password(p, conn)
        if conn not in ("mechanism", "unknown", "bare"):
            await shake(p, conn)
    await password(p, "other", "bob")
    await p.closed("other")
    await give(p, "wrong", b"\0alice\0x")
    await p.closed("wrong")
    await beat(p, "between")
    await p.closed("between")
    await p.ask("versions", NAMELESS, 3)
    await p.closed("versions")
    await shake(p, "mechanism", OAUTH)
    await p.closed(await p.send("mechanism", SaslAuthenticateRequest(auth_bytes=bearer()), 2))
    await p.closed(await p.send("unknown", SaslHandshakeRequest(mechanism="NOPE"), 1))
    await shake(p, "bare", version=0)
    await p.raw("bare", pack(b"\0alice\0alice-secret"), "the token of PLAIN")
    await p.unmatched("bare")
    await beat(p, "bare")
    await shake(p, "oauth", OAUTH)
    await give(p, "oauth", bearer())
    await shake(p, "oauth", OAUTH)
    await give(p, "oauth", b"anything")
    await p.closed("oauth")


@script()
async def scram_credentials(p: Prober) -> None:
    """SCRAM credentials of users: they are set, described and deleted, and invalid requests are refused."""

    async def alter(*alterations: Deletion | Upsertion) -> None:
        deletions = [one for one in alterations if isinstance(one, Deletion)]
        upsertions = [one for one in alterations if isinstance(one, Upsertion)]
        await p.ask("A", AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions), 0)

    async def describe(*names: str) -> None:
        users = [DescribeUserScramCredentialsRequest.User(name=name) for name in names]
        await p.ask("D", DescribeUserScramCredentialsRequest(users=users), 0)

    def put(name: str, mechanism: int = 1, iterations: int = 4_096) -> Upsertion:
        salted = bytes(range(64 if mechanism == 2 else 32))
        return Upsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=bytes(range(16)), salted_password=salted
        )

    def drop(name: str, mechanism: int = 1) -> Deletion:
        return Deletion(name=name, mechanism=mechanism)

    await p.ask("D", DescribeUserScramCredentialsRequest(users=None), 0)
    await describe("alice", "nobody")
    await describe("alice", "alice")
    await describe("")
    await alter()
    await alter(put("alice"))
    await p.wait(300)
    await describe()
    await alter(put("alice", 2, 8_192))
    await p.wait(300)
    await describe("alice", "nobody")
    for wrong in (
        [drop("nobody")],
        [drop("")],
        [put("")],
        [drop("alice", 9)],
        [drop("alice", 0)],
        [put("x", 7)],
        [put("x", iterations=4_095)],
        [put("x", iterations=16_385)],
        [put("x"), put("x")],
        [put("x"), put("x", 2)],
        [drop("alice"), put("alice")],
        [put("x", iterations=1), drop("nobody")],
    ):
        await alter(*wrong)
    await alter(drop("alice", 1))
    await p.wait(300)
    await describe()
    await alter(drop("alice", 2))
    await p.wait(300)
    await describe()
