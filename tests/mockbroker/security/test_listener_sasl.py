"""SASL settings of one listener, as in server.properties of a Kafka broker."""

from __future__ import annotations

import pytest

from mockbroker.base.settings import Settings, SettingsError
from mockbroker.security.listener_sasl import (
    ListenerSasl,
    TokenRules,
    all_mechanisms,
    jaas_users,
    listener_sasl,
    token_rules,
)

PREFIX = "listener.name.outside."
PLAIN, OAUTH = f"{PREFIX}plain.sasl.jaas.config", f"{PREFIX}oauthbearer.sasl.jaas.config"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def test_users_of_plain() -> None:
    text = f'{PLAIN_MODULE} required username="admin" password="x" user_admin="x" user_alice="y";'
    assert jaas_users(Settings.parse({PLAIN: text})) == {"admin": "x", "alice": "y"}
    assert jaas_users(Settings.parse({OAUTH: f"{OAUTH_MODULE} required;"})) == {}


def test_rules_for_tokens() -> None:
    options = {
        "unsecuredValidatorPrincipalClaimName": "user",
        "unsecuredValidatorScopeClaimName": "roles",
        "unsecuredValidatorRequiredScope": "read  write",
        "unsecuredValidatorAllowableClockSkewMs": "3000",
        "unsecuredLoginStringClaim_sub": "alice",
    }
    assert token_rules(OAUTH, options) == TokenRules("user", "roles", ("read", "write"), 3000)
    assert token_rules(OAUTH, {"unsecuredValidatorPrincipalClaimName": " "}) == TokenRules()


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("RequiredScope", 'a"b', "is not a valid element of a scope"),
        ("AllowableClockSkewMs", "-1", "expected 0 to 2147483647, got '-1'"),
        ("AllowableClockSkewMs", "x", "expected 0 to 2147483647, got 'x'"),
    ],
)
def test_invalid_rule_for_tokens_is_refused(option: str, value: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=f"{OAUTH}: unsecuredValidator{option}: .*{problem}"):
        token_rules(OAUTH, {f"unsecuredValidator{option}": value})


def test_settings_of_one_listener() -> None:
    settings = Settings.parse(
        {
            f"{PREFIX}sasl.enabled.mechanisms": "plain, SCRAM-SHA-512",
            OAUTH: f'{OAUTH_MODULE} required unsecuredValidatorPrincipalClaimName="user";',
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        }
    )
    assert listener_sasl(settings, "OUTSIDE") == ListenerSasl("PLAIN,SCRAM-SHA-512", TokenRules("user"))
    assert listener_sasl(settings, "INSIDE") == ListenerSasl()
    assert all_mechanisms(settings, ["INSIDE", "OUTSIDE"]) == {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert settings.without_effect() == []


def test_unknown_mechanism_of_a_listener_is_refused() -> None:
    settings = Settings.parse({f"{PREFIX}sasl.enabled.mechanisms": "GSSAPI"})
    with pytest.raises(SettingsError, match=rf"^{PREFIX}sasl\.enabled\.mechanisms: expected .*, got 'GSSAPI'"):
        listener_sasl(settings, "OUTSIDE")
