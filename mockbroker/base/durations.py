"""Durations in ISO 8601 format, as java.time.Duration parses them."""

from __future__ import annotations

import re

_DURATION = (
    r"(?ai)(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?(?:(?P<seconds>[-+]?\d+)(?:[.,](?P<fraction>\d{0,9}))?S)?)?"
)
_UNITS_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def parse_duration_ms(text: str) -> int | None:
    """Return an ISO 8601 duration such as ``P1DT2H30M`` in milliseconds; None if the text is not a valid duration."""
    match = re.fullmatch(_DURATION, text)
    if match is None or match["time"] in ("T", "t") or not any(match[unit] for unit in _UNITS_MS):
        return None
    total = sum(int(match[unit]) * size for unit, size in _UNITS_MS.items() if match[unit])
    fraction = int((match["fraction"] or "").ljust(9, "0")[:9]) // 1_000_000
    total += -fraction if (match["seconds"] or "").startswith("-") else fraction
    return -total if match["sign"] == "-" else total
