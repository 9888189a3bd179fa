"""The handler of ExpireDelegationToken v0-2. Source: Kafka's DelegationTokenControlManager.

A negative period in the request deletes the token.
"""

from __future__ import annotations

from dataclasses import replace

from kwire import ErrorCode
from kwire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker import token_requests
from mockbroker.broker.broker import Broker


def handle(broker: Broker, call: Call[ExpireDelegationTokenRequest], now: float) -> Effects:
    if not token_requests.is_allowed(broker, call.ticket):
        error, expires_at_ms = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, token_requests.NO_TIME
    else:
        error, expires_at_ms = _expire(broker, call, now)
    return [Reply(call.ticket, ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_at_ms))]


def _expire(broker: Broker, call: Call[ExpireDelegationTokenRequest], now: float) -> tuple[ErrorCode, int]:
    """Change the expiry time of a delegation token, or delete the token if the period in the request is negative.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        now: The broker's time in seconds.

    Returns: the error code, and the new expiry time in milliseconds since 1970; 0 after an error.
    """
    period_ms, now_ms = call.request.expiry_time_period_ms, broker.wall_ms(now)
    token = token_requests.find(broker, call.request.hmac)
    if isinstance(token, ErrorCode):
        return token, 0
    if not token.may_be_renewed_by(token_requests.requester(broker, call.ticket)):
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0
    if period_ms < 0:
        broker.cluster.tokens.remove(token)
        broker.cluster.changed()
        return ErrorCode.NONE, now_ms
    if token.is_expired(now_ms):
        return ErrorCode.DELEGATION_TOKEN_EXPIRED, 0
    expires_at_ms = min(token.max_ms, now_ms + period_ms)
    token_requests.put(broker, replace(token, expires_at_ms=expires_at_ms), now)
    return ErrorCode.NONE, expires_at_ms
