"""Secrets are removed from all fields of messages that contain them."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.messages import APIS
from kwire.messages.alter_configs import AlterConfigsRequest
from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kwire.messages.describe_delegation_token import DescribeDelegationTokenResponse
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
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


@pytest.mark.parametrize("kind", [AlterConfigsRequest, IncrementalAlterConfigsRequest])
@pytest.mark.parametrize(
    "name",
    [
        "ssl.key.password",
        "ssl.keystore.password",
        "listener.name.internal.ssl.truststore.password",
        "ssl.keystore.key",
        "listener.name.a.scram-sha-256.sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "delegation.token.secret.key",
        "password.encoder.old.secret",
    ],
)
def test_values_of_secret_configs(kind: Any, name: str) -> None:
    configs = [kind.Resource.Config(name=each, value="v") for each in (name, "ssl.keystore.type", "retention.ms")]
    configs.append(kind.Resource.Config(name=name, value=None))
    request = kind(resources=[kind.Resource(resource_type=4, resource_name="1", configs=configs)])
    assert redact(request)
    assert [each.value for each in request.resources[0].configs] == ["[redacted]", "v", "v", None]


def test_other_configs_have_no_secrets() -> None:
    configs = [AlterConfigsRequest.Resource.Config(name="retention.ms", value="1")]
    assert not redact(AlterConfigsRequest(resources=[AlterConfigsRequest.Resource(configs=configs)]))


def test_nothing_else() -> None:
    redact(request := HeartbeatRequest(group_id="g"))
    assert request == HeartbeatRequest(group_id="g")
