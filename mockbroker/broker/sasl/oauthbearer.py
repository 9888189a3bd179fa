"""OAUTHBEARER (RFC 7628) with unsecured tokens (RFC 7515, alg none), as Kafka's own validator for them takes."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, TypeGuard

from mockbroker.broker.sasl.mechanism import Authenticated, Challenge, Failed, Verdict

ACKNOWLEDGED = b"\1"  # what a client says to the error that it was told
INVALID_TOKEN = b'{"status":"invalid_token"}'
MAX_SECONDS = 1e15
NAME = r"(?:[^=,\x00\x01]|=2C|=3D)+"
PAIR = r"[A-Za-z]+=[\x20-\x7e\t\r\n]+\x01"
RESPONSE = re.compile(rf"n,(?:a=(?P<authorization>{NAME}))?,\x01(?P<pairs>(?:{PAIR})+)\x01")
BEARER = re.compile(r"bearer +([-._~+/A-Za-z0-9]+=*)", re.IGNORECASE)
SEGMENT = re.compile(r"[-_A-Za-z0-9]+")


class OAuthBearer:
    """Two tries: a token that is not valid is told as a challenge, and the client may agree, or send another."""

    def __init__(self) -> None:
        self._sent_error = False

    def evaluate(self, token: bytes, wall_ms: int) -> Verdict:
        if self._sent_error and token == ACKNOWLEDGED:
            return Failed(INVALID_TOKEN.decode())
        try:
            found = RESPONSE.fullmatch(token.decode())
        except UnicodeDecodeError:
            return Failed()
        bearer = _bearer(found["pairs"]) if found else None
        if found is None or bearer is None:
            return Failed()
        claims = _claims(bearer)
        if claims is None or not _valid(claims, wall_ms):
            self._sent_error = True
            return Challenge(INVALID_TOKEN)
        user, asked = claims["sub"], found["authorization"]
        if asked is not None and asked.replace("=2C", ",").replace("=3D", "=") != user:
            return Failed(
                f"Authentication failed: Client requested an authorization id ({asked}) that is different from "
                f"the token's principal name ({user})"
            )
        return Authenticated(user, until_ms=int(claims["exp"] * 1000))


def _bearer(pairs: str) -> str | None:
    """The token among the key-value pairs, each of which may stand there once; other keys are extensions."""
    given = [pair.partition("=") for pair in pairs.split("\1") if pair]
    auth = [value for key, _, value in given if key == "auth"]
    found = BEARER.fullmatch(auth[0]) if len(auth) == 1 else None
    return found[1] if found else None


def _claims(token: str) -> dict[str, Any] | None:
    """The claims of an unsecured token, whose signature is empty."""
    segments = token.split(".")
    if len(segments) != 3 or segments[2]:
        return None
    header, claims = (_object(segment) for segment in segments[:2])
    return claims if header is not None and header.get("alg") == "none" else None


def _object(segment: str) -> dict[str, Any] | None:
    if not SEGMENT.fullmatch(segment):
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4)))
    except (ValueError, RecursionError, binascii.Error):
        return None
    return found if isinstance(found, dict) else None


def _valid(claims: dict[str, Any], wall_ms: int) -> bool:
    """A subject, an end that lies ahead, a begin (if told) that does not; a scope, if told, of texts."""
    user, begin, end = claims.get("sub"), claims.get("iat", 0), claims.get("exp")
    if not isinstance(user, str) or not user.strip() or not user.isprintable():
        return False  # JSON may hold halves of characters, of which no answer can tell
    scope = claims.get("scope", [])
    if not isinstance(scope, str) and not (isinstance(scope, list) and all(isinstance(one, str) for one in scope)):
        return False
    return _is_time(begin) and _is_time(end) and begin < end and begin * 1000 <= wall_ms < end * 1000


def _is_time(value: object) -> TypeGuard[float]:
    """Seconds since 1970, with or without a fraction, that milliseconds can be made of."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MAX_SECONDS
