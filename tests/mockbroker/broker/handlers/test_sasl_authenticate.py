"""SaslAuthenticate without SASL, or after authentication."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest


@pytest.mark.parametrize("version", range(3))
def test_illegal_sasl_state(version):
    response = BrokerHarness().ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), version)
    assert response.error_code == E.ILLEGAL_SASL_STATE
    assert response.error_message == "SaslAuthenticate request received after successful authentication"
