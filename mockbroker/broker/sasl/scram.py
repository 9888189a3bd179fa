"""The SASL mechanisms SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677), with the library scramp."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from scramp import ScramException, ScramMechanism

from mockbroker.broker.sasl.mechanism import Authenticated, Challenge, Failed, Verdict
from mockbroker.broker.sasl.plain import OTHER_AUTHORIZATION
from mockbroker.broker.sasl.users import SCRAM_HASHES, ScramCredential, ScramCredentials, Users

ITERATIONS = 4096  # Kafka's default
FIRST = re.compile(r"n,(?:a=(?P<authorization>[^,]+))?,(?:m=[^,]*,)?n=(?P<user>[^,]+),r=.*", re.DOTALL)


class Scram256Or512:
    """An exchange with a SCRAM mechanism.

    Args:
        mechanism: Name of the mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        users: The users and their credentials.
        new_nonce: Function that returns the server's part of the nonce, printable and without commas.
    """

    def __init__(self, mechanism: str, users: Users, new_nonce: Callable[[], str]) -> None:
        self._user = ""
        self._mechanism = mechanism
        self._users = users
        self._server = ScramMechanism(mechanism).make_server(self._credential, s_nonce=new_nonce())
        self._sent_challenge = False

    def evaluate(self, token: bytes, wall_ms: int) -> Verdict:  # noqa: ARG002
        try:
            text = token.decode()
            return self._final(text) if self._sent_challenge else self._first(text)
        except (ScramException, UnicodeDecodeError):
            return Failed()

    def _first(self, text: str) -> Verdict:
        self._sent_challenge = True
        match = FIRST.fullmatch(text)
        if match is None:  # also for "y,,", of a client that supports channel binding
            return Failed()
        if match["authorization"] not in (None, match["user"]):
            return Failed(OTHER_AUTHORIZATION)
        self._server.set_client_first(text)
        return Challenge(self._server.get_server_first().encode())

    def _final(self, text: str) -> Verdict:
        self._server.set_client_final(text)
        return Authenticated(self._user, self._server.get_server_final().encode())

    def _credential(self, user: str) -> tuple[bytes, bytes, bytes, int] | None:
        """Return the credential of a user as scramp needs it; None for an unknown user.

        Returns:
            Salt, stored key, server key and number of iterations.
        """
        self._user = user
        credential = self._users.scram.get((user, self._mechanism))
        if credential is None:
            return None
        return credential.salt, credential.stored_key, credential.server_key, credential.iterations


def derive(passwords: Mapping[str, str], mechanisms: Iterable[str], new_salt: Callable[[], bytes]) -> ScramCredentials:
    """Return the SCRAM credentials of users, derived from their passwords.

    Args:
        passwords: Passwords by user.
        mechanisms: Names of SASL mechanisms; mechanisms other than SCRAM are ignored.
        new_salt: Function that returns a new random salt.
    """
    credentials: dict[tuple[str, str], ScramCredential] = {}
    for mechanism in mechanisms:
        if mechanism in SCRAM_HASHES:
            for user, password in passwords.items():
                salt, stored_key, server_key, iterations = ScramMechanism(mechanism).make_auth_info(
                    password, ITERATIONS, new_salt()
                )
                credentials[user, mechanism] = ScramCredential(salt, iterations, stored_key, server_key)
    return credentials
