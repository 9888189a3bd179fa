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


def redact(message: Any) -> None:
    """Replace the secrets in a message by REDACTED, in place."""
    name = type(message).__qualname__
    if name not in MESSAGES:
        return
    for part in (message, *getattr(message, "upsertions", ()), *getattr(message, "tokens", ())):
        for field in FIELDS.get(type(part).__qualname__, ()):
            if getattr(part, field):
                setattr(part, field, REDACTED)
