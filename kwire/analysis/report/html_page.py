"""Tables as one HTML page with charts.

The page contains plotly.js, so that it works offline (extra ``kwire[report]``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from kwire.analysis.columns import MS, Row, Tables
from kwire.analysis.report.by_group import apart, moment, names, restarts, worst_first
from kwire.analysis.report.style import STYLE
from kwire.analysis.transactions import COMMITTED

NEEDED = (
    "group_events",
    "rebalances",
    "members",
    "assignments",
    "offset_commits",
    "violations",
    "findings",
    "errors",
    "clients",
    "api_usage",
    "latency",
    "problems",
)

# Maximum numbers that browsers can still draw; the page reports what is left out.
MOST_GROUPS = 50
MOST_LANES = 200
MOST_POINTS = 2000  # points of one lag line
MOST_ROWS = 500  # rows of one table

COLORS = ("#4c78a8", "#72b7b2", "#54a24b", "#9d755d", "#b279a2", "#8c8c8c")  # of generations, cyclic
STOPPED = "#e45756"
BAND, ABOVE = (-0.25, 0.5), (-0.43, 0.16)  # offset and height of bars in a lane: a member may read during its stop
LAYOUT: dict[str, Any] = {"template": "none", "margin": {"l": 160, "r": 20, "t": 40, "b": 40}, "font": {"size": 12}}

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"

Figure = dict[str, Any]
Cell = str | int | float | None


def save(path: Path, tables: Tables, title: str) -> None:
    """Write the tables of a capture as one HTML page with charts. Raises: OSError if the file cannot be written.

    Args:
        path: file to write.
        tables: rows by table name.
        title: title of the page.
    """
    path.write_text(page(tables, title), "utf-8")


def page(tables: Tables, title: str) -> str:
    """Return the tables of a capture as one HTML page with charts. ``title``: title of the page."""
    from plotly.offline import get_plotlyjs

    body = "\n".join(_body(tables, title))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><script>{get_plotlyjs()}</script></head>\n<body>\n{body}\n</body></html>\n"
    )


def _body(tables: Tables, title: str) -> Iterator[str]:
    rebalances = tables["rebalances"]
    groups = apart(tables)
    busiest = sorted(groups, key=lambda group: -len(groups[group]["rebalances"]))[:MOST_GROUPS]
    shown = [group for group in groups if group in busiest]
    same = Counter(group_id for group_id, _ in groups)
    yield f"<h1>{escape(title)}</h1>"
    yield (
        f'<p id="summary">{len(groups)} groups, {len(rebalances)} rebalances, '
        f"{len(tables['violations'])} violations, {sum(row['count'] for row in tables['errors'])} errors. "
        "Times are UTC.</p>"
    )
    if len(shown) < len(groups):
        yield f'<p class="note">The {MOST_GROUPS} groups with the most rebalances are shown.</p>'
    yield from _findings(tables["findings"], {group: number for number, group in enumerate(shown)})
    for number, group in enumerate(shown):
        group_id, cluster = group
        title = f"{group_id} (cluster {cluster})" if same[group_id] > 1 else group_id
        yield from _group(groups[group], title, number)
    yield "<h2>APIs and versions</h2>"
    yield '<p class="note">Requests by version. Versions that Kafka 4 does not serve are marked with ✕.</p>'
    yield _chart("api-versions", api_versions(tables["api_usage"]))
    yield _clients(tables["clients"])
    yield "<h2>Latency</h2>"
    yield '<p class="note">Calls by API and latency, including waits that the client requested.</p>'
    yield _chart("latency", latency(tables["latency"]))
    yield _latency_table(tables["latency"])
    yield "<h2>Errors</h2>"
    yield _errors(tables["errors"])
    if tables["problems"]:
        yield "<h2>Not decoded</h2>"
        yield '<p class="note">Traffic that the numbers above do not include. Damage is marked.</p>'
        yield _problems(tables["problems"])


def _group(own: Tables, title: str, number: int) -> Iterator[str]:
    called = names(own["members"])
    yield f'<h2 class="group" id="group-{number}">{escape(title)}</h2>'
    end = max((row["ts"] for row in own["group_events"]), default=0)
    lanes = swim_lanes(own["members"], called, end)
    if lanes["data"]:
        yield (
            '<p class="note">A lane for each member: bands are generations, from the time it received its assignment; '
            "red above it is stop-the-world time: the partitions it then got were not read.</p>"
        )
        yield _chart(f"lanes-{number}", lanes)
        left_out = len(called) - MOST_LANES
        if left_out > 0:
            yield f'<p class="note">{left_out} more members are not drawn.</p>'
    yield _rebalances(own["rebalances"], called)
    yield _restarts(own, called)
    lines = lag_lines(own["offset_commits"])
    if lines["data"]:
        yield _chart(f"lag-{number}", lines)
    if own["violations"]:
        yield _violations(own["violations"], called)


# --- charts -------------------------------------------------------------------------------------------------------


def swim_lanes(members: Sequence[Row], called: dict[str, str], end: int) -> Figure:
    """Return a chart of each member's generations and stops over time.

    Args:
        members: rows of ``members``.
        called: display names by member id.
        end: time of the group's last event, in microseconds since 1970.
    """
    by_member: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(members, key=lambda row: (row["joined_ts"] or 0, row["generation"])):
        by_member[row["member_id"]].append(row)
    drawn = list(by_member.items())[:MOST_LANES]
    bands: dict[tuple[int, int], list[_Bar]] = defaultdict(list)
    stops: list[_Bar] = []
    for member, rows in drawn:
        for row, until in zip(rows, _ends(rows, end), strict=True):
            bar = partial(_Bar, called[member], generation=row["generation"])
            begin, stopped = row["resumed_ts"], row["stopped_ts"]
            if begin is not None and until > begin:
                bands[row["life"] or 1, row["generation"]].append(bar(begin, until))
            if stopped is not None:
                stops.append(bar(stopped, until, share=False) if begin is None else bar(stopped, begin))
    data = [
        _bars(bars, f"generation {generation}{f' of life {life}' if life > 1 else ''}", _color(generation), *BAND)
        for (life, generation), bars in sorted(bands.items())
    ]
    if stops:
        data.append(_bars(stops, "stopped", STOPPED, *ABOVE))
    lanes = [escape(called[member]) for member, _ in drawn]
    yaxis = {"type": "category", "categoryarray": lanes, "range": [len(lanes) - 0.5, -0.5], "automargin": True}
    axes = {"xaxis": {"type": "date"}, "yaxis": yaxis}
    height = 120 + 34 * len(lanes)
    return {"data": data, "layout": {**LAYOUT, **axes, "barmode": "overlay", "height": height, "showlegend": True}}


@dataclass(frozen=True, slots=True)
class _Bar:
    """A bar in the lane of a member. Times are microseconds since 1970.

    Attributes:
        lane: display name of the member.
        begin: start.
        until: end.
        generation: generation of the member.
        share: True if the bar ends at an assignment, False if it ends at the last event of the lane.
    """

    lane: str
    begin: int
    until: int
    generation: int
    share: bool = True

    @property
    def text(self) -> list[str]:
        """The tooltip of the bar: generation, start and duration."""
        open_end = "" if self.share else ", no assignment yet"
        return [str(self.generation), _clock(self.begin), f"{_duration(self.until - self.begin)}{open_end}"]


def _ends(rows: Sequence[Row], end: int) -> list[int]:
    """Return the end of each generation of a member, in microseconds since 1970.

    A generation ends at the member's next stop or next assignment, or when its membership ends.

    Args:
        rows: rows of ``members`` of one member, in order.
        end: time of the group's last event, in microseconds since 1970.
    """
    ends: list[int] = []
    later: int | None = None
    for row in reversed(rows):
        last: int | None = row["left_ts"]
        ends.append(min(one for one in (later, end if last is None else last) if one is not None))
        begins = _stops_reading(row)
        later = later if begins is None else begins
    return ends[::-1]


def _stops_reading(row: Row) -> int | None:
    """Return the time at which a member revoked its previous assignment, in microseconds since 1970; None if unknown.

    The stop in the row may begin earlier: it includes the time in which partitions of other members had no reader.
    """
    stopped: int | None = row["stopped_ts"]
    resumed: int | None = row["resumed_ts"]
    waited: float | None = row["join_ms"]
    if stopped is None or resumed is None or waited is None:
        return resumed if stopped is None else stopped
    return max(stopped, resumed - round(waited * MS))


def _bars(intervals: Iterable[_Bar], name: str, color: str, offset: float, width: float) -> Figure:
    bars = list(intervals)
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [escape(bar.lane) for bar in bars],
        "base": [moment(bar.begin) for bar in bars],
        "x": [(bar.until - bar.begin) / 1000 for bar in bars],
        "offset": offset,
        "width": width,
        "marker": {"color": color},
        "customdata": [bar.text for bar in bars],  # on an axis of dates x is a moment, never a duration
        "hovertemplate": "%{y}<br>%{customdata[1]} for %{customdata[2]}<extra>generation %{customdata[0]}</extra>",
    }


def _color(generation: int) -> str:
    return COLORS[generation % len(COLORS)]


def lag_lines(commits: Iterable[Row]) -> Figure:
    """Return a chart of the lag at each commit that took effect, by partition."""
    lines: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in commits:
        if row["lag"] is not None and row["outcome"] == COMMITTED:
            lines[row["topic"], row["partition"]].append(row)
    data = []
    for (topic, partition), commits in sorted(lines.items()):
        rows = commits[:: -(-len(commits) // MOST_POINTS)]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": escape(f"{topic}-{partition}"),
                "x": [moment(row["ts"]) for row in rows],
                "y": [row["lag"] for row in rows],
                "line": {"shape": "hv"},
            }
        )
    axes = {"xaxis": {"type": "date"}, "yaxis": {"title": {"text": "lag (records)"}, "rangemode": "tozero"}}
    return {"data": data, "layout": {**LAYOUT, **axes, "height": 300, "title": {"text": "Lag at commits"}}}


def api_versions(usage: Iterable[Row]) -> Figure:
    """Return a chart of the number of requests by API and version, from the rows of ``api_usage``."""
    counts: Counter[tuple[str, int]] = Counter()
    removed = set()
    for row in usage:
        counts[row["api_name"], row["api_version"]] += row["count"]
        if row["removed_in_4"]:
            removed.add((row["api_name"], row["api_version"]))
    apis = sorted({api for api, _ in counts}, reverse=True)
    versions = list(range(max((version for _, version in counts), default=-1) + 1))
    text = [[_count_text(counts, removed, (api, version)) for version in versions] for api in apis]
    return _heat_map(
        [f"v{version}" for version in versions],
        apis,
        [[counts[api, version] or None for version in versions] for api in apis],
        text,
    )


def _count_text(counts: Counter[tuple[str, int]], removed: set[tuple[str, int]], cell: tuple[str, int]) -> str:
    return f"{counts[cell]}{' ✕' if cell in removed else ''}" if counts[cell] else ""


def latency(rows: Iterable[Row]) -> Figure:
    """Return a chart of the number of calls by API and latency, from the rows of ``latency``."""
    counts: Counter[tuple[str, int]] = Counter()
    for row in rows:
        for power, count in (row["histogram"] or {}).items():
            counts[row["api_name"], power] += count
    apis = sorted({api for api, _ in counts}, reverse=True)
    powers = [power for _, power in counts]
    steps = list(range(min(powers), max(powers) + 1)) if powers else []
    cells = [[counts[api, power] or None for power in steps] for api in apis]
    return _heat_map(
        [_duration(2**power) for power in steps],
        apis,
        cells,
        [[str(count or "") for count in line] for line in cells],
    )


def _duration(micros: int) -> str:
    if micros < 1000:
        return f"{micros} µs"
    return f"{micros / 1000:.3g} ms" if micros < 1_000_000 else f"{micros / 1e6:.3g} s"


def _heat_map(x: list[str], y: list[str], cells: list[list[int | None]], text: list[list[str]]) -> Figure:
    data = {
        "type": "heatmap",
        "x": x,
        "y": y,
        "z": [[None if count is None else count.bit_length() for count in line] for line in cells],  # log scale
        "customdata": cells,
        "text": text,
        "texttemplate": "%{text}",
        "hovertemplate": "%{y} %{x}: %{customdata}<extra></extra>",
        "colorscale": [[0, "#e3eef9"], [1, "#08519c"]],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
    }
    axes = {"xaxis": {"type": "category", "side": "top"}, "yaxis": {"type": "category", "automargin": True}}
    return {"data": [data] if y else [], "layout": {**LAYOUT, **axes, "height": 90 + 24 * len(y)}}


def _chart(name: str, figure: Figure) -> str:
    from plotly.io import to_html

    made: str = to_html(
        figure,
        config={"displaylogo": False, "responsive": True},
        include_plotlyjs=False,
        full_html=False,
        default_height=f"{figure['layout']['height']}px",
        div_id=name,
    )
    return made


# --- tables -------------------------------------------------------------------------------------------------------


def _rebalances(rows: Sequence[Row], called: dict[str, str]) -> str:
    lines = []
    for row in rows:
        by = called.get(row["trigger_member"], row["trigger_client"] or "")
        to = "?" if row["to_generation"] is None else row["to_generation"]
        cells: list[Cell] = [
            _clock(row["started_ts"]),
            to,
            row["trigger"],
            by,
            row["trigger_evidence"],
            _number(row["duration_ms"]),
            _number(row["stw_ms_max"]),
            _number(row["stw_ms_avg"]),
            row["stw_kind"],
            row["partitions_moved"],
            None if row["members_before"] is None else len(row["members_before"]),
            None if row["members_after"] is None else len(row["members_after"]),
            "yes" if row["incomplete"] else "",
        ]
        lines.append(("inferred" if row["trigger_confidence"] == "inferred" else "", cells))
    head = (
        "started|generation|trigger|by|evidence|lasted, ms|stopped at most, ms|on average, ms|kind|moved|members before"
    )
    return _table("rebalances", f"{head}|after|incomplete".split("|"), lines)


def _restarts(own: Tables, called: dict[str, str]) -> str:
    lines: list[tuple[str, list[Cell]]] = [
        (
            "",
            [
                row["ts"][11:23],
                row["generation"],
                row["trigger"],
                called.get(row["trigger_member"], row["trigger_client"] or ""),
                row["trigger_evidence"],
                _number(row["stw_ms"]),
            ],
        )
        for row in restarts(own)
    ]
    head = ["back at", "generation", "trigger", "by", "evidence", "away, ms"]
    return _table("restarts", head, lines) if lines else ""


def _findings(rows: Sequence[Row], numbers: Mapping[tuple[str, str | None], int]) -> Iterator[str]:
    """Yield the table of findings, worst first.

    Args:
        rows: rows of ``findings``.
        numbers: numbers of the groups that are shown, by group and cluster; findings are linked to them.
    """
    if not rows:
        return
    yield "<h2>Findings</h2>"
    yield '<p class="note">Trouble that detectors recognised, worst first, with the rows of tables that show it.</p>'
    lines = []
    for row in worst_first(rows)[:MOST_ROWS]:
        number = numbers.get((row["group_id"], row["cluster"]))
        name = escape(row["group_id"] or row["client_id"] or "")
        about = name if number is None else f'<a href="#group-{number}">{name}</a>'
        more = f" and {row['evidence_count'] - len(row['evidence'])} more"
        seen = escape("; ".join(row["evidence"])) + (more if row["evidence_count"] > len(row["evidence"]) else "")
        cells = [_cell(row["severity"]), _cell(row["finding"]), f"<td>{about}</td>", _cell(_clock(row["begin_ts"]))]
        cells += [_cell(_clock(row["end_ts"])), _cell(row["sentence"]), f'<td class="seen">{seen}</td>']
        lines.append(f'<tr class="{escape(row["severity"])}">{"".join(cells)}</tr>')
    titles = "".join(f"<th>{title}</th>" for title in ("severity", "finding", "about", "from", "to", "", "seen in"))
    body = "\n".join(lines)
    yield f'<table class="findings"><thead><tr>{titles}</tr></thead><tbody>\n{body}\n</tbody></table>'
    if len(rows) > MOST_ROWS:
        yield f'<p class="note">{len(rows) - MOST_ROWS} more rows.</p>'


def _violations(rows: Sequence[Row], called: dict[str, str]) -> str:
    lines: list[tuple[str, list[Cell]]] = [
        (
            "warn",
            [
                _clock(row["ts"]),
                row["kind"],
                called.get(row["member_id"], row["client_id"] or ""),
                row["topic"],
                row["partition"],
                row["detail"],
            ],
        )
        for row in rows
    ]
    return _table("violations", ["seen", "violation", "member", "topic", "partition", "what was seen"], lines)


def _clients(rows: Sequence[Row]) -> str:
    lines: list[tuple[str, list[Cell]]] = [
        (
            "warn" if row["calls_removed_in_4"] else "",
            [
                row["client_id"],
                row["host"],
                row["software_name"],
                row["software_version"],
                row["connections"],
                row["calls"],
                row["calls_removed_in_4"],
            ],
        )
        for row in rows
    ]
    head = ["client", "host", "software", "version", "connections", "requests", "in versions that Kafka 4 removed"]
    return _table("clients", head, lines)


def _latency_table(rows: Iterable[Row]) -> str:
    by_api: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_api[row["api_name"]].append(row)
    lines: list[tuple[str, list[Cell]]] = [
        (
            "",
            [
                api,
                sum(row["n"] for row in own),
                _number(max(row["p50_ms"] for row in own)),
                _number(max(row["p99_ms"] for row in own)),
                _number(max(row["max_ms"] for row in own)),
            ],
        )
        for api, own in sorted(by_api.items())
    ]
    head = ["API", "calls", "p50 of the worst minute, ms", "p99 of the worst minute, ms", "longest, ms"]
    return _table("latencies", head, lines)


def _errors(rows: Sequence[Row]) -> str:
    lines: list[tuple[str, list[Cell]]] = [
        (
            "",
            [
                row["api_name"],
                row["error_name"],
                row["client_id"],
                row["group_id"],
                row["topic"],
                row["partition"],
                row["count"],
            ],
        )
        for row in rows
    ]
    return _table("errors", ["API", "error", "client", "group", "topic", "partition", "count"], lines)


def _problems(rows: Sequence[Row]) -> str:
    lines: list[tuple[str, list[Cell]]] = [
        (
            "warn" if row["error"] else "",
            [
                row["file"] or f"{row['client']} to {row['broker']}",
                row["position"],
                row["error"] or row["note"],
            ],
        )
        for row in rows
    ]
    return _table("problems", ["file or connection", "at byte", "what"], lines)


def _number(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _clock(ts: int) -> str:
    """Return a time as date and time of day in UTC, to milliseconds. ``ts``: microseconds since 1970."""
    return (moment(ts) or "")[:23].replace("T", " ")


def _table(kind: str, head: Sequence[str], lines: Sequence[tuple[str, list[Cell]]]) -> str:
    rows = [f'<tr class="{style}">{"".join(_cell(cell) for cell in cells)}</tr>' for style, cells in lines[:MOST_ROWS]]
    more = f'<p class="note">{len(lines) - MOST_ROWS} more rows.</p>' if len(lines) > MOST_ROWS else ""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    return (
        f'<table class="{kind}"><thead><tr>{titles}</tr></thead><tbody>\n{chr(10).join(rows)}\n</tbody></table>{more}'
    )


def _cell(value: Cell) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    return f'<td class="n">{value}</td>'
