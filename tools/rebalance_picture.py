"""The picture of docs/rebalance.svg: which consumer reads which partition while consumers join, leave and crash.

    python tools/rebalance_picture.py > docs/rebalance.svg

The rebalances are real: scripted consumers of the classic protocol on mockbroker in virtual time, so that every run
draws the same picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from mockbroker.lab.history.comparison import Measured, measure
from mockbroker.lab.history.story import CRASH, JOIN, LEAVE, Step, Story

STORY = Story(
    topics={"orders": 6},
    groups={"worker-1": "billing", "worker-2": "billing", "worker-3": "billing"},
    steps=(
        Step(1.0, JOIN, "worker-1"),
        Step(10.0, JOIN, "worker-2"),
        Step(22.0, JOIN, "worker-3"),
        Step(36.0, LEAVE, "worker-2"),
        Step(48.0, CRASH, "worker-3"),
    ),
    end=64.0,
)
LABELS = {JOIN: "joins", LEAVE: "leaves", CRASH: "is killed"}
WIDTH, LEFT, TOP, ROW = 760, 80, 40, 22  # pixels: of the time axis, of the names beside it, above the rows, of a row
HUES = {"worker-1": 210, "worker-2": 35, "worker-3": 150}
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.idle { fill: #f6c6c2 }
.step { stroke: #24292f; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .idle { fill: #6e2a26 } .step { stroke: #e6edf3 } }
"""


def picture(story: Story, measured: Measured) -> str:
    """Return the SVG."""
    height = TOP + story.topics["orders"] * ROW + 64
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" role="img">'
        "<title>Partitions of a consumer group over time: joins, a leave and a crash</title>"
        f"<style>{STYLE}</style>\n" + "\n".join(_parts(story, measured)) + "\n</svg>\n"
    )


def _parts(story: Story, measured: Measured) -> Iterator[str]:
    partitions = story.topics["orders"]
    bottom = TOP + partitions * ROW
    for partition in range(partitions):
        y = TOP + partition * ROW
        yield f'<text x="4" y="{y + 15}">orders-{partition}</text>'
        yield _bar(story, y, story.steps[0].at, story.end, 'class="idle"', "no consumer reads this partition")
    for band in measured.bands:
        title = f"{band.reader} reads orders-{band.place[1]} from {band.begin:.1f} s to {band.end:.1f} s"
        fill = f'fill="hsl({HUES[band.reader]} 55% 55%)"'
        yield _bar(story, TOP + band.place[1] * ROW, band.begin, band.end, fill, title)
    for step in story.steps:
        x = _x(story, step.at)
        yield f'<line class="step" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{TOP - 14}">{step.name} {LABELS[step.kind]}</text>'
    for seconds in range(0, int(story.end) + 1, 10):
        yield f'<text x="{_x(story, seconds):.1f}" y="{bottom + 16}">{seconds} s</text>'
    for number, (name, hue) in enumerate(HUES.items()):
        x = LEFT + number * 110
        yield f'<rect x="{x}" y="{bottom + 32}" width="14" height="14" fill="hsl({hue} 55% 55%)"/>'
        yield f'<text x="{x + 20}" y="{bottom + 44}">{name}</text>'
    x = LEFT + len(HUES) * 110
    yield f'<rect class="idle" x="{x}" y="{bottom + 32}" width="14" height="14"/>'
    yield f'<text x="{x + 20}" y="{bottom + 44}">no consumer: a rebalance, or a session that has not expired yet</text>'


def _x(story: Story, seconds: float) -> float:
    return LEFT + seconds / story.end * WIDTH


def _bar(story: Story, y: float, begin: float, end: float, attributes: str, title: str) -> str:
    x, width = _x(story, begin), max((end - begin) / story.end * WIDTH, 0.1)
    rect = f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 2}" {attributes}>'
    return f"{rect}<title>{escape(title)}</title></rect>"


def main() -> None:
    print(picture(STORY, measure("classic", STORY)), end="")


if __name__ == "__main__":
    main()
