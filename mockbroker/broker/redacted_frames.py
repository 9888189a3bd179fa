"""Removal of secrets from request and response frames, for logs and recordings."""

from __future__ import annotations

from functools import cache

from kwire.envelope import decode_request, decode_response, encode_request, encode_response
from kwire.errors import WireError
from kwire.messages import APIS
from kwire.redact import MESSAGES, redact

REQUEST_HEAD, RESPONSE_HEAD = 8, 4  # bytes up to the correlation id


def redacted_request(frame: bytes, key: int) -> tuple[bytes, bool]:
    """Return a request in which secrets are replaced, and whether it contained a secret.

    If the request may contain secrets but cannot be decoded, return True and only its first bytes, up to and including
    the correlation id.

    Args:
        frame: the frame, without its length.
        key: API key.
    """
    if not _may_have_secrets(key, "request"):
        return frame, False
    try:
        decoded = decode_request(frame)
    except WireError:
        return frame[:REQUEST_HEAD], True
    if not redact(decoded.body):
        return frame, False
    return encode_request(decoded.body, decoded.version, correlation_id=0, header=decoded.header), True


def redacted_response(frame: bytes, key: int, version: int) -> tuple[bytes, bool]:
    """Return a response in which secrets are replaced, and whether it contained a secret.

    If the response may contain secrets but cannot be decoded, return True and only its correlation id.

    Args:
        frame: the frame, without its length.
        key: API key of the request.
        version: API version of the request.
    """
    if not _may_have_secrets(key, "response"):
        return frame, False
    try:
        decoded = decode_response(frame, key, version)
    except WireError:  # a fault rule may have malformed it
        return frame[:RESPONSE_HEAD], True
    if not redact(decoded.body):
        return frame, False
    return encode_response(decoded.body, version, correlation_id=0, header=decoded.header), True


def may_have_secrets(key: int) -> bool:
    """Return whether requests or responses of an API may contain secrets. ``key``: API key."""
    return _may_have_secrets(key, "request") or _may_have_secrets(key, "response")


@cache
def _may_have_secrets(key: int, side: str) -> bool:
    return key in APIS and getattr(APIS[key], side).__qualname__ in MESSAGES
