"""Experiments, the same under every scheme: how many are told of one change, what old data does, who waits for a slow
one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mockbroker.lab.history.comparison import SCHEMES, Run
from mockbroker.lab.history.ledger import Overlap
from mockbroker.lab.history.scheme import BROKER
from mockbroker.lab.history.story import CRASH, GROW, JOIN, LAG, LEAVE, Step, Story

RESTED = 40.0  # seconds in which every group comes to rest
GROUP = "A"
SIZES = (2, 5, 10, 15, 20)  # of groups
LAGS = (0.0, 1.0, 2.0, 3.0, 8.0)  # seconds
BUSY = (0.0, 1.0, 2.0, 3.0, 5.0)  # seconds


def settled(scheme: str, members: int, partitions: int) -> Run:
    """A group of ``c01`` and so on that reads a topic ``t`` and is at rest. ``c00``, which stands before all, has not
    started."""
    names = [f"c{number:02}" for number in range(1, members + 1)]
    steps = tuple(Step(1.0, JOIN, name) for name in names)
    story = Story(topics={"t": partitions}, groups=dict.fromkeys([*names, "c00"], GROUP), steps=steps, end=RESTED)
    run = Run(SCHEMES[scheme], story)
    for step in steps:
        run.do(step)
    run.until(RESTED)
    assert run.ledger.whole
    return run


CHANGES = (JOIN, LEAVE, CRASH, GROW, BROKER)  # of herd


def herd(scheme: str, members: int, change: str) -> int:
    """Notifications of watches after one change, of CHANGES, in a group of so many members."""
    run = settled(scheme, members, members)
    before = run.scheme.notifications
    match change:
        case "join":
            run.do(Step(RESTED, JOIN, "c00"))
        case "grow":
            run.do(Step(RESTED, GROW, "t", members + 1))
        case "broker":
            run.scheme.registry.start(run.story.brokers)
        case _:
            run.do(Step(RESTED, change, "c01"))
    run.until(2 * RESTED)
    assert run.ledger.whole
    return run.scheme.notifications - before


@dataclass(frozen=True, slots=True)
class Split:
    """What old data cost: partition-seconds ``unread`` and ``double`` (with two readers), and each of the latter."""

    unread: float
    double: float
    overlaps: tuple[Overlap, ...]


def split(scheme: str, lag: float) -> Split:
    """Four members on four partitions, of whom one is at a server that lags from now on; then one more joins, which
    moves every partition, and the server goes on lagging until everything has come to rest."""
    run = settled(scheme, 4, 4)
    ledger = run.ledger
    before = ledger.unread, ledger.double
    run.do(Step(RESTED, LAG, value=lag))
    run.do(Step(RESTED + 1.0, JOIN, "c00"))
    run.until(4 * RESTED)
    ledger.end()
    assert ledger.whole
    return Split(ledger.unread - before[0], ledger.double - before[1], tuple(ledger.overlaps))


def slow(scheme: str, seconds: float) -> float:
    """Four members on eight partitions, of whom one is busy for so long; then one more joins. Partition-seconds that
    the others stood still."""
    run = settled(scheme, 4, 8)
    before = run.ledger.stopped
    run.scheme.busy("c02", seconds)
    run.do(Step(RESTED + 0.1, JOIN, "c00"))
    run.until(2 * RESTED)
    assert run.ledger.whole
    return run.ledger.stopped - before


@dataclass(frozen=True, slots=True)
class Experiments:
    """All of them, by scheme: ``herds`` by SIZES, of a topic that grows; ``splits`` by LAGS; ``slows`` by BUSY."""

    herds: Mapping[str, Mapping[int, int]]
    splits: Mapping[str, Mapping[float, Split]]
    slows: Mapping[str, Mapping[float, float]]


def experiments(schemes: Iterable[str]) -> Experiments:
    """Run them; some seconds."""
    names = list(schemes)
    return Experiments(
        herds={name: {size: herd(name, size, GROW) for size in SIZES} for name in names},
        splits={name: {lag: split(name, lag) for lag in LAGS} for name in names},
        slows={name: {seconds: slow(name, seconds) for seconds in BUSY} for name in names},
    )
