"""Regular expressions of subscriptions: RE2, whole names, and the error messages of RE2/J."""

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
    assert regex.matching_names(expression, NAMES) == found


def test_bytes_that_are_not_utf_8_are_replacement_characters() -> None:
    """As in Kafka, invalid UTF-8 is replaced. The expression comes from a request, whose strings may have any bytes."""
    regex.check("\udc80")
    assert regex.matching_names("orders|\udc80", [*NAMES, "\ufffd"]) == {"orders", "\ufffd"}


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
def test_error_messages_are_those_of_re2j(expression, text):
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
def test_valid_regexes(expression):
    regex.check(expression)


def test_matching_takes_linear_time():
    assert regex.matching_names("(a*)*b", ["a" * 249]) == frozenset()
    assert regex.matching_names("(x+x+)+y", ["x" * 249]) == frozenset()


def test_a_regex_is_matched_with_each_topic_once(monkeypatch):
    requested: list[str] = []

    def watched(expression: str, names: Iterable[str]) -> frozenset[Any]:
        requested.extend(names)
        return frozenset(name for name in names if name.startswith("a"))

    monkeypatch.setattr(regex, "matching_names", watched)
    matches, created = regex.TopicMatches(), ["a1", "b1"]
    first = matches.matching_topics("a.*", created, set(created))
    assert matches.matching_topics("a.*", created, set(created)) is first
    created += ["a2", "b2"]
    assert matches.matching_topics("a.*", created, set(created)) == {"a1", "a2"}
    assert matches.matching_topics("a.*", created, {"a2", "b2"}) == {"a2"}
    assert requested == ["a1", "b1", "a2", "b2"]
    assert matches.matching_topics("a.*", ["a1", "b1"], {"a1", "b1"}) == {"a1"}, "other names: matched from scratch"


def test_topics_are_matched_in_slices(monkeypatch):
    sizes: list[int] = []
    real = regex.matching_names

    def watched(expression: str, names: Iterable[str]) -> frozenset[str]:
        sizes.append(len(list(names)))
        return real(expression, names)

    monkeypatch.setattr(regex, "matching_names", watched)
    matches, created = regex.TopicMatches(), [f"{letter}{number}" for number in range(5) for letter in "ab"]
    assert [matches.match_next("a.", created, 4) for _ in range(3)] == [False, False, True]
    expected = {"a0", "a1", "a2", "a3", "a4"}
    assert matches.matching_topics("a.", created, {*created} - {"a1"}) == expected - {"a1"}
    created.append("a5")
    assert matches.match_next("a.", created, 4)
    assert matches.matching_topics("a.", created, {*created}) == expected - {"a1"} | {"a5"}
    assert sizes == [4, 4, 2, 0, 1, 0], "no name twice"


def test_regexes_with_the_same_matches_share_a_set():
    matches, created = regex.TopicMatches(), ["a1", "a2", "b1"]
    assert matches.matching_topics("a.*", created, set(created)) is matches.matching_topics(
        "a[0-9]", created, set(created)
    )


def test_the_cache_of_matches_is_bounded():
    matches, created = regex.TopicMatches(), ["a1"]
    for number in range(regex.MAX_CACHED_REGEXES + 5):
        matches.matching_topics(f"a{number}", created, set(created))
    assert len(matches._cache) <= regex.MAX_CACHED_REGEXES
    assert len(matches._sets) <= regex.MAX_CACHED_REGEXES


def test_invalid_regex_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    regex._compiled.cache_clear()
    with pytest.raises(regex.InvalidRegex):
        regex.check("(unclosed")
    assert capfd.readouterr() == ("", "")


def test_new_match_replaces_that_of_a_deleted_topic():
    matches, created = regex.TopicMatches(), ["ta"]
    assert matches.matching_topics("t.*", created, {"ta"}) == {"ta"}
    created.append("tb")
    assert matches.matching_topics("t.*", created, {"tb"}) == {"tb"}
    assert matches.matching_topics("t.*", created, {"ta", "tb"}) == {"tb"}
    assert matches.matching_topics("t.*", created, ()) == frozenset()


def test_full_cache_forgets_the_shared_sets(monkeypatch):
    monkeypatch.setattr(regex, "MAX_CACHED_REGEXES", 2)
    matches, created = regex.TopicMatches(), ["a", "b", "c", "d"]
    for name in created:
        matches.matching_topics(name, created, created)
    assert set(matches._sets) == {frozenset({"c"}), frozenset({"d"})}


def test_cache_has_at_most_1000_regexes():
    matches, created = regex.TopicMatches(), ["a1"]
    for number in range(1_000):
        matches.matching_topics(f"a{number}", created, created)
    assert len(matches._cache) == 1_000
    matches.matching_topics("b", created, created)
    assert set(matches._cache) == {"b"}


def test_known_regex_takes_no_place_in_a_full_cache(monkeypatch):
    monkeypatch.setattr(regex, "MAX_CACHED_REGEXES", 2)
    matches = regex.TopicMatches()
    for name in "ab":
        matches.matching_topics(name, ["a"], ["a"])
    assert matches.matching_topics("a", ["b"], ["b"]) == frozenset()
    assert set(matches._cache) == {"a", "b"}
