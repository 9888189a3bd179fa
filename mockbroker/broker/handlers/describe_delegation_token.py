"""The handler of DescribeDelegationToken v0-3.

With an authorizer, ``authorizer/responses.py`` removes the tokens that the client may not describe from the response.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker import token_requests
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks
from mockbroker.security.delegation_tokens import DelegationToken, Principal

REQUESTER_SINCE = 3  # first version with the requester of a token
Token = DescribeDelegationTokenResponse.Token


def handle(broker: Broker, call: Call[DescribeDelegationTokenRequest], now: float) -> Effects:  # noqa: ARG001
    if not token_requests.is_allowed(broker, call.ticket):
        error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return [Reply(call.ticket, DescribeDelegationTokenResponse(error_code=error))]
    if not token_requests.is_enabled(broker):
        error = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return [Reply(call.ticket, DescribeDelegationTokenResponse(error_code=error))]
    return begin(call.ticket, _describe(broker, call))


def _describe(broker: Broker, call: Call[DescribeDelegationTokenRequest]) -> Steps:
    owners = call.request.owners
    wanted = None if owners is None else {Principal(each.principal_type, each.principal_name) for each in owners}
    tokens: list[Token] = []
    for number, chunk in enumerate(chunks(list(broker.cluster.tokens), broker.slice_size)):
        if number:
            yield []
        tokens += [
            described(token)
            for token in chunk
            if wanted is None or not wanted.isdisjoint((token.owner, token.requester, *token.renewers))
        ]
    return [Reply(call.ticket, DescribeDelegationTokenResponse(tokens=tokens))]


def described(token: DelegationToken) -> Token:
    """Return a delegation token as a struct of the response."""
    return Token(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_at_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=token.hmac,
        renewers=[Token.Renewer(principal_type=each.type, principal_name=each.name) for each in token.renewers],
    )


def adapt_response(response: DescribeDelegationTokenResponse, version: int) -> DescribeDelegationTokenResponse:
    for token in response.tokens if version < REQUESTER_SINCE else ():
        token.token_requester_principal_type = token.token_requester_principal_name = ""
    return response
