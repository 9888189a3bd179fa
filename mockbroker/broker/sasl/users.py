"""Who may come in: passwords as configured, and SCRAM credentials, which clients can change."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SCRAM_NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}  # in requests


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a broker keeps of a password (RFC 5802): it can check one with it, and not tell it."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def from_salted_password(
        cls, mechanism: str, salted_password: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """From a password that is salted and hashed already, as AlterUserScramCredentials has it."""
        name = SCRAM_HASHES[mechanism]
        client_key = hmac.digest(salted_password, b"Client Key", name)
        server_key = hmac.digest(salted_password, b"Server Key", name)
        return cls(salt, iterations, hashlib.new(name, client_key).digest(), server_key)


ScramCredentials = Mapping[tuple[str, str], ScramCredential]  # by user and mechanism


class Users:
    """``passwords``: by user; ``scram``: credentials by user and mechanism, the only part that changes."""

    def __init__(self, passwords: Mapping[str, str] | None = None, scram: ScramCredentials | None = None) -> None:
        self.passwords = dict(passwords or {})
        self.scram = dict(scram or {})

    def is_password(self, user: str, password: str) -> bool:
        """True if this is the user's password."""
        known = self.passwords.get(user)
        return known is not None and hmac.compare_digest(known.encode(), password.encode("utf-8", "surrogateescape"))

    def scram_credentials(self, user: str) -> dict[str, ScramCredential]:
        """The SCRAM credentials of a user by mechanism."""
        credentials = ((mechanism, self.scram.get((user, mechanism))) for mechanism in SCRAM_NUMBERS)
        return {mechanism: credential for mechanism, credential in credentials if credential is not None}

    def with_scram_credentials(self) -> list[str]:
        """Users that have SCRAM credentials, in order."""
        return sorted({name for name, _ in self.scram})
