"""Redaction of secrets in messages: SASL tokens, SCRAM credentials, HMACs of delegation tokens."""

from __future__ import annotations

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
MESSAGES = {name.partition(".")[0] for name in FIELDS}


def redact(message: Any) -> bool:
    """Replace the secrets in a decoded message, such as passwords and tokens, by REDACTED; return whether there were
    any.

    The message itself is changed.
    """
    name, has_secrets = type(message).__qualname__, False
    if name not in MESSAGES:
        return has_secrets
    for part in (message, *getattr(message, "upsertions", ()), *getattr(message, "tokens", ())):
        for field in FIELDS.get(type(part).__qualname__, ()):
            if getattr(part, field):
                setattr(part, field, REDACTED)
                has_secrets = True
    return has_secrets
