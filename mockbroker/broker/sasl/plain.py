"""The SASL mechanism PLAIN (RFC 4616): one token with authorization id, user and password, separated by NUL."""

from __future__ import annotations

from mockbroker.broker.sasl.mechanism import Authenticated, Failed, Verdict
from mockbroker.security.users import Users

OTHER_AUTHORIZATION = "Authentication failed: Client requested an authorization id that is different from username"


class Plain:
    """An exchange with the SASL mechanism PLAIN.

    Source (error messages, order of the checks): Kafka's PlainSaslServer.

    Args:
        users: The users that can log in.
    """

    def __init__(self, users: Users) -> None:
        self._users = users

    def evaluate(self, token: bytes, wall_ms: int) -> Verdict:  # noqa: ARG002
        parts = token.decode("utf-8", "surrogateescape").split("\0")
        if len(parts) != 3:
            return Failed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization, user, password = parts
        if not user:
            return Failed("Authentication failed: username not specified")
        if not password:
            return Failed("Authentication failed: password not specified")
        if not self._users.is_password(user, password):
            return Failed("Authentication failed: Invalid username or password")
        if authorization and authorization != user:
            return Failed(OTHER_AUTHORIZATION)
        return Authenticated(user)
