"""Delegation tokens (KIP-48, KIP-373): a client that authenticates with a token acts as the owner of the token.

Source: Kafka's DelegationTokenControlManager and DelegationTokenManager.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from typing import NamedTuple

from kwire.lazy_dataclass import dataclass

USER = "User"  # the only type of renewers


class Principal(NamedTuple):
    """A principal: its type, such as ``User``, and its name."""

    type: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Return the principal in a text such as ``User:alice``: the type before the first colon, and the name after
        it.
        """
        type_, _, name = text.partition(":")
        return cls(type_, name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A delegation token. Times are milliseconds since 1970.

    Attributes:
        token_id: id of the token, which is the user name in a SCRAM exchange.
        hmac: HMAC of the token id with the secret key of the cluster.
        owner: the principal of clients that authenticate with the token.
        requester: the principal that created the token.
        renewers: principals that may renew the token, in addition to the owner.
        issued_ms: time of the creation.
        expires_at_ms: time at which the token expires, unless it is renewed.
        max_ms: time at which the token expires even if it was renewed.
    """

    token_id: str
    hmac: bytes
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_at_ms: int
    max_ms: int

    @property
    def password(self) -> str:
        """The password in a SCRAM exchange: the HMAC in base64."""
        return base64.b64encode(self.hmac).decode()

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the token has expired. ``now_ms``: the current time, in milliseconds since 1970."""
        return self.max_ms < now_ms or self.expires_at_ms < now_ms

    def may_be_renewed_by(self, principal: Principal) -> bool:
        """Return whether a principal may renew the token, as its owner or as a renewer."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: Principal) -> bool:
        """Return whether a principal is the owner, the requester or a renewer of the token."""
        return principal in (self.owner, self.requester) or principal in self.renewers


def token_hmac(token_id: str, secret_key: str) -> bytes:
    """Return the HMAC (SHA-512) of a token id. ``secret_key``: value of ``delegation.token.secret.key``."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


class DelegationTokens:
    """The delegation tokens of a cluster, indexed by id and by HMAC.

    Attributes:
        size: number of tokens plus number of their renewers.
    """

    def __init__(self) -> None:
        self.size = 0
        self._by_id: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}  # by HMAC

    def __iter__(self) -> Iterator[DelegationToken]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def by_id(self, token_id: str) -> DelegationToken | None:
        """Return the token with a token id; None if no token has this id."""
        return self._by_id.get(token_id)

    def by_hmac(self, value: bytes) -> DelegationToken | None:
        """Return the token with an HMAC; None if no token has this HMAC."""
        token_id = self._ids.get(value)
        return None if token_id is None else self._by_id[token_id]

    def put(self, token: DelegationToken) -> None:
        """Add a token, or replace the token with the same id."""
        if (old := self._by_id.get(token.token_id)) is not None:
            self.remove(old)
        self._by_id[token.token_id] = token
        self._ids[token.hmac] = token.token_id
        self.size += 1 + len(token.renewers)

    def remove(self, token: DelegationToken) -> None:
        """Delete a token."""
        del self._by_id[token.token_id]
        del self._ids[token.hmac]
        self.size -= 1 + len(token.renewers)

    def remove_expired(self, now_ms: int) -> bool:
        """Delete the expired tokens; return whether at least one was deleted.

        ``now_ms``: the current time, in milliseconds since 1970.
        """
        expired = [token for token in self if token.is_expired(now_ms)]
        for token in expired:
            self.remove(token)
        return bool(expired)
