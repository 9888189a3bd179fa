"""The formatting of tables and names for a terminal. Names that clients choose are escaped."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from kwire.command import one_line

GAP = "  "  # between columns
LONGEST = 200  # characters of a value in a table


def escape(value: object, most: int = LONGEST * 10) -> str:
    r"""Return a value as one line of characters that a terminal shows; other characters are escaped, as in ``\x1b``.

    Characters that cannot be written in the encoding of stdout are escaped too.

    Args:
        value: The value, which is converted to text.
        most: Maximum number of characters; a longer text is cut.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return one_line(str(value), most).encode(encoding, "backslashreplace").decode(encoding)


def cell(value: object) -> str:
    """Return a value as the text of a table cell: ``-`` for None, ``yes`` or ``no`` for a bool, ``""`` for an empty
    text.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape(value, LONGEST) if value != "" else '""'


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as text, with one line per row. Numbers are aligned to the right.

    Args:
        header: Titles of the columns.
        rows: Values of each row.
    """
    values = [list(row) for row in rows]
    texts = [list(header), *([cell(value) for value in row] for row in values)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [all(_is_number(row[at]) for row in values) and bool(values) for at in range(len(header))]
    lines = (
        GAP.join(
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(row, widths, right, strict=True)
        )
        for row in texts
    )
    return "\n".join(line.rstrip() for line in lines)


def json_line(value: Any) -> str:
    """Return a JSON value as one line of printable ASCII."""
    return json.dumps(value).replace("\x7f", "\\u007f")


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
