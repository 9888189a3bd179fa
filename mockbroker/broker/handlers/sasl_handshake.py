"""The handler of SaslHandshake v0-1 outside of an authentication.

This is a request on a listener without SASL, or after the authentication.

The response is always ILLEGAL_SASL_STATE. The authentication stage (mockbroker/broker/authentication.py) handles a
SaslHandshake during an authentication.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker


def handle(broker: Broker, call: Call[SaslHandshakeRequest], now: float) -> Effects:  # noqa: ARG001
    return [Reply(call.ticket, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))]
