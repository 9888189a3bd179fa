"""The login of a simulated client with SCRAM, with the password of a user or with a delegation token (KIP-48)."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Generator
from functools import lru_cache
from typing import Any

from kwire.apikeys import ApiKey
from kwire.envelope import decode_response, encode_request
from kwire.lazy_dataclass import dataclass
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from mockbroker.lab.simulation.watching import Broken
from mockbroker.proxy.login import AUTHENTICATE_VERSION, HANDSHAKE_VERSION, LoginError, Steps
from mockbroker.security.users import SCRAM_HASHES

NAME = "I48"  # of the invariant that only current credentials are accepted


@dataclass(frozen=True, slots=True)
class ScramSecret:
    """What a client needs to log in with SCRAM.

    Attributes:
        credential: name of the credential in the history; the credential may have another password now, or none.
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        user: user name, or the id of a delegation token.
        password: password, or the HMAC of the token in base64.
        by_token: whether ``user`` is the id of a delegation token.
    """

    credential: str
    mechanism: str
    user: str
    password: str
    by_token: bool = False


@lru_cache(maxsize=1_000)
def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return a salted password (RFC 5802).

    Args:
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        password: the password.
        salt: the salt.
        iterations: number of iterations.
    """
    return hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password.encode(), salt, iterations)


def scram_login(secret: ScramSecret, nonce: str) -> Steps:
    """Log in with SCRAM. The generator yields requests and takes responses, both without length prefix.

    Args:
        secret: the user and the password.
        nonce: nonce of the client.

    Raises:
        LoginError: The broker refuses the login.
        Broken: The broker accepts the login, but does not know the password.
    """
    handshake = encode_request(
        SaslHandshakeRequest(mechanism=secret.mechanism), HANDSHAKE_VERSION, correlation_id=0, client_id="scram"
    )
    answer: Any = decode_response((yield handshake), ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION).body
    assert not answer.error_code
    first = f"n={secret.user},r={nonce}{',tokenauth=true' * secret.by_token}"
    challenge = yield from _exchange(f"n,,{first}")
    fields = dict(field.split("=", 1) for field in challenge.split(","))
    salted = salted_password(secret.mechanism, secret.password, b64decode(fields["s"]), int(fields["i"]))
    digest = SCRAM_HASHES[secret.mechanism]
    key = hmac.digest(salted, b"Client Key", digest)
    final = f"c=biws,r={fields['r']}"
    signed = f"{first},{challenge},{final}".encode()
    signature = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    last = yield from _exchange(f"{final},p={b64encode(proof).decode()}")
    expected = b64encode(hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)).decode()
    if last != f"v={expected}":
        raise Broken(NAME, f"the broker has accepted a login with {secret.credential}, whose password it does not know")


def _exchange(message: str) -> Generator[bytes, bytes, str]:
    request = SaslAuthenticateRequest(auth_bytes=message.encode())
    response = yield encode_request(request, AUTHENTICATE_VERSION, correlation_id=0, client_id="scram")
    answer: Any = decode_response(response, ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION).body
    if answer.error_code:
        raise LoginError(answer.error_message)
    received: bytes = answer.auth_bytes
    return received.decode()
