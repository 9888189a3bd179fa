"""The HTML page of the comparison of rebalance schemes: one file with tables and SVG charts, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from kwire.analysis.report.style import STYLE
from mockbroker.lab.history.comparison import COLUMNS, MEANING, Measured
from mockbroker.lab.history.experiments import BUSY, LAGS, SIZES, Experiments
from mockbroker.lab.history.ledger import Place
from mockbroker.lab.history.story import GROW, Story

WIDTH, LEFT, ROW = 1000, 120, 9  # pixels: width of the time axis, width of the labels, height of a partition's row
CHART = 220  # pixels, the height of the chart
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
LOOK = """
svg text { font: 11px system-ui, sans-serif }
svg { display: block }
.unowned { fill: var(--gap) }
.overlap { fill: var(--stop); stroke: var(--text); stroke-width: .5 }
.moment { stroke: var(--text); stroke-width: .5; stroke-dasharray: 2 2 }
.line { fill: none; stroke-width: 2 }
"""


def save(path: Path, story: Story, measured: Sequence[Measured], tried: Experiments) -> None:
    """Write the HTML page of a comparison to a file. Raises: OSError if the file cannot be written.

    Args:
        path: the file.
        story: story of all runs.
        measured: measured cost under each scheme.
        tried: results of the experiments.
    """
    path.write_text(page(story, measured, tried), "utf-8")


def page(story: Story, measured: Sequence[Measured], tried: Experiments) -> str:
    """Return the HTML page of a comparison.

    Args:
        story: story of all runs.
        measured: measured cost under each scheme.
        tried: results of the experiments.
    """
    title = "Ways to rebalance" + (f", seed {story.seed}" if story.seed is not None else "")
    body = "\n".join(_body(title, story, measured, tried))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>{escape(title)}</title>'
        f"<style>{STYLE}{LOOK}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _body(title: str, story: Story, measured: Sequence[Measured], tried: Experiments) -> Iterator[str]:
    yield f"<header><h1>{escape(title)}</h1>"
    yield f'<p id="summary">{len(story.groups)} consumers, {len(story.steps)} steps, {story.end:g} s.</p></header>'
    yield "<main>"
    yield _table("schemes", [name for name, _ in COLUMNS], [[cell(each) for _, cell in COLUMNS] for each in measured])
    yield f'<p class="note">{escape(MEANING)}</p>'
    yield "<h2>The readers of each partition</h2>"
    yield (
        '<p class="note">A row for each partition of each group, a colour for each consumer. Pale red: no reader. Red: '
        "two consumers at once. Dashed: a step of the story.</p>"
    )
    for each in measured:
        yield f"<h3>{escape(each.scheme)}</h3>"
        yield _lanes(story, each)
        rows = [
            [f"{c.at:g}", c.what, c.messages, c.notifications, c.rebalances, c.moved, _seconds(c.settled)]
            for c in each.changes
        ]
        heads = ["at s", "step", "messages", "notifications", "rebalances", "moved", "settled in s"]
        yield _table(f"changes {each.scheme}", heads, rows)
    yield "<h2>One change, and how many clients are notified</h2>"
    yield '<p class="note">Notifications of watches when a topic grows, by members of the group.</p>'
    yield _chart(tried.herds)
    yield _scheme_table("herd", "members", SIZES, {name: list(line.values()) for name, line in tried.herds.items()})
    yield "<h2>A ZooKeeper server with old data</h2>"
    yield (
        '<p class="note">A consumer joins while one ZooKeeper server lags: partition-seconds without a reader, and '
        "with two readers. The session timeout is 6 s.</p>"
    )
    splits = {
        name: [f"{one.unread:.2f} / {one.double:.2f}" for one in line.values()] for name, line in tried.splits.items()
    }
    yield _scheme_table("split", "lag in s", LAGS, splits)
    yield "<h2>The wait for a slow consumer</h2>"
    yield (
        '<p class="note">A consumer joins while another one processes records: partition-seconds without a reader, '
        "although the last reader of the partition is still running.</p>"
    )
    slows = {name: [f"{seconds:.2f}" for seconds in line.values()] for name, line in tried.slows.items()}
    yield _scheme_table("slow", "busy for s", BUSY, slows) + "</main>"


def _scheme_table(name: str, what: str, values: Sequence[float], lines: Mapping[str, Sequence[object]]) -> str:
    """Return an HTML table with a row for each scheme. The first column has the name of the scheme.

    Args:
        name: CSS class of the table.
        what: heading of the first column.
        values: headings of all other columns.
        lines: scheme -> cells of its row, without the first column.
    """
    heads = [what, *(f"{value:g}" for value in values)]
    return _table(name, heads, [[scheme, *line] for scheme, line in lines.items()])


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f}"


def _table(name: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    lines = ("".join(_cell(cell) for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    inside = f'<table class="{escape(name)}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return _scrolled(f"table of {name}", inside)


def _scrolled(name: str, inside: str) -> str:
    """Return an HTML element that scrolls sideways.

    Args:
        name: name of the element for screen readers (``aria-label``).
        inside: HTML content of the element.
    """
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(name)}">{inside}</div>'


def _cell(value: object) -> str:
    text = str(value)
    number = ' class="n"' if text[:1].isdigit() else ""
    return f"<td{number}>{escape(text)}</td>"


# --- the readers of each partition ---


def _lanes(story: Story, scheme: Measured) -> str:
    groups = sorted(set(story.groups.values()))
    places = [(group, place) for group in groups for place in _places(story)]
    rows = {key: number * ROW + groups.index(key[0]) * ROW for number, key in enumerate(places)}
    height = (len(places) + len(groups)) * ROW + 20
    hues = {name: round(40 + 290 * number / len(story.groups)) for number, name in enumerate(story.groups)}  # no red

    def bar(kind: str, row: float, begin: float, end: float, title: str, fill: str = "") -> str:
        x, width = LEFT + begin / story.end * WIDTH, (end - begin) / story.end * WIDTH
        style = f' style="fill: {fill}"' if fill else ""
        return (
            f'<rect class="{kind}" x="{x:.2f}" y="{row}" width="{max(width, 0.1):.2f}" height="{ROW - 1}"{style}>'
            f"<title>{escape(title)}</title></rect>"
        )

    parts: list[str] = []
    for (group, place), y in rows.items():
        parts.append(bar("unowned", y, _exists_from(story, place), story.end, f"{place[0]}-{place[1]} of {group}"))
    for band in scheme.bands:
        title = f"{band.reader} reads {band.place[0]}-{band.place[1]} from {band.begin:.2f} s to {band.end:.2f} s"
        fill = f"hsl({hues[band.reader]} 50% 60%)"
        parts.append(bar("band", rows[band.group, band.place], band.begin, band.end, title, fill))
    for overlap in scheme.overlaps:
        title = f"{' and '.join(overlap.readers)} from {overlap.begin:.2f} s to {overlap.end:.2f} s"
        parts.append(bar("overlap", rows[overlap.group, overlap.place], overlap.begin, overlap.end, title))
    for change in scheme.changes:
        x = LEFT + change.at / story.end * WIDTH
        parts.append(
            f'<line class="moment" x1="{x:.2f}" x2="{x:.2f}" y1="0" y2="{height - 20}">'
            f"<title>{escape(change.what)}</title></line>"
        )
        parts.append(f'<text x="{x:.2f}" y="{height - 6}">{change.at:g} s</text>')
    for (group, (topic, number)), y in rows.items():
        if number == 0:
            parts.append(f'<text x="0" y="{y + ROW}">{escape(group)}: {escape(topic)}</text>')
    wide = LEFT + WIDTH + 40
    drawn = f'<svg class="lanes {escape(scheme.scheme)}" width="{wide}" height="{height}">{"".join(parts)}</svg>'
    return _scrolled(f"lanes of {scheme.scheme}", drawn)


def _places(story: Story) -> list[Place]:
    """Return all partitions of a story, with those that a topic gets later, as (topic, number)."""
    counts = dict(story.topics)
    counts |= {step.name: int(step.value) for step in story.steps if step.kind == GROW}
    return [(topic, number) for topic, count in sorted(counts.items()) for number in range(count)]


def _exists_from(story: Story, place: Place) -> float:
    """Return the virtual time in seconds from which a partition exists.

    For a partition that exists at the start of the story, this is the time of the first step.

    Args:
        story: the story.
        place: the partition, as (topic, number).
    """
    topic, number = place
    growth = (step.at for step in story.steps if step.kind == GROW and step.name == topic and step.value > number)
    return story.steps[0].at if number < story.topics[topic] else min(growth)


# --- a line for each scheme ---


def _chart(herds: Mapping[str, Mapping[int, int]]) -> str:
    most = max((count for line in herds.values() for count in line.values()), default=0) or 1
    widest = max((size for line in herds.values() for size in line), default=0) or 1
    parts = [
        f'<line class="axis" x1="{LEFT}" x2="{LEFT + WIDTH / 2}" y1="{CHART}" y2="{CHART}"/>',
        f'<line class="axis" x1="{LEFT}" x2="{LEFT}" y1="10" y2="{CHART}"/>',
        f'<text x="{LEFT - 30}" y="16">{most}</text><text x="{LEFT + WIDTH / 2}" y="{CHART + 14}">{widest}</text>',
    ]
    for number, (name, line) in enumerate(herds.items()):
        points = [
            (LEFT + size / widest * WIDTH / 2, CHART - count / most * (CHART - 10))
            for size, count in sorted(line.items())
        ]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        stroke = f"hsl({round(360 * number / len(herds))} 55% 45%)"
        x, y = points[-1]
        parts.append(f'<polyline class="line {escape(name)}" style="stroke: {stroke}" points="{drawn}"/>')
        parts.append(f'<text x="{x + 8:.1f}" y="{y - 12 * (len(herds) - number - 1) + 4:.1f}">{escape(name)}</text>')
    return _scrolled(
        "chart of notifications",
        f'<svg class="herd" width="{LEFT + WIDTH}" height="{CHART + 20}">{"".join(parts)}</svg>',
    )
