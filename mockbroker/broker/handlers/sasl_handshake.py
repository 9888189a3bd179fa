"""The handler of SaslHandshake v0-1. The handler gets only requests at the wrong time: without SASL, or after
authentication.

The authentication itself is a stage of the connection (mockbroker/broker/authentication.py).
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker


def handle(broker: Broker, call: Call[SaslHandshakeRequest], now: float) -> Effects:  # noqa: ARG001
    return [Reply(call.ticket, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))]
