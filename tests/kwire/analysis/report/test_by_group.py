from __future__ import annotations

import pytest

from kwire.analysis.report.by_group import moment

LAST = 253_402_300_799_000_000  # the last second of the year 9999


@pytest.mark.parametrize(
    ("ts", "text"),
    [
        (None, None),
        (-1, "1969-12-31T23:59:59.999999+00:00"),
        (LAST, "9999-12-31T23:59:59.000000+00:00"),
        (LAST + 1_000_000, None),
        (-(2**62), None),
        (2**62, None),
    ],
)
def test_a_time_outside_of_the_years_1_to_9999_has_no_text(ts: int | None, text: str | None) -> None:
    """A frame log may contain any time."""
    assert moment(ts) == text
