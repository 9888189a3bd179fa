"""The login of the proxy to the real cluster, as a Kafka client with SASL (PLAIN, SCRAM or OAUTHBEARER).

The functions in this module use no sockets.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import field
from typing import Any, TypeAlias

from scramp import ScramClient, ScramException

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.client_properties import Credentials
from kwire.envelope import decode_response, encode_request
from kwire.errors import WireError
from kwire.explain.meanings import error_name
from kwire.lazy_dataclass import dataclass
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest

CLIENT_ID = "mockbroker-proxy"
HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 1
MOST_ITERATIONS = 1_000_000  # of SCRAM; 16,384 are Kafka's maximum
ITERATIONS = re.compile(r",i=(\d+)")

Steps: TypeAlias = Generator[bytes, bytes, None]  # yields requests, takes responses, both without length prefix


class LoginError(Exception):
    """The error for credentials that the cluster does not accept."""


def login(credentials: Credentials, token: bytes = b"") -> Steps:
    """Log in to a broker, as a generator that does no I/O.

    The generator yields each request to send, without its length prefix. The caller must pass each response to the
    generator's ``send``, also without its length prefix.

    Args:
        credentials: the SASL mechanism, with the user and the password.
        token: token for OAUTHBEARER.

    Raises:
        LoginError: The broker rejects the login, or sends an invalid response.
    """
    mechanism = credentials.mechanism
    request = encode_request(
        SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION, correlation_id=0, client_id=CLIENT_ID
    )
    answer = _decoded((yield request), ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION)
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        enabled = ", ".join(answer.mechanisms) or "none"
        raise LoginError(f"the cluster does not enable the SASL mechanism {mechanism} (enabled: {enabled})")
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise LoginError("ILLEGAL_SASL_STATE: check that its listener uses SASL")
    if answer.error_code:
        raise LoginError(_error(answer.error_code))
    match mechanism:
        case "PLAIN":
            yield from _exchange(f"\0{credentials.user}\0{credentials.password}".encode())
        case "OAUTHBEARER":
            refused = yield from _exchange(b"n,,\x01auth=Bearer " + token + b"\x01\x01")
            if refused:
                raise LoginError(f"the cluster refused the token: {refused.decode(errors='replace')}")
        case _:
            yield from _scram(credentials)


@dataclass(frozen=True, slots=True)
class RawPassword:
    """A password in UTF-8, as Kafka's clients hash it: without SASLprep, which scramp applies to its own passwords.

    Source: ScramFormatter.saltedPassword of Kafka.

    Attributes:
        text: the password.
    """

    text: str = field(repr=False)

    def __bytes__(self) -> bytes:
        """Return the bytes from which the salted password is derived."""
        return self.text.encode()


def _scram(credentials: Credentials) -> Steps:
    try:
        client: Any = ScramClient([credentials.mechanism], credentials.user, "")
        client.password = RawPassword(credentials.password)
        first = (yield from _exchange(client.get_client_first().encode())).decode()
        found = ITERATIONS.search(first)
        if found is not None and int(found[1]) > MOST_ITERATIONS:
            raise LoginError(f"the cluster requires {found[1]} SCRAM iterations, above the limit of {MOST_ITERATIONS}")
        client.set_server_first(first)
        final = yield from _exchange(client.get_client_final().encode())
        client.set_server_final(final.decode())
    except (ScramException, ValueError) as error:
        raise LoginError(f"the cluster sent an invalid {credentials.mechanism} message: {error}") from error


def _exchange(token: bytes) -> Generator[bytes, bytes, bytes]:
    """Yield a SaslAuthenticate request with a token, and return the token in the response.

    Raises:
        LoginError: The response has an error code, or cannot be decoded.
    """
    request = SaslAuthenticateRequest(auth_bytes=token)
    response = yield encode_request(request, AUTHENTICATE_VERSION, correlation_id=0, client_id=CLIENT_ID)
    answer = _decoded(response, ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION)
    if answer.error_code:
        raise LoginError(answer.error_message or _error(answer.error_code))
    received: bytes = answer.auth_bytes
    return received


def _decoded(response: bytes, key: ApiKey, version: int) -> Any:
    try:
        return decode_response(response, key, version).body
    except WireError as error:
        name = "SaslHandshake" if key == ApiKey.SASL_HANDSHAKE else "SaslAuthenticate"
        raise LoginError(f"cannot decode the response to {name}: {error}") from error


def _error(code: int) -> str:
    return error_name(code) or f"error code {code}"
