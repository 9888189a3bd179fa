"""Globs: ``*`` matches any text, ``?`` one character, and a backslash makes the next character literal."""

from __future__ import annotations

import re
from collections.abc import Callable


def compile_glob(glob: str) -> Callable[[str], bool]:
    """Return a function that returns whether an entire text matches a glob.

    Matching takes time at most proportional to text length times glob length: the group after each ``*`` is atomic, so
    that the regular expression does not backtrack.

    Raises: ValueError for a backslash at the end.
    """
    first, *others = _parts(glob)
    if not others:
        expression = re.compile(first, re.DOTALL)
    else:
        *middle, last = others
        expression = re.compile("".join([first, *(f"(?>.*?{part})" for part in middle), ".*", last]), re.DOTALL)
    return lambda text: expression.fullmatch(text) is not None


def _parts(glob: str) -> list[str]:
    """Return the regular expressions between the ``*`` of a glob. Raises: ValueError for a backslash at the end."""
    parts = [""]
    characters = iter(glob)
    for character in characters:
        if character == "*":
            parts.append("")
        elif character == "?":
            parts[-1] += "."
        elif character == "\\":
            literal = next(characters, None)
            if literal is None:
                raise ValueError("the backslash at the end escapes no character: write \\\\ for a literal backslash")
            parts[-1] += re.escape(literal)
        else:
            parts[-1] += re.escape(character)
    return parts
