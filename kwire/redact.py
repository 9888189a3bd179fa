"""Redaction of secrets in messages: SASL tokens, SCRAM credentials, HMACs of delegation tokens, values of configs."""

from __future__ import annotations

import re
from typing import Any

REDACTED = b"[redacted]"
FIELDS = {  # fields with secrets, by qualified class name
    "SaslAuthenticateRequest": ("auth_bytes",),
    "SaslAuthenticateResponse": ("auth_bytes",),
    "AlterUserScramCredentialsRequest.Upsertion": ("salt", "salted_password"),
    "CreateDelegationTokenResponse": ("hmac",),
    "DescribeDelegationTokenResponse.Token": ("hmac",),
    "ExpireDelegationTokenRequest": ("hmac",),
    "RenewDelegationTokenRequest": ("hmac",),
}
CONFIGS = frozenset({"AlterConfigsRequest", "IncrementalAlterConfigsRequest"})  # requests with values of configs
HIDDEN_CONFIG = (  # names of configs that are of the type PASSWORD in Kafka, also with a prefix
    r"(?:.*\.)?(?:password|secret|passphrase|secret\.key|master\.key|jaas\.config"
    r"|ssl\.keystore\.(?:key|certificate\.chain)|ssl\.truststore\.certificates)"
)
MESSAGES = {name.partition(".")[0] for name in FIELDS} | CONFIGS


def redact(message: Any) -> bool:
    """Replace the secrets (such as passwords and tokens) in a decoded message by REDACTED.

    The message object itself is changed. Return whether it contained any secrets.
    """
    name, has_secrets = type(message).__qualname__, False
    if name not in MESSAGES:
        return has_secrets
    if name in CONFIGS:
        return _redact_configs(message)
    for part in (message, *getattr(message, "upsertions", ()), *getattr(message, "tokens", ())):
        for field in FIELDS.get(type(part).__qualname__, ()):
            if getattr(part, field):
                setattr(part, field, REDACTED)
                has_secrets = True
    return has_secrets


def _redact_configs(request: Any) -> bool:
    """Replace the values of secret configs in a request. Return whether the request contained any such configs."""
    secret = [
        config
        for resource in request.resources
        for config in resource.configs
        if config.value and _is_secret(config.name)
    ]
    for config in secret:
        config.value = REDACTED.decode()
    return bool(secret)


def _is_secret(name: str) -> bool:
    """Return whether the value of a config is a secret. ``name``: name of the config, also with a listener prefix."""
    return re.fullmatch(HIDDEN_CONFIG, name, re.IGNORECASE) is not None
