"""The section with all findings on the HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from kwire.analysis.columns import Row
from kwire.analysis.report.by_group import Name, alike
from kwire.analysis.report.parts import MOST_ROWS, Html, Line, clock, link, table
from kwire.counted import counted

TOP_FINDINGS = 25  # lines of findings that are not folded
MOST_EVIDENCE = 5  # references of one finding
SECTIONS = {"errors": "errors", "api_usage": "clients"}  # of the page, by table in references

Targets = Mapping[Name, Mapping[str, str]]  # HTML ids by reference, of each group with a section


def section(rows: Sequence[Row], numbers: Mapping[Name, int], targets: Targets) -> Iterator[str]:
    """Yield the HTML of the section with all findings, the most severe first.

    Args:
        rows: rows of ``findings``.
        numbers: numbers of the groups that have a section, for links from findings to these sections.
        targets: rows of these groups on the page, for links from references.
    """
    yield '<section id="findings"><h2>Findings</h2>'
    if not rows:
        yield '<p class="note">No detector recognised trouble.</p></section>'
        return
    yield (
        '<p class="note">Trouble that detectors recognised, worst first, with the rows of tables that show it. Equal '
        "findings about a group or a client are one line, which opens.</p>"
    )
    lines = [_line(equal, numbers, targets) for equal in alike(rows)]
    head = ["severity", "finding", "about", "detector", "from", "to", "seen in"]
    yield table("findings", head, lines[:TOP_FINDINGS], name="Findings")
    if rest := lines[TOP_FINDINGS:]:
        yield f"<details><summary>{counted(len(rest), 'more line', ',')}</summary>"
        yield table("findings", head, rest, name="More findings") + "</details>"
    yield "</section>"


def _line(rows: Sequence[Row], numbers: Mapping[Name, int], targets: Targets) -> Line:
    """Return the line about one finding, or about several equal findings.

    Args:
        rows: equal rows of ``findings``, the worst first.
        numbers: numbers of the groups that have a section.
        targets: rows of these groups on the page.
    """
    worst, several = rows[0], len(rows) > 1
    about = worst["group_id"], worst["cluster"]
    name = worst["group_id"] or worst["client_id"] or ""
    count = counted(sum(row["evidence_count"] for row in rows), "row", ",")
    known = targets.get(about, {})
    return escape(worst["severity"]), [
        worst["severity"],
        _list_of(rows, known) if several else worst["sentence"],
        link(f"group-{numbers[about]}", name) if about in numbers else name,
        worst["finding"],
        clock(min(row["begin_ts"] for row in rows)),
        clock(max(row["end_ts"] for row in rows)),
        count if several else Html(f"<details><summary>{count}</summary>{_evidence(worst, known)}</details>"),
    ]


def _list_of(rows: Sequence[Row], known: Mapping[str, str]) -> Html:
    """Return several equal findings as a folded HTML list, with the worst finding and their number as its summary."""
    items = [
        f"<li>{escape(row['sentence'])} <small>{clock(row['begin_ts'])} to {clock(row['end_ts'])[11:]}; "
        f"{_evidence(row, known)}</small></li>"
        for row in rows[:MOST_ROWS]
    ]
    if len(rows) > MOST_ROWS:
        items.append(f"<li>{len(rows) - MOST_ROWS} more in the table findings</li>")
    summary = f"{escape(rows[0]['sentence'])} <b>And {len(rows) - 1} more like it.</b>"
    return Html(f'<details class="alike"><summary>{summary}</summary><ol>{"".join(items)}</ol></details>')


def _evidence(row: Row, known: Mapping[str, str]) -> str:
    """Return the references of a finding as HTML, with links to rows and sections that are on the page."""
    shown = row["evidence"][:MOST_EVIDENCE]
    left_out = row["evidence_count"] - len(shown)
    return "; ".join(_linked(one, known) for one in shown) + (f" and {left_out} more" if left_out else "")


def _linked(reference: str, known: Mapping[str, str]) -> str:
    generation = reference.partition(" topic=" if reference.startswith("assignments ") else " trigger=")[0]
    target = known.get(reference) or known.get(generation) or SECTIONS.get(reference.partition(" ")[0])
    return escape(reference) if target is None else link(target, reference)
