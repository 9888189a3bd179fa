"""The identity of the client of a connection. It results from the listener and the authentication."""

from __future__ import annotations

from kwire.lazy_dataclass import dataclass

ANONYMOUS = "User:ANONYMOUS"  # Kafka's principal of a client without authentication


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a client.

    Attributes:
        principal: the principal, such as ``User:alice``.
        may_use_tokens: whether the client may send requests about delegation tokens. False for a client that is not
            authenticated, or has authenticated with a delegation token.
    """

    principal: str = ANONYMOUS
    may_use_tokens: bool = False


UNKNOWN = Identity()
