"""The handler of RenewDelegationToken v0-2. Source: Kafka's DelegationTokenControlManager."""

from __future__ import annotations

from dataclasses import replace

from kwire import ErrorCode
from kwire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker import token_requests
from mockbroker.broker.broker import Broker


def handle(broker: Broker, call: Call[RenewDelegationTokenRequest], now: float) -> Effects:
    if not token_requests.is_allowed(broker, call.ticket):
        error, expires_at_ms = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, token_requests.NO_TIME
    else:
        error, expires_at_ms = _renew(broker, call, now)
    return [Reply(call.ticket, RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expires_at_ms))]


def _renew(broker: Broker, call: Call[RenewDelegationTokenRequest], now: float) -> tuple[ErrorCode, int]:
    """Renew a delegation token.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        now: The broker's time in seconds.

    Returns: the error code, and the new expiry time in milliseconds since 1970; 0 after an error.
    """
    request, now_ms = call.request, broker.wall_ms(now)
    token = token_requests.find(broker, request.hmac)
    if isinstance(token, ErrorCode):
        return token, 0
    if token.is_expired(now_ms):
        return ErrorCode.DELEGATION_TOKEN_EXPIRED, 0
    if not token.may_be_renewed_by(token_requests.requester(broker, call.ticket)):
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0
    longest_ms = broker.settings.delegation_token_expiry_time_ms
    period_ms = min(request.renew_period_ms, longest_ms) if request.renew_period_ms > 0 else longest_ms
    expires_at_ms = min(token.max_ms, now_ms + period_ms)
    token_requests.put(broker, replace(token, expires_at_ms=expires_at_ms), now)
    return ErrorCode.NONE, expires_at_ms
