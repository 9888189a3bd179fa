"""Timeouts of requests to the controller. The tests of the handlers check the responses."""

from __future__ import annotations

import pytest

from mockbroker.broker.controller_timeouts import is_expired


@pytest.mark.parametrize(
    ("timeout_ms", "expired"), [(-(2**31), True), (-1, True), (0, True), (1, False), (60_000, False)]
)
def test_request_without_time_has_expired(timeout_ms: int, expired: bool) -> None:
    assert is_expired(timeout_ms) is expired
