"""The report of ``kwire readiness`` as one HTML page that loads nothing and needs no script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from kwire.analysis.readiness import BLOCKED, NOTE, READY, Statement, labels
from kwire.analysis.report.parts import Line, table, visible
from kwire.analysis.report.style import STYLE
from kwire.counted import counted

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
ORDER = (BLOCKED, NOTE, READY)
LOOKS = {BLOCKED: "critical", NOTE: "warning", READY: ""}  # CSS class of a row


def page(rows: Sequence[Statement], target: str, title: str) -> str:
    """Return the report as one HTML page; blocked clients are first.

    Args:
        rows: rows of the report.
        target: release to upgrade to.
        title: name of the capture.
    """
    ordered = sorted(rows, key=lambda row: ORDER.index(row.state))
    clients = [row for row in ordered if row.kind == "client"]
    groups = [row for row in ordered if row.kind == "group"]
    heading = f"Readiness for Kafka {target}: {title}"
    verdict = f"{_counts(clients, 'client')}; {_counts(groups, 'group')}"
    body = "\n".join(
        [
            f"<header><h1>{escape(heading)}</h1><p id='summary'>{escape(verdict)}.</p></header><main>",
            f"<p class='note'>A blocked client sends requests in versions that Kafka {escape(target)} does not serve "
            "(KIP-896). Groups can move to the consumer protocol (KIP-848) after the upgrade.</p>",
            "<section id='clients'><h2>Clients</h2>",
            _clients(clients),
            "</section><section id='groups'><h2>Groups</h2>",
            _groups(groups),
            "</section></main>",
        ]
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>{escape(visible(heading))}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n{visible(body)}\n</body></html>\n"
    )


def _counts(rows: Iterable[Statement], what: str) -> str:
    states = Counter(row.state for row in rows)
    numbers = ", ".join(f"{states[state]} {state}" for state in ORDER if states[state])
    return f"{counted(sum(states.values()), what, ',')}{f': {numbers}' if numbers else ''}"


def _clients(rows: Iterable[Statement]) -> str:
    lines: list[Line] = [
        (
            LOOKS[row.state],
            [
                row.state,
                row.name,
                row.software or "unknown",
                ", ".join(row.removed),
                " and ".join(map(str, row.magics)),
                " and ".join(row.transactions),
            ],
        )
        for row in rows
    ]
    head = ["state", "client", "library", "removed requests (count)", "record format (magic)", "transactions"]
    return table("ready-clients", head, lines, title="Clients")


def _groups(rows: Sequence[Statement]) -> str:
    lines: list[Line] = [
        (LOOKS[row.state], [row.state, name, row.detail]) for row, name in zip(rows, labels(rows), strict=True)
    ]
    return table("ready-groups", ["state", "group", "consumer protocol"], lines, title="Groups")
