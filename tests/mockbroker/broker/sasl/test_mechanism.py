"""The results of an authentication exchange."""

from __future__ import annotations

from mockbroker.broker.sasl.mechanism import Authenticated, Failed


def test_a_password_ends_no_session_and_is_no_delegation_token() -> None:
    alice = Authenticated("alice")
    assert (alice.token, alice.expires_at_ms, alice.by_token) == (b"", None, False)


def test_most_failures_have_the_same_text() -> None:
    assert Failed().text is None
