"""Globs of rules."""

from __future__ import annotations

import pytest

from mockbroker.faults.globs import compile_glob

CASES = [  # glob, text, whether it matches
    ("orders", "orders", True),
    ("orders", "orders2", False),
    ("orders", "Orders", False),
    ("", "", True),
    ("", "a", False),
    ("*", "", True),
    ("*", "a\nb", True),
    ("orders-*", "orders-", True),
    ("orders-*", "orders", False),
    ("*-dlq", "orders-dlq", True),
    ("*-dlq", "orders-dlq2", False),
    ("*a*b*", "xxaxxbxx", True),
    ("*a*b*", "xxbxxaxx", False),
    ("*ab", "aab", True),
    ("a*a", "a", False),
    ("a*?c*d", "abcd", True),
    ("a*bc", "abcbc", True),
    ("?", "a", True),
    ("?", "", False),
    ("?", "\n", True),
    ("o.ders", "orders", False),
    (r"\*", "*", True),
    (r"\*", "a", False),
    (r"\?\\", "?\\", True),
    ("[a]", "a", False),
]


@pytest.mark.parametrize(("glob", "text", "matches"), CASES)
def test_glob(glob, text, matches):
    assert compile_glob(glob)(text) is matches


def test_a_backslash_at_the_end_is_refused():
    with pytest.raises(ValueError, match="the backslash at the end"):
        compile_glob("orders\\")


def test_many_stars_cost_no_more_than_their_number():
    """Without atomic groups in the regular expression, this match would take years."""
    assert not compile_glob("*a" * 50 + "*b")("a" * 900)
