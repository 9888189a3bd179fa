"""The SASL mechanism OAUTHBEARER (RFC 7628) with unsecured tokens (RFC 7515, alg none).

Source: Kafka's OAuthBearerUnsecuredValidatorCallbackHandler.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, TypeGuard

from mockbroker.broker.sasl.mechanism import Authenticated, Challenge, Failed, Verdict
from mockbroker.security.listener_sasl import TokenRules

ACKNOWLEDGED = b"\1"  # the response of a client to an error challenge
INVALID_TOKEN = b'{"status":"invalid_token"}'
MAX_SECONDS = 1e15
NAME = r"(?:[^=,\x00\x01]|=2C|=3D)+"
PAIR = r"[A-Za-z]+=[\x20-\x7e\t\r\n]+\x01"
RESPONSE = re.compile(rf"n,(?:a=(?P<authorization>{NAME}))?,\x01(?P<pairs>(?:{PAIR})+)\x01")
BEARER = re.compile(r"bearer +([-._~+/A-Za-z0-9]+=*)", re.IGNORECASE)
SEGMENT = re.compile(r"[-_A-Za-z0-9]+")


class OAuthBearer:
    """An exchange with the OAUTHBEARER mechanism.

    The broker responds to an invalid token with an error challenge. Then the client acknowledges the challenge, which
    ends the authentication, or sends a new token.

    Args:
        rules: The rules for tokens.
    """

    def __init__(self, rules: TokenRules = TokenRules()) -> None:  # noqa: B008 - it is immutable
        self._rules = rules
        self._sent_error = b""

    def evaluate(self, token: bytes, wall_ms: int) -> Verdict:
        if self._sent_error and token == ACKNOWLEDGED:
            return Failed(self._sent_error.decode())
        try:
            match = RESPONSE.fullmatch(token.decode())
        except UnicodeDecodeError:
            return Failed()
        if match is None or (bearer := _bearer(match["pairs"])) is None:
            return Failed()
        claims = _claims(bearer)
        if claims is None or not _valid(claims, self._rules, wall_ms):
            self._sent_error = INVALID_TOKEN
        elif not _scope(claims, self._rules).issuperset(self._rules.required_scope):
            required = ", ".join(self._rules.required_scope)
            self._sent_error = f'{{"status":"insufficient_scope", "scope":"[{required}]"}}'.encode()
        else:
            return self._authenticated(claims, match["authorization"])
        return Challenge(self._sent_error)

    def _authenticated(self, claims: dict[str, Any], authorization: str | None) -> Verdict:
        """Return the result for a valid token.

        The result is Failed if the authorization id differs from the user of the token.

        Args:
            claims: the claims of the token.
            authorization: the authorization id in the message; None if the message has no authorization id.
        """
        user = claims[self._rules.principal_claim]
        if authorization is not None and authorization.replace("=2C", ",").replace("=3D", "=") != user:
            return Failed(
                f"Authentication failed: Client requested an authorization id ({authorization}) that is different from "
                f"the token's principal name ({user})"
            )
        return Authenticated(user, expires_at_ms=int(claims["exp"] * 1000))


def _bearer(pairs: str) -> str | None:
    """Return the token in a message of the client: the value of the key ``auth``, which must occur exactly once.

    Return None if the key is missing or occurs twice. All other keys are extensions; they are ignored.

    ``pairs``: the key-value pairs of the message.
    """
    items = [pair.partition("=") for pair in pairs.split("\1")]
    auth = [value for key, _, value in items if key == "auth"]
    match = BEARER.fullmatch(auth[0]) if len(auth) == 1 else None
    return match[1] if match else None


def _claims(token: str) -> dict[str, Any] | None:
    """Return the claims of an unsecured token: a token with ``alg`` none and an empty signature.

    Return None for any other token.
    """
    segments = token.split(".")
    if len(segments) != 3 or segments[2]:
        return None
    header, claims = (_object(segment) for segment in segments[:2])
    return claims if header is not None and header.get("alg") == "none" else None


def _object(segment: str) -> dict[str, Any] | None:
    if not SEGMENT.fullmatch(segment):
        return None
    try:
        decoded = json.loads(base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4)))
    except (ValueError, RecursionError, binascii.Error):
        return None
    return decoded if isinstance(decoded, dict) else None


def _scope(claims: dict[str, Any], rules: TokenRules) -> set[str]:
    """Return the elements of the scope of a token. As in Kafka, a scope that is a text is one element.

    Args:
        claims: The claims of the token.
        rules: The rules for tokens, which contain the name of the claim with the scope.
    """
    scope = claims.get(rules.scope_claim, [])
    return {element.strip() for element in ([scope] if isinstance(scope, str) else scope)}


def _valid(claims: dict[str, Any], rules: TokenRules, wall_ms: int) -> bool:
    """Return whether the claims of a token are valid: its subject, issue time, expiry time and type of scope.

    Args:
        claims: The claims; ``iat`` and the scope may be missing.
        rules: The names of the claims, and the permitted clock skew.
        wall_ms: The current time in milliseconds since 1970.
    """
    user, issued_at, expires_at = claims.get(rules.principal_claim), claims.get("iat", 0), claims.get("exp")
    if not isinstance(user, str) or not user.strip() or not user.isprintable():
        return False  # JSON can contain lone surrogates, which no response can contain
    scope = claims.get(rules.scope_claim, [])
    if not isinstance(scope, str) and not (isinstance(scope, list) and all(isinstance(one, str) for one in scope)):
        return False
    if not _is_time(issued_at) or not _is_time(expires_at):
        return False
    if "iat" in claims and expires_at <= issued_at:
        return False
    return issued_at * 1000 <= wall_ms + rules.clock_skew_ms and wall_ms - rules.clock_skew_ms < expires_at * 1000


def _is_time(value: object) -> TypeGuard[float]:
    """Return whether the value of a claim is a number of seconds that is finite and not too large for milliseconds."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MAX_SECONDS
