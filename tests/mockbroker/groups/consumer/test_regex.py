"""Expressions: RE2, whole names, and complaints in the words of Kafka's library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from mockbroker.groups.consumer import regex

NAMES = ["orders", "orders-eu", "orders.us", "audit", "", "ÄPFEL"]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("orders", {"orders"}),
        ("orders.*", {"orders", "orders-eu", "orders.us"}),
        ("orders[.-]..", {"orders-eu", "orders.us"}),
        ("(?i)ORDERS", {"orders"}),
        ("audit|orders", {"audit", "orders"}),
        ("\\Qorders.us\\E", {"orders.us"}),
        ("(?P<name>a)udit", {"audit"}),
        ("(?<name>a)udit", {"audit"}),
        ("\\pL+", {"orders", "audit", "ÄPFEL"}),
        (".*", set(NAMES)),
        ("nothing", set()),
    ],
)
def test_matching(expression, found):
    assert regex.matching(expression, NAMES) == found


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("((", "missing closing )"),
        ("[", "missing closing ]"),
        ("a)", "unexpected )"),
        ("a\\", "trailing backslash at end of expression"),
        ("*a", "missing argument to repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a**", "invalid nested repetition operator"),
        ("a(?=b)", "invalid or unsupported Perl syntax"),
        ("(?!a)", "invalid or unsupported Perl syntax"),
        ("(a)\\1", "invalid escape sequence"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("(?<n>a)(?P<n>b)", "duplicate capture group name"),
        ("\\C", "invalid escape sequence"),
        ("a\\Cb", "invalid escape sequence"),
        ("\\\\\\C", "invalid escape sequence"),
        ("[b-a]", "invalid character class range"),
        ("\\pX", "invalid character class range"),
    ],
)
def test_complaints(expression, text):
    with pytest.raises(regex.InvalidRegex, match=f"^{text.replace(chr(41), chr(92) + chr(41))}$"):
        regex.check(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "\\\\C",
        "[\\\\C]",
        "\\Q\\C\\E",
        "\\Q\\C",
        "\\Q(?P<n>a)(?P<n>b)\\E",
        "[(?P<n>](?P<n>b)",
        "[]\\](?P<n>](?P<n>b)",
        "(?P<n>a)(?P<m>b)",
        "\\((?P<n>a)|\\(?P<n>",
        "[^]\\](?P<n>](?P<n>b)",
        "[[:alpha:](?P<n>](?P<n>b)",
    ],
)
def test_what_only_looks_wrong(expression):
    regex.check(expression)


def test_no_expression_takes_for_ever():
    assert regex.matching("(a*)*b", ["a" * 249]) == frozenset()
    assert regex.matching("(x+x+)+y", ["x" * 249]) == frozenset()


def test_an_expression_is_matched_with_a_topic_once(monkeypatch):
    asked: list[str] = []

    def watched(expression: str, names: Iterable[str]) -> frozenset[Any]:
        asked.extend(names)
        return frozenset(name for name in names if name.startswith("a"))

    monkeypatch.setattr(regex, "matching", watched)
    matches, created = regex.TopicMatches(), ["a1", "b1"]
    first = matches.find("a.*", created, set(created))
    assert matches.find("a.*", created, set(created)) is first
    created += ["a2", "b2"]
    assert matches.find("a.*", created, set(created)) == {"a1", "a2"}
    assert matches.find("a.*", created, {"a2", "b2"}) == {"a2"}
    assert asked == ["a1", "b1", "a2", "b2"]
    assert matches.find("a.*", ["a1", "b1"], {"a1", "b1"}) == {"a1"}, "other names: matched from scratch"


def test_expressions_that_match_the_same_topics_share_them():
    matches, created = regex.TopicMatches(), ["a1", "a2", "b1"]
    assert matches.find("a.*", created, set(created)) is matches.find("a[0-9]", created, set(created))


def test_matches_that_are_kept_are_bounded():
    matches, created = regex.TopicMatches(), ["a1"]
    for number in range(regex.EXPRESSIONS_KEPT + 5):
        matches.find(f"a{number}", created, set(created))
    assert len(matches._kept) <= regex.EXPRESSIONS_KEPT
    assert len(matches._sets) <= regex.EXPRESSIONS_KEPT
