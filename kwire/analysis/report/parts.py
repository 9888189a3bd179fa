"""Elements of HTML pages: tables, cells, times. All text is escaped here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from kwire.analysis.report.by_group import moment

NUMERIC = ' class="n"'  # of the heading of a column with numbers
MOST_ROWS = 500  # rows of one table; the page reports what is left out

# Control characters except line ends, and characters without width or that change the direction of text.
HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")

Cell = str | int | float | None


class Html(str):
    """Text that contains HTML, such as a link, and therefore is not escaped again."""

    __slots__ = ()


Line = tuple[str, Sequence[Cell]]  # CSS class and cells of a row


def table(
    kind: str, head: Sequence[str], lines: Sequence[Line], *, title: str = "", name: str = "", row_id: str = ""
) -> str:
    """Return an HTML table in a box that scrolls sideways.

    Args:
        kind: CSS class of the table.
        head: titles of the columns.
        lines: rows, each with a CSS class and cells. Only the first MOST_ROWS rows are in the table.
        title: caption; "" for none.
        name: name for screen readers, if there is no caption; "" for ``kind``.
        row_id: prefix of the HTML ids of the rows, to which the number of the row is appended; "" for no ids.
    """
    rows = []
    for number, (style, cells) in enumerate(lines[:MOST_ROWS]):
        attributes = (f' id="{row_id}{number}"' if row_id else "") + (f' class="{style}"' if style else "")
        rows.append(f"<tr{attributes}>{''.join(map(cell, cells))}</tr>")
    more = f'<p class="note">{len(lines) - MOST_ROWS} more rows.</p>' if len(lines) > MOST_ROWS else ""
    numbers = {n for _, cells in lines for n, value in enumerate(cells) if isinstance(value, (int, float))}
    titles = "".join(
        f'<th scope="col"{NUMERIC if n in numbers else ""}>{escape(title)}</th>' for n, title in enumerate(head)
    )
    named = escape(title or name or kind)
    caption = f"<caption>{named}</caption>" if title else ""
    label = "" if title else f' aria-label="{named}"'
    body = "\n".join(rows)
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{named}">'
        f'<table class="{kind}"{label}>{caption}<thead><tr>{titles}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>{more}"
    )


def visible(text: str) -> str:
    r"""Return text in which all characters are visible: hidden ones are escapes such as ``\u202e``."""
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def cell(value: Cell) -> str:
    """Return a table cell. Numbers are aligned to the right; the cell is empty for None."""
    if value is None:
        return "<td></td>"
    if isinstance(value, Html):
        return f"<td>{value}</td>"
    return f"<td>{escape(value)}</td>" if isinstance(value, str) else f'<td class="n">{value}</td>'


def link(target: str, text: str) -> Html:
    """Return a link to an element of the page. ``target``: HTML id of the element."""
    return Html(f'<a href="#{target}">{escape(text)}</a>')


def number(value: float | None) -> float | None:
    """Return a number rounded to one digit after the decimal point; None for None."""
    return None if value is None else round(value, 1)


def clock(ts: int) -> str:
    """Return a time as date and time of day in UTC, to milliseconds. ``ts``: microseconds since 1970."""
    return (moment(ts) or "")[:23].replace("T", " ")


def listed(names: Iterable[str], most: int) -> str:
    """Return the first ``most`` names, separated by commas, and the number of the remaining names."""
    kept = list(names)
    return ", ".join(kept[:most]) + (f" and {len(kept) - most} more" if len(kept) > most else "")
