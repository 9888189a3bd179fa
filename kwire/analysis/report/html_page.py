"""The tables of a capture as one HTML page: findings, groups with swim lanes (the most severe problems first), errors,
clients, versions, latency, and traffic that was not decoded.

The page is one file that loads nothing. All numbers are in tables, which need no script; a script draws the lanes,
sorts and searches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from kwire.analysis.columns import Tables
from kwire.analysis.report import findings_section, group_section, traffic_sections
from kwire.analysis.report.by_group import Name, apart, names
from kwire.analysis.report.parts import Cell, Line, link, number, table, visible
from kwire.analysis.report.style import STYLE
from kwire.analysis.transactions import COMMITTED, REFUSED
from kwire.counted import counted

NEEDED = (
    "group_events",
    "rebalances",
    "members",
    "assignments",
    "offset_commits",
    "share_records",
    "violations",
    "findings",
    "errors",
    "clients",
    "api_usage",
    "latency",
    "problems",
)

MOST_GROUPS = 50  # with sections; all are in the overview
OPEN_GROUPS = 3  # groups whose sections are not folded
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
SCRIPT = (Path(__file__).parent / "page.js").read_text("utf-8")


def save(path: Path, tables: Tables, title: str) -> None:
    """Write the tables of a capture as one HTML page. Raises: OSError if the file cannot be written.

    Args:
        path: file to write.
        tables: rows by table name; the tables in NEEDED are required.
        title: title of the page.
    """
    path.write_text(page(tables, title), "utf-8", "backslashreplace")


def page(tables: Tables, title: str) -> str:
    """Return the tables of a capture as one HTML page.

    Args:
        tables: rows by table name; the tables in NEEDED are required.
        title: title of the page.
    """
    body = visible("\n".join(part for part in _body(tables, title) if part))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>{escape(visible(title))}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n<script>{SCRIPT}</script></body></html>\n"
    )


def _body(tables: Tables, title: str) -> Iterator[str]:
    groups = apart(tables)
    ranked = sorted(groups, key=lambda group: (_trouble(groups[group]), group[0], group[1] or ""))
    shown = ranked[:MOST_GROUPS]
    numbers = {group: number for number, group in enumerate(shown)}
    same = Counter(group_id for group_id, _ in groups)
    titles = {group: f"{group[0]} (cluster {group[1]})" if same[group[0]] > 1 else group[0] for group in groups}
    yield f'<a class="skip" href="#findings">Skip to the findings</a><header><h1>{escape(title)}</h1>'
    counts = {
        "group": len(groups),
        "rebalance": len(tables["rebalances"]),
        "violation": len(tables["violations"]),
        "error": sum(row["count"] for row in tables["errors"]),
    }
    summary = ", ".join(counted(count, noun, ",") for noun, count in counts.items())
    yield f'<p id="summary">{summary}. Times are UTC.</p></header>'
    sections = ["findings", "groups", "errors", "clients", "latency", *(["problems"] if tables["problems"] else [])]
    links = "".join(f'<a href="#{name}">{name.capitalize()}</a> ' for name in sections)
    yield f'<nav aria-label="Sections">{links}<span id="tools"></span></nav><main>'
    yield '<noscript><p class="hint">Tables that are wider than the page scroll sideways.</p></noscript>'
    known = {group: group_section.targets(groups[group], numbers[group]) for group in shown}
    yield from findings_section.section(tables["findings"], numbers, known)
    yield from _overview(groups, ranked, numbers, titles)
    for group in shown:
        own = groups[group]
        called = {member: visible(name) for member, name in names(own["members"]).items()}  # also in the data of lanes
        yield from group_section.section(
            own, titles[group], numbers[group], called, is_open=numbers[group] < OPEN_GROUPS
        )
    yield '<section id="errors"><h2>Errors</h2>'
    yield traffic_sections.errors(tables["errors"], traffic_sections.families(tables["clients"]))
    yield '</section><section id="clients"><h2>Clients and versions</h2>'
    yield traffic_sections.clients(tables["clients"])
    yield '<p class="note">Versions that Kafka 4 does not serve are marked with ✕.</p>'
    yield traffic_sections.api_versions(tables["api_usage"])
    yield '</section><section id="latency"><h2>Latency</h2>'
    yield (
        '<p class="note">Waits that the client requested are included. Percentiles of all minutes are interpolated '
        "between powers of two.</p>"
    )
    yield traffic_sections.latency(tables["latency"])
    yield "</section>"
    if tables["problems"]:
        yield '<section id="problems"><h2>Not decoded</h2>'
        yield '<p class="note">Traffic that the numbers above do not include. Damage is marked.</p>'
        yield traffic_sections.problems(tables["problems"])
        yield "</section>"
    yield '</main><div id="tip" role="status" aria-live="polite" hidden></div>'


def _trouble(own: Tables) -> tuple[float, ...]:
    """Return the sort key of a group, with which the groups with the most severe problems are first.

    The key compares findings by severity, then stop-the-world times, violations and rebalances.

    ``own``: rows of the group by table name.
    """
    ranks = Counter(row["rank"] for row in own["findings"])
    stopped = sum(row["stw_ms_max"] or 0 for row in own["rebalances"])
    return (-ranks[1], -ranks[2], -ranks[3], -stopped, -len(own["violations"]), -len(own["rebalances"]))


def _overview(
    groups: Mapping[Name, Tables], ranked: Sequence[Name], numbers: Mapping[Name, int], titles: Mapping[Name, str]
) -> Iterator[str]:
    """Yield the HTML of the table of all groups.

    Args:
        groups: rows by table name, by group.
        ranked: all groups, in the order of the table: the groups with the most severe problems first.
        numbers: numbers of the groups that have a section on the page, for links to these sections.
        titles: display name of each group.
    """
    yield '<section id="groups"><h2>Groups by trouble</h2>'
    if len(numbers) < len(groups):
        yield f'<p class="note">The {MOST_GROUPS} groups with the most trouble have a section below.</p>'
    lines: list[Line] = []
    for group in ranked:
        own = groups[group]
        ranks = Counter(row["severity"] for row in own["findings"])
        stops = [row["stw_ms_max"] for row in own["rebalances"] if row["stw_ms_max"] is not None]
        lags = [row["lag"] for row in own["offset_commits"] if row["lag"] is not None and row["outcome"] == COMMITTED]
        title = titles[group]
        cells: list[Cell] = [
            link(f"group-{numbers[group]}", title) if group in numbers else title,
            *(ranks[severity] for severity in ("critical", "warning", "notice")),
            len({row["member_id"] for row in own["members"]}),
            len(own["rebalances"]),
            number(sum(stops)),
            number(max(stops, default=None)),
            sum(row["outcome"] == REFUSED for row in own["offset_commits"]),
            max(lags, default=None),
            len(own["violations"]),
            sum(row["count"] for row in own["errors"]),
        ]
        lines.append(("critical" if ranks["critical"] else "warning" if ranks["warning"] else "", cells))
    head = "group|critical|warning|notice|members|rebalances|stopped, ms|longest stop, ms|refused commits|largest lag"
    yield table("overview", f"{head}|violations|errors".split("|"), lines, name="Groups by trouble") + "</section>"
