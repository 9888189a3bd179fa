"""Durations in ISO 8601 format, as java.time.Duration parses them."""

from __future__ import annotations

import pytest

from mockbroker.base.durations import parse_duration_ms

CASES: list[tuple[str, int | None]] = [
    ("PT1H", 3_600_000),
    ("P1DT2H30M1.5S", 95_401_500),
    ("PT0S", 0),
    ("pt20.345s", 20_345),
    ("-PT1M", -60_000),
    ("PT-1M", -60_000),
    ("PT-0.5S", -500),
    ("P1D", 86_400_000),
    ("P", None),
    ("PT", None),
    ("P1DT", None),
    ("1H", None),
    ("P1Y", None),
    ("PT1H ", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "milliseconds"), CASES, ids=[repr(text) for text, _ in CASES])
def test_durations_are_parsed_as_in_java(text, milliseconds):
    assert parse_duration_ms(text) == milliseconds
