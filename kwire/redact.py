"""Secrets in messages, taken out in place: SASL tokens, SCRAM credentials, what proves a delegation token."""

from __future__ import annotations

from typing import Any

REDACTED = b"[redacted]"
FIELDS = {  # by class, without what it is nested in
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
    """Replace the secrets that a message holds by REDACTED, where there are any."""
    name = type(message).__qualname__
    if name not in MESSAGES:
        return
    for part in (message, *getattr(message, "upsertions", ()), *getattr(message, "tokens", ())):
        for field in FIELDS.get(type(part).__qualname__, ()):
            if getattr(part, field):
                setattr(part, field, REDACTED)
