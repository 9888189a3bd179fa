from __future__ import annotations

import logging

import pytest

from mockbroker.proxy.repeated_warnings import INTERVAL, MAX_TEXTS, RepeatedWarnings


def test_the_same_warning_is_logged_once_in_an_interval(caplog: pytest.LogCaptureFixture) -> None:
    warnings = RepeatedWarnings()
    with caplog.at_level(logging.WARNING, "mockbroker"):
        for text, now in [
            ("closed: a", 0.0),
            ("closed: a", 0.0),
            ("closed: a", 1.0),
            ("closed: b", 1.0),
            ("closed: a", INTERVAL - 0.1),
            ("closed: a", INTERVAL),
            ("closed: a", 2 * INTERVAL),
            ("closed: b", 2 * INTERVAL),
        ]:
            warnings.warn(text, now)
    assert caplog.messages == [
        "closed: a",
        "closed: b",
        "closed: a (3 more times before)",
        "closed: a",
        "closed: b",
    ]


def test_a_bounded_number_of_texts_is_remembered(caplog: pytest.LogCaptureFixture) -> None:
    warnings = RepeatedWarnings()
    with caplog.at_level(logging.WARNING, "mockbroker"):
        for number in (*range(MAX_TEXTS + 1), MAX_TEXTS, 0):
            warnings.warn(f"text {number}", 0.0)
    assert len(caplog.messages) == MAX_TEXTS + 2
    assert caplog.messages[-1] == "text 0"
