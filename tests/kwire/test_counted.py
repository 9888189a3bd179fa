"""A number with its noun."""

from __future__ import annotations

import pytest

from kwire.counted import counted


@pytest.mark.parametrize(
    ("number", "form", "text"),
    [
        (0, "", "0 records"),
        (1, "", "1 record"),
        (1.0, ".0f", "1 record"),
        (2, "", "2 records"),
        (1234, "", "1234 records"),
        (1234, ",", "1,234 records"),
    ],
)
def test_the_noun_is_singular_only_for_one(number: float, form: str, text: str) -> None:
    assert counted(number, "record", form) == text
