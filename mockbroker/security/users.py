"""The users of a cluster: configured passwords, and SCRAM credentials that clients can change."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from kwire.lazy_dataclass import dataclass
from mockbroker.security.delegation_tokens import DelegationTokens

SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SCRAM_NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}  # Kafka's ScramMechanism


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A SCRAM credential (RFC 5802), with which the broker verifies a password without storing it.

    Attributes:
        salt: salt of the password.
        iterations: number of iterations of the hash function.
        stored_key: hash of the client key (StoredKey of RFC 5802).
        server_key: key with which the broker signs its last message (ServerKey of RFC 5802).
    """

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def from_salted_password(
        cls, mechanism: str, salted_password: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """Create a credential from the salted password in an AlterUserScramCredentials request.

        Args:
            mechanism: name of the mechanism, such as ``SCRAM-SHA-256``.
            salted_password: the password after salting and hashing (SaltedPassword of RFC 5802).
            salt: the salt that the client has chosen.
            iterations: number of iterations of the hash function.
        """
        name = SCRAM_HASHES[mechanism]
        client_key = hmac.digest(salted_password, b"Client Key", name)
        server_key = hmac.digest(salted_password, b"Server Key", name)
        return cls(salt, iterations, hashlib.new(name, client_key).digest(), server_key)


ScramCredentials = Mapping[tuple[str, str], ScramCredential]  # by user and mechanism


class Users:
    """The users of a cluster.

    Attributes:
        passwords: configured passwords by user name.
        scram: SCRAM credentials by user name and mechanism; AlterUserScramCredentials changes them.
        tokens: the delegation tokens of the cluster.
    """

    def __init__(self, passwords: Mapping[str, str] | None = None, scram: ScramCredentials | None = None) -> None:
        self.passwords = dict(passwords or {})
        self.scram = dict(scram or {})
        self.tokens = DelegationTokens()

    def alter(self, altered: Mapping[tuple[str, str], ScramCredential | None]) -> None:
        """Set or delete SCRAM credentials.

        ``altered``: credentials by user name and mechanism; None deletes the credential.
        """
        for key, credential in altered.items():
            if credential is None:
                self.scram.pop(key, None)
            else:
                self.scram[key] = credential

    def is_password(self, user: str, password: str) -> bool:
        """Return whether a password is the configured password of a user; False for an unknown user."""
        expected = self.passwords.get(user)
        if expected is None:
            return False
        return hmac.compare_digest(expected.encode(), password.encode("utf-8", "surrogateescape"))

    def scram_credentials(self, user: str) -> dict[str, ScramCredential]:
        """Return the SCRAM credentials of a user, by mechanism."""
        credentials = ((mechanism, self.scram.get((user, mechanism))) for mechanism in SCRAM_NUMBERS)
        return {mechanism: credential for mechanism, credential in credentials if credential is not None}

    def with_scram_credentials(self) -> list[str]:
        """Return the sorted names of the users that have SCRAM credentials."""
        return sorted({name for name, _ in self.scram})
