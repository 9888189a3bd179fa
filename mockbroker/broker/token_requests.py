"""The common checks of requests about delegation tokens. Source: Kafka's KafkaApis and DelegationTokenControlManager.

As in Kafka, the broker checks whether a client may send such a request, and the controller makes all other checks. The
error responses of broker and controller contain different timestamps.
"""

from __future__ import annotations

from kwire import ErrorCode
from mockbroker.base.effects import Ticket
from mockbroker.broker.broker import Broker
from mockbroker.security.delegation_tokens import DelegationToken, Principal

MAX_NAME = 1_000  # maximum characters of the type or name of a principal; Kafka has no limit
NO_TIME = -1  # in responses of the broker to refused requests


def is_allowed(broker: Broker, ticket: Ticket) -> bool:
    """Return whether the client of a request may send requests about delegation tokens.

    ``ticket``: ticket of the request.
    """
    return broker.identity(ticket.connection).may_use_tokens


def is_enabled(broker: Broker) -> bool:
    """Return whether delegation tokens are enabled, that is, the cluster has a secret key for them."""
    return bool(broker.settings.delegation_token_secret_key)


def requester(broker: Broker, ticket: Ticket) -> Principal:
    """Return the principal of the client that has sent a request. ``ticket``: ticket of the request."""
    return Principal.parse(broker.identity(ticket.connection).principal)


def find(broker: Broker, hmac: bytes) -> DelegationToken | ErrorCode:
    """Return the delegation token that has a given HMAC, or an error code.

    The error codes are DELEGATION_TOKEN_AUTH_DISABLED if tokens are disabled, and DELEGATION_TOKEN_NOT_FOUND if no
    token has this HMAC. The token that is returned may have expired.

    Args:
        broker: the state of the cluster.
        hmac: HMAC of the token.
    """
    if not is_enabled(broker):
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    token = broker.cluster.tokens.by_hmac(hmac)
    return ErrorCode.DELEGATION_TOKEN_NOT_FOUND if token is None else token


def put(broker: Broker, token: DelegationToken, now: float) -> None:
    """Store a delegation token, and schedule the check for its expiry. ``now``: the broker's time in seconds."""
    broker.cluster.tokens.put(token)
    broker.cluster.changed()
    broker.schedule_token_sweep(now)
