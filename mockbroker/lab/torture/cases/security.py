"""Torture cases of TLS and SASL, for a client that uses a listener with TLS or SASL."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from kwire import ErrorCode
from mockbroker.lab.torture.case import TLS, Case, Change, Turn

SERVER_FIRST = re.compile(rb"r=(?P<nonce>[^,]*),s=(?P<salt>[^,]*),i=(?P<iterations>[0-9]+)")
SERVER_FINAL = b"v="
BEARER, ACKNOWLEDGED = b"\1auth=Bearer ", b"\1"  # in a token of a client, and its response to an error challenge
HUGE_TOKEN = 1 << 20  # bytes
DEPTH = 50_000  # of JSON
MANY_ITERATIONS = 2**31 - 1  # of PBKDF2: hours
NonceSaltIterations: TypeAlias = tuple[bytes, bytes, bytes]
ALWAYS = {"times": "always"}


# --- SaslHandshake ---


def no_mechanisms(response: Any, _request: Any, _: Turn) -> None:
    response.mechanisms, response.error_code = [], ErrorCode.UNSUPPORTED_SASL_MECHANISM


def other_mechanisms(response: Any, _request: Any, _: Turn) -> None:
    response.mechanisms, response.error_code = ["TORTURE"], ErrorCode.UNSUPPORTED_SASL_MECHANISM


def many_mechanisms(response: Any, _request: Any, _: Turn) -> None:
    response.mechanisms = [f"TORTURE-{number}" for number in range(10_000)]


# --- SaslAuthenticate ---


def empty_token(response: Any, _request: Any, _: Turn) -> None:
    response.auth_bytes = b""


def random_token(response: Any, _request: Any, turn: Turn) -> None:
    response.auth_bytes = turn.random.randbytes(64)


def huge_token(response: Any, _request: Any, _: Turn) -> None:
    response.auth_bytes += b",x=" + b"x" * HUGE_TOKEN


def one_millisecond(response: Any, _request: Any, _: Turn) -> None:
    response.session_lifetime_ms = 1


def negative_lifetime(response: Any, _request: Any, _: Turn) -> None:
    response.session_lifetime_ms = -1


def failed_without_error(response: Any, _request: Any, _: Turn) -> None:
    response.error_message, response.auth_bytes = "authentication failed", b"e=other-error"


# --- SCRAM (RFC 5802) ---


def _server_first(
    change: Callable[[NonceSaltIterations], NonceSaltIterations], response: Any, _request: Any, _: Turn
) -> None:
    """Change the first message of a SCRAM server. Other messages are not changed.

    Args:
        change: function that returns the new nonce, salt and iterations.
        response: SaslAuthenticate response, which is changed in place.
    """
    if match := SERVER_FIRST.fullmatch(response.auth_bytes):
        nonce, salt, iterations = change((match["nonce"], match["salt"], match["iterations"]))
        response.auth_bytes = b"r=" + nonce + b",s=" + salt + b",i=" + iterations


def wrong_signature(response: Any, _request: Any, _: Turn) -> None:
    if response.auth_bytes.startswith(SERVER_FINAL):
        response.auth_bytes = SERVER_FINAL + base64.b64encode(bytes(32))


def no_signature(response: Any, _request: Any, _: Turn) -> None:
    if response.auth_bytes.startswith(SERVER_FINAL):
        response.auth_bytes = b""


def challenge_again(response: Any, _request: Any, turn: Turn) -> None:
    """Replace the final message of a SCRAM server with the server's first message.

    Args:
        response: SaslAuthenticate response, which is changed in place.
        turn: context; its attribute ``kept`` stores the server's first message until the final message is replaced.
    """
    if SERVER_FIRST.fullmatch(response.auth_bytes):
        turn.kept = response.auth_bytes
    elif response.auth_bytes.startswith(SERVER_FINAL):
        response.auth_bytes = turn.kept


# --- OAUTHBEARER (RFC 7628) ---


def _challenge(content: bytes, response: Any, request: Any, _: Turn) -> None:
    """Replace the response to an OAUTHBEARER token, or to the client's acknowledgement of an error, with an error
    challenge.

    Responses of other SASL mechanisms are not changed.

    Args:
        content: the error challenge.
        response: SaslAuthenticate response, which is changed in place.
        request: SaslAuthenticate request.
    """
    if BEARER in request.auth_bytes or request.auth_bytes == ACKNOWLEDGED:
        response.auth_bytes, response.error_code, response.error_message = content, 0, None


CHALLENGES: list[tuple[str, str, bytes]] = [
    ("oauth-challenges", "answers each token with an error challenge, without end", b'{"status":"invalid_token"}'),
    ("oauth-empty-challenges", "answers each token with an error challenge without a status", b"{}"),
    ("oauth-other-challenges", "answers each token with an error challenge that is no object", b'["invalid_token", 5]'),
    ("oauth-deep-challenges", f"nests {DEPTH} objects in an error challenge", b'{"a":' * DEPTH + b"1" + b"}" * DEPTH),
]
SCRAM_FIRST: list[tuple[str, str, Callable[[NonceSaltIterations], NonceSaltIterations]]] = [
    ("scram-other-nonce", "sends a nonce of its own", lambda given: (given[0][::-1], *given[1:])),
    ("scram-empty-nonce", "sends an empty nonce", lambda given: (b"", *given[1:])),
    ("scram-no-salt", "sends an empty salt", lambda given: (given[0], b"", given[2])),
    ("scram-invalid-salt", "sends a salt that is not base64", lambda given: (given[0], b"!!!", given[2])),
    ("scram-no-iterations", "asks for 0 iterations", lambda given: (*given[:2], b"0")),
    ("scram-one-iteration", "asks for 1 iteration, which protects no password", lambda given: (*given[:2], b"1")),
    ("scram-negative-iterations", "asks for -1 iterations", lambda given: (*given[:2], b"-1")),
    (
        "scram-many-iterations",
        f"asks for {MANY_ITERATIONS} iterations",
        lambda given: (*given[:2], str(MANY_ITERATIONS).encode()),
    ),
    ("scram-iterations-in-words", "asks for x iterations", lambda given: (*given[:2], b"x")),
]
CHANGES: list[tuple[str, str, str, Change]] = [  # name, step, description, change
    ("no-mechanisms", "SaslHandshake", "has no SASL mechanism", no_mechanisms),
    ("other-mechanisms", "SaslHandshake", "has only an unknown SASL mechanism", other_mechanisms),
    ("many-mechanisms", "SaslHandshake", "accepts the mechanism, and lists 10,000 others", many_mechanisms),
    ("empty-token", "SaslAuthenticate", "sends empty SASL tokens", empty_token),
    ("random-token", "SaslAuthenticate", "sends random bytes as SASL tokens", random_token),
    ("huge-token", "SaslAuthenticate", "appends a megabyte to SASL tokens", huge_token),
    ("session-of-a-millisecond", "SaslAuthenticate", "ends each session after 1 ms", one_millisecond),
    ("negative-session", "SaslAuthenticate", "ends each session after -1 ms", negative_lifetime),
    ("failed-without-error", "SaslAuthenticate", "fails the exchange without an error code", failed_without_error),
    ("scram-wrong-signature", "SaslAuthenticate", "does not know the password", wrong_signature),
    ("scram-no-signature", "SaslAuthenticate", "leaves its signature out", no_signature),
    ("scram-challenge-again", "SaslAuthenticate", "repeats its challenge", challenge_again),
    *((name, "SaslAuthenticate", what, partial(_server_first, change)) for name, what, change in SCRAM_FIRST),
    *((name, "SaslAuthenticate", what, partial(_challenge, content)) for name, what, content in CHALLENGES),
]


PUBLISHED = {"scram-many-iterations": "https://github.com/dpkp/kafka-python/issues/3014"}


def _case(name: str, step: str, description: str, **rule: object) -> Case:
    return Case(name, step, description, rules=({"api": step, **ALWAYS, **rule},))


CASES = [
    *(Case(name, step, what, change=change, published=PUBLISHED.get(name, "")) for name, step, what, change in CHANGES),
    *(
        _case(f"SaslHandshake-{error}", "SaslHandshake", f"answers every SaslHandshake with {error}", error=error)
        for error in ("UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE")
    ),
    *(
        _case(f"SaslAuthenticate-{error}", "SaslAuthenticate", f"answers SaslAuthenticate with {error}", error=error)
        for error in ("SASL_AUTHENTICATION_FAILED", "ILLEGAL_SASL_STATE", "UNKNOWN_SERVER_ERROR")
    ),
    *(
        _case(f"{step}-silence", step, f"does not answer {step}", no_response=True)
        for step in ("SaslHandshake", "SaslAuthenticate")
    ),
    *(
        _case(f"{step}-disconnect", step, f"closes the connection at {step}", disconnect="before")
        for step in ("SaslHandshake", "SaslAuthenticate")
    ),
    _case(
        "SaslAuthenticate-trickle",
        "SaslAuthenticate",
        "sends one byte of SaslAuthenticate per second",
        bytes_per_second=1,
    ),
    Case(
        "tls-failure",
        TLS,
        "ends each TLS handshake with an alert",
        rules=({"on": "connect", "fail_tls": True, **ALWAYS},),
    ),
    Case(
        "tls-silence",
        TLS,
        "does not answer the TLS handshake",
        rules=({"on": "connect", "no_response": True, **ALWAYS},),
    ),
]
