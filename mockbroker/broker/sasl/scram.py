"""The SASL mechanisms SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677), with the library scramp."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scramp import ScramException, ScramMechanism

from kwire.lazy_dataclass import dataclass
from mockbroker.broker.sasl.mechanism import Authenticated, Challenge, Failed, Verdict
from mockbroker.broker.sasl.plain import OTHER_AUTHORIZATION
from mockbroker.security.delegation_tokens import DelegationToken
from mockbroker.security.users import SCRAM_HASHES, ScramCredential, ScramCredentials, Users

ITERATIONS = 4096  # Kafka's default
FIRST = re.compile(
    r"n,(?:a=(?P<authorization>[^,]+))?,(?:m=[^,]*,)?n=(?P<user>[^,]+),r=[^,]*(?P<extensions>(?:,[A-Za-z]+=[^,]+)*)",
    re.DOTALL,
)
BY_TOKEN = re.compile(r",tokenauth=true(?:,|$)", re.IGNORECASE)  # the user is the id of a delegation token (KIP-48)


@dataclass(frozen=True, slots=True)
class AuthorizedHeader:
    """A header with an authorization id, at the beginning of a client's first message.

    scramp does not accept such a header.

    Attributes:
        text: the header, including its two commas.
    """

    text: str

    def make_cbind_input(self, _: object) -> bytes:
        """Return the channel binding data, which the field ``c=`` of the client's final message contains in base64."""
        return self.text.encode()


class Scram256Or512:
    """An exchange with a SCRAM mechanism.

    Args:
        mechanism: Name of the mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        users: The users and their credentials.
        new_nonce: Function that returns the server's part of the nonce, printable and without commas.
    """

    _user: str  # in the first message of the client
    _by_token: bool  # whether the user is the id of a delegation token

    def __init__(self, mechanism: str, users: Users, new_nonce: Callable[[], str]) -> None:
        self._mechanism = mechanism
        self._users = users
        self._server = ScramMechanism(mechanism).make_server(self._credential, s_nonce=new_nonce())
        self._sent_challenge = False
        self._token: DelegationToken | None = None

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
        self._by_token = BY_TOKEN.search(match["extensions"]) is not None
        header = f"n,a={match['authorization']}," if match["authorization"] else "n,,"
        bare = text.removeprefix(header).removesuffix(match["extensions"])  # scramp accepts names of one letter
        self._server.set_client_first(f"n,,{bare}")
        self._server.client_first_bare += match["extensions"]  # which the proof of the client contains
        server: Any = self._server  # whose header has a type of scramp
        server.gs2_header = AuthorizedHeader(header)
        return Challenge(self._server.get_server_first().encode())

    def _final(self, text: str) -> Verdict:
        self._server.set_client_final(text)
        signature = self._server.get_server_final().encode()
        if self._token is None:
            return Authenticated(self._user, signature)
        return Authenticated(self._token.owner.name, signature, self._token.expires_at_ms, by_token=True)

    def _credential(self, user: str) -> tuple[bytes, bytes, bytes, int] | None:
        """Return the credential of a user in the form that scramp expects; None for an unknown user.

        Returns:
            Salt, stored key, server key and number of iterations.
        """
        self._user = user
        if self._by_token:
            return self._credential_of_token(user)
        credential = self._users.scram.get((user, self._mechanism))
        if credential is None:
            return None
        return credential.salt, credential.stored_key, credential.server_key, credential.iterations

    def _credential_of_token(self, token_id: str) -> tuple[bytes, bytes, bytes, int] | None:
        self._token = self._users.tokens.by_id(token_id)
        if self._token is None:
            return None
        salt = hashlib.sha256(token_id.encode()).digest()
        key = ScramMechanism(self._mechanism).make_auth_info(self._token.password, ITERATIONS, salt)
        return salt, key[1], key[2], ITERATIONS


def derive(passwords: Mapping[str, str], mechanisms: Iterable[str], new_salt: Callable[[], bytes]) -> ScramCredentials:
    """Return the SCRAM credentials of users, derived from their passwords.

    As in Kafka's clients, a password is hashed as UTF-8, without SASLprep (ScramFormatter.saltedPassword).

    Args:
        passwords: passwords by user.
        mechanisms: names of SASL mechanisms; only SCRAM-SHA-256 and SCRAM-SHA-512 are used.
        new_salt: function that returns a new random salt.

    Returns: (user, mechanism) -> credential.
    """
    credentials: dict[tuple[str, str], ScramCredential] = {}
    for mechanism in mechanisms:
        if mechanism in SCRAM_HASHES:
            for user, password in passwords.items():
                salt = new_salt()
                salted = hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password.encode(), salt, ITERATIONS)
                credentials[user, mechanism] = ScramCredential.from_salted_password(mechanism, salted, salt, ITERATIONS)
    return credentials
