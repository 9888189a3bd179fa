"""The part of docs/pipeline.md about tables and events, made from their declarations.

    python tools/table_pages.py docs/pipeline.md

replaces the text between the two marks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from marks import replace_between

from kwire.analysis.columns import Table
from kwire.analysis.events import EVENTS
from kwire.analysis.tables import EVERY

BEGIN = "<!-- from here to the next mark: made by `make docs` from kwire/analysis/tables.py -->"
END = "<!-- to here -->"


def renewed(text: str) -> str:
    """Return the page with the part between the marks replaced. Raises: ValueError if a mark is missing."""
    return replace_between(text, BEGIN, END, f"\n\n{made()}\n")


def made() -> str:
    """Return the part between the marks: every table and every event."""
    return "\n".join([*(line for table in EVERY.values() for line in _table(table)), *_events()])


def _table(table: Table) -> Iterator[str]:
    yield f"### {table.name}\n"
    yield f"A row is {table.grain}.\n"
    yield "| column | type | unit | how it is obtained |"
    yield "|---|---|---|---|"
    for column in table.columns:
        yield f"| `{column.name}` | {column.type} | {column.unit} | {column.how} |"
    yield ""


def _events() -> Iterator[str]:
    yield "### Events\n"
    yield "| `group_events.event` | what happened |"
    yield "|---|---|"
    for name, what in EVENTS.items():
        yield f"| `{name}` | {what} |"
    yield ""


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text("utf-8")), "utf-8")
