"""The handler of SaslAuthenticate v0-2 outside of an authentication.

This is a request on a listener without SASL, or after the authentication.

The authentication stage (mockbroker/broker/authentication.py) handles a SaslAuthenticate during an authentication.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker

TEXT = "SaslAuthenticate request received after successful authentication"


def handle(broker: Broker, call: Call[SaslAuthenticateRequest], now: float) -> Effects:  # noqa: ARG001
    response = SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=TEXT)
    return [Reply(call.ticket, response)]
