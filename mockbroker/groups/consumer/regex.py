"""Resolution of the regular expressions in subscriptions to topics, with RE2 (KIP-848).

Kafka uses RE2/J; this module uses the original RE2. Syntax that only RE2 supports is rejected, with the messages of
RE2/J. Syntax that only RE2/J supports is rejected too (docs/limits.md): RE2 limits nested repetitions and the size of
the compiled expression. RE2/J has no such limits, but one large expression would block a broker with a single thread.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

from kwire.lazy_dataclass import dataclass

MAX_CACHED_REGEXES = 1_000  # the cache is cleared when it has more
# Error messages of RE2/J by the message of RE2 for the same error.
RE2J_MESSAGES = {
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
# Literal text, escapes and character classes, which are skipped, and the syntax that RE2/J rejects: \C (byte), and a
# capture group name that occurs twice (name).
SYNTAX = re.compile(
    r"\\Q.*?(?:\\E|\Z) | (?P<byte>\\C) | \\. | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\] | \(\?P?<(?P<name>\w+)>",
    re.DOTALL | re.VERBOSE,
)


class InvalidRegex(ValueError):
    """The error for a regular expression that is not valid."""


def check(regex: str) -> None:
    """Check that a regular expression is valid in RE2 and RE2/J.

    ``regex``: the regular expression.

    Raises: InvalidRegex if one of the two does not accept it.
    """
    _compiled(regex)


def matching_names(regex: str, names: Iterable[str]) -> frozenset[str]:
    """Return the topic names that a regular expression matches from beginning to end.

    Args:
        regex: The regular expression.
        names: The topic names.

    Raises: InvalidRegex if the regular expression is not valid.
    """
    fullmatch = _compiled(regex).fullmatch  # of bytes, because re2 counts the characters of a str at each match
    return frozenset([name for name in names if fullmatch(name.encode("utf-8", "surrogateescape"))])


@dataclass(slots=True)
class _CachedMatches:
    """The topics that match one regular expression.

    The expression is matched with the topic names in several calls, because there may be many topics.

    Attributes:
        created: Names of all topics ever created, in order.
        count: Number of names in ``created`` that were checked.
        topics: The matching topics that existed at the last call of ``TopicMatches.matching_topics``.
        found: The matching topics that ``TopicMatches.match_next`` has found since the last call of
            ``TopicMatches.matching_topics``.
    """

    created: Sequence[str]
    count: int = 0
    topics: frozenset[str] = frozenset()
    found: set[str] = field(default_factory=set)


class TopicMatches:
    """A cache of the topics that regular expressions match in a cluster, shared by all groups.

    Each regular expression is matched with each topic once, unless the cache is cleared because it has reached
    MAX_CACHED_REGEXES. Expressions that match the same topics share one set.
    """

    def __init__(self) -> None:
        self._cache: dict[str, _CachedMatches] = {}
        self._sets: dict[frozenset[str], frozenset[str]] = {}

    def matching_topics(self, regex: str, created: Sequence[str], existing: Container[str]) -> frozenset[str]:
        """Return the names of the existing topics that match a regular expression.

        Args:
            regex: The regular expression.
            created: Names of all topics ever created, in order. Later calls must pass the same list, with names
                appended. If a call passes another list, all names are matched again.
            existing: Names of the topics that exist.

        Raises:
            InvalidRegex: The regular expression is not valid.
        """
        self.match_next(regex, created, len(created))
        cached = self._cache[regex]
        matches = [name for name in cached.topics | cached.found if name in existing]
        if cached.found or len(matches) != len(cached.topics):
            topics = frozenset(matches)
            cached.topics, cached.found = self._sets.setdefault(topics, topics), set()
        return cached.topics

    def match_next(self, regex: str, created: Sequence[str], size: int) -> bool:
        """Match a regular expression with the next topic names, and return whether all names have now been matched.

        Args:
            regex: The regular expression.
            created: Names of all topics ever created, in order. Names that earlier calls have matched are skipped.
            size: Maximum number of names that this call matches.

        Raises:
            InvalidRegex: The regular expression is not valid.
        """
        cached = self._cache.get(regex)
        if cached is None or cached.created is not created:
            if cached is None and len(self._cache) >= MAX_CACHED_REGEXES:
                self._cache.clear()
                self._sets.clear()
            cached = self._cache[regex] = _CachedMatches(created)
        names = created[cached.count : cached.count + size]
        cached.found |= matching_names(regex, names)
        cached.count += len(names)
        return cached.count == len(created)


@lru_cache(maxsize=256)
def _compiled(regex: str) -> Any:
    # imported here because it takes 10 ms, and few brokers get a regular expression
    from re2 import Options, error
    from re2 import compile as compile_re2

    options = Options()
    options.log_errors = False
    readable = regex.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # as Java decodes a string
    try:
        compiled = compile_re2(readable, options)
    except error as wrong:
        detail = wrong.args[0]
        text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        message = text.partition(": ")[0]
        raise InvalidRegex(RE2J_MESSAGES.get(message, message)) from None
    _check_re2j_accepts(regex)
    return compiled


def _check_re2j_accepts(regex: str) -> None:
    """Check that RE2/J accepts a regular expression (``regex``) that RE2 accepts.

    Raises: InvalidRegex if RE2/J rejects it.
    """
    names: set[str] = set()
    for part in SYNTAX.finditer(regex):
        if part["byte"]:
            raise InvalidRegex("invalid escape sequence")
        if part["name"] in names:
            raise InvalidRegex("duplicate capture group name")
        names.update(filter(None, [part["name"]]))
