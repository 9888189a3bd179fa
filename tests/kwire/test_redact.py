"""Secrets are taken out wherever messages have them."""

from __future__ import annotations

import pytest

from kwire.messages import APIS
from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kwire.messages.describe_delegation_token import DescribeDelegationTokenResponse
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.redact import FIELDS, REDACTED, redact

MESSAGES = {side.__name__: side for api in APIS.values() for side in (api.request, api.response)}


@pytest.mark.parametrize("name", FIELDS)
def test_the_fields_are_there(name: str) -> None:
    message, _, struct = name.partition(".")
    owner = getattr(MESSAGES[message], struct) if struct else MESSAGES[message]
    for field in FIELDS[name]:
        assert isinstance(getattr(owner(), field), bytes)


def test_inside_arrays() -> None:
    upsertion = AlterUserScramCredentialsRequest.Upsertion(name="alice", salt=b"s", salted_password=b"p")
    redact(request := AlterUserScramCredentialsRequest(upsertions=[upsertion]))
    assert (request.upsertions[0].salt, request.upsertions[0].salted_password) == (REDACTED, REDACTED)
    token = DescribeDelegationTokenResponse.Token(hmac=b"h", token_id="t")
    redact(response := DescribeDelegationTokenResponse(tokens=[token]))
    assert (response.tokens[0].hmac, response.tokens[0].token_id) == (REDACTED, "t")


def test_nothing_else() -> None:
    redact(request := HeartbeatRequest(group_id="g"))
    assert request == HeartbeatRequest(group_id="g")
