"""Subscriptions by regular expression: RE2, as at Kafka, where the broker matches them (KIP-848).

Kafka uses RE2/J, this the original RE2. What RE2 alone takes is refused here, in the words of RE2/J. What RE2/J alone
takes stays refused (docs/limits.md): RE2 bounds repetitions inside repetitions, and the program that an expression
becomes, which RE2/J does not; one such expression would keep a broker of one thread busy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

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
    pattern = _compiled(regex)
    return frozenset(name for name in names if pattern.fullmatch(name))


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
