"""The handler of CreateDelegationToken v0-3. Source: Kafka's KafkaApis and DelegationTokenControlManager.

A request gets POLICY_VIOLATION if tokens and renewers together would exceed ``mockbroker.max.delegation.tokens``.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker import token_requests
from mockbroker.broker.broker import Broker
from mockbroker.security.delegation_tokens import USER, DelegationToken, Principal, token_hmac
from mockbroker.security.identity import ANONYMOUS

REQUESTER_SINCE = 3  # first version with the requester of the token


def handle(broker: Broker, call: Call[CreateDelegationTokenRequest], now: float) -> Effects:
    request, requester = call.request, token_requests.requester(broker, call.ticket)
    if request.owner_principal_name and request.owner_principal_type is None:  # Kafka fails before it reads the client
        failed = response_for(CreateDelegationTokenRequest(), Principal.parse(ANONYMOUS))
        failed.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        return [Reply(call.ticket, failed)]
    response = response_for(request, requester)
    if not token_requests.is_allowed(broker, call.ticket):
        response.error_code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif any(renewer.principal_type != USER for renewer in request.renewers):
        response.error_code = ErrorCode.INVALID_PRINCIPAL_TYPE
    elif error := _error(broker, request):
        response.error_code = error
        response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = 0
    else:
        token = _token(broker, request, owner_of(request, requester), requester, broker.wall_ms(now))
        token_requests.put(broker, token, now)
        response.token_id, response.hmac = token.token_id, token.hmac
        response.issue_timestamp_ms, response.max_timestamp_ms = token.issued_ms, token.max_ms
        response.expiry_timestamp_ms = token.expires_at_ms
    return [Reply(call.ticket, response)]


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Return the owner that a request names, or the requester if the request names no owner."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def response_for(request: CreateDelegationTokenRequest, requester: Principal) -> CreateDelegationTokenResponse:
    """Return a response with owner and requester, but without a token and with the time -1 in all time fields.

    The caller sets the error code of a rejected request, or the token and its times.

    Args:
        request: the request.
        requester: the principal of the client.
    """
    owner, no_time = owner_of(request, requester), token_requests.NO_TIME
    return CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=no_time,
        expiry_timestamp_ms=no_time,
        max_timestamp_ms=no_time,
    )


def _error(broker: Broker, request: CreateDelegationTokenRequest) -> ErrorCode:
    if not token_requests.is_enabled(broker):
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    names = [request.owner_principal_type or "", request.owner_principal_name or ""]
    names += [renewer.principal_name for renewer in request.renewers]
    if max(map(len, names)) > token_requests.MAX_NAME:
        return ErrorCode.INVALID_REQUEST
    new = 1 + len(request.renewers)
    has_room = broker.cluster.tokens.size + new <= broker.settings.mockbroker_max_delegation_tokens
    return ErrorCode.NONE if has_room else ErrorCode.POLICY_VIOLATION


def _token(
    broker: Broker, request: CreateDelegationTokenRequest, owner: Principal, requester: Principal, now_ms: int
) -> DelegationToken:
    """Return a new token.

    Args:
        broker: The state of the cluster.
        request: The request.
        owner: The owner of the token.
        requester: The principal of the client.
        now_ms: The current time in milliseconds since 1970.
    """
    settings, lifetime_ms = broker.settings, request.max_lifetime_ms
    longest_ms = settings.delegation_token_max_lifetime_ms
    max_ms = now_ms + (min(lifetime_ms, longest_ms) if lifetime_ms > 0 else longest_ms)
    token_id = broker.new_token_id()
    return DelegationToken(
        token_id=token_id,
        hmac=token_hmac(token_id, settings.delegation_token_secret_key),
        owner=owner,
        requester=requester,
        renewers=tuple(Principal(each.principal_type, each.principal_name) for each in request.renewers),
        issued_ms=now_ms,
        expires_at_ms=min(max_ms, now_ms + settings.delegation_token_expiry_time_ms),
        max_ms=max_ms,
    )


def adapt_response(response: CreateDelegationTokenResponse, version: int) -> CreateDelegationTokenResponse:
    if version < REQUESTER_SINCE:
        response.token_requester_principal_type = response.token_requester_principal_name = ""
    return response
