"""Subscriptions by regular expression: RE2, as at Kafka, where the broker matches them (KIP-848).

Kafka uses RE2/J, this the original RE2. What RE2 alone takes is refused here, in the words of RE2/J. What RE2/J alone
takes stays refused (docs/limits.md): RE2 bounds repetitions inside repetitions, and the program that an expression
becomes, which RE2/J does not; one such expression would keep a broker of one thread busy.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

EXPRESSIONS_KEPT = 1_000  # with what they match; beyond that all are matched from scratch
# What RE2 says and how RE2/J says it.
WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
# What means something else inside: literal text, escapes, character classes. Then what RE2/J does not take, or once.
PARTS = re.compile(
    r"\\Q.*?(?:\\E|\Z) | (?P<byte>\\C) | \\. | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\] | \(\?P?<(?P<name>\w+)>",
    re.DOTALL | re.VERBOSE,
)


class InvalidRegex(ValueError):
    """Not an expression; says what is wrong with it."""


def check(regex: str) -> None:
    """Raises: InvalidRegex."""
    _compiled(regex)


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that match as a whole."""
    fullmatch = _compiled(regex).fullmatch  # of bytes: re2 counts the characters of a text at each match
    return frozenset([name for name in names if fullmatch(name.encode("utf-8", "surrogateescape"))])


@dataclass(slots=True)
class _Matched:
    """What an expression matched among the first ``count`` names of ``created``."""

    created: Sequence[str]
    count: int
    topics: frozenset[str]


class TopicMatches:
    """What expressions match in a cluster: an expression is matched with a topic once, for all groups and members.

    Expressions that match the same topics have the same set.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Matched] = {}
        self._sets: dict[frozenset[str], frozenset[str]] = {}

    def find(self, regex: str, created: Sequence[str], there: Container[str]) -> frozenset[str]:
        """Topics that match. ``created``: names in order, which only grows or is replaced; ``there``: those that exist.

        Raises: InvalidRegex.
        """
        kept = self._kept.pop(regex, None)
        if kept is None or kept.created is not created:
            kept = _Matched(created, 0, frozenset())
        new = matching(regex, created[kept.count :])
        found = [name for name in kept.topics | new if name in there]
        topics = kept.topics if not new and len(found) == len(kept.topics) else frozenset(found)
        if len(self._kept) >= EXPRESSIONS_KEPT:
            self._kept.clear()
            self._sets.clear()
        topics = self._sets.setdefault(topics, topics)
        self._kept[regex] = _Matched(created, len(created), topics)
        return topics


@lru_cache(maxsize=256)
def _compiled(regex: str) -> Any:
    # 10 ms, and few brokers ever see an expression
    from re2 import Options, error
    from re2 import compile as compile_re2

    options = Options()
    options.log_errors = False
    try:
        compiled = compile_re2(regex, options)
    except error as wrong:
        told = wrong.args[0]
        text = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
        what = text.partition(": ")[0]
        raise InvalidRegex(WORDS.get(what, what)) from None
    _refuse_what_re2j_does_not_take(regex)
    return compiled


def _refuse_what_re2j_does_not_take(regex: str) -> None:
    """Of an expression of RE2. Raises: InvalidRegex."""
    names: set[str] = set()
    for part in PARTS.finditer(regex):
        if part["byte"]:
            raise InvalidRegex("invalid escape sequence")
        if part["name"] in names:
            raise InvalidRegex("duplicate capture group name")
        names.update(filter(None, [part["name"]]))
