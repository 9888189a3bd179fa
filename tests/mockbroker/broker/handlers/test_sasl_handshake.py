"""SaslHandshake without SASL."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.sasl_handshake import SaslHandshakeRequest


@pytest.mark.parametrize("version", [0, 1])
def test_illegal_sasl_state(version):
    response = BrokerHarness().ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert (response.error_code, response.mechanisms) == (E.ILLEGAL_SASL_STATE, [])
