"""Experiments with rebalance schemes: notifications per change, the effect of stale data, and the delay caused by a
slow member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.history.comparison import SCHEMES, Run
from mockbroker.lab.history.ledger import Overlap
from mockbroker.lab.history.scheme import BROKER
from mockbroker.lab.history.story import CRASH, GROW, JOIN, LAG, LEAVE, Step, Story

RESTED = 40.0  # seconds after which every group is stable
GROUP = "A"
SIZES = (2, 5, 10, 15, 20)  # members of a group
LAGS = (0.0, 1.0, 2.0, 3.0, 8.0)  # seconds of a ZooKeeper server's lag
BUSY = (0.0, 1.0, 2.0, 3.0, 5.0)  # seconds that a member does not poll


def settled(scheme: str, members: int, partitions: int) -> Run:
    """Return a simulation in which the group is stable under a scheme: the consumers ``c01``, ``c02``, ... read the
    topic ``t``.

    The story also has a consumer ``c00``, which is not started. Its name sorts before the names of the group members.

    Args:
        scheme: name of the scheme.
        members: number of consumers in the group.
        partitions: number of partitions of the topic.
    """
    names = [f"c{number:02}" for number in range(1, members + 1)]
    steps = tuple(Step(1.0, JOIN, name) for name in names)
    story = Story(topics={"t": partitions}, groups=dict.fromkeys([*names, "c00"], GROUP), steps=steps, end=RESTED)
    run = Run(SCHEMES[scheme], story)
    for step in steps:
        run.do(step)
    run.until(RESTED)
    assert run.ledger.whole
    return run


CHANGES = (JOIN, LEAVE, CRASH, GROW, BROKER)  # values of ``change`` in herd()


def herd(scheme: str, members: int, change: str) -> int:
    """Return the number of watch notifications that one change in a group causes (herd effect).

    Args:
        scheme: name of the scheme.
        members: number of members in the group.
        change: kind of the change, one of CHANGES.
    """
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
    """The cost of a join while a ZooKeeper server returns stale data (split brain).

    Attributes:
        unread: partition-seconds without a reader.
        double: partition-seconds with two readers.
        overlaps: intervals with two readers.
    """

    unread: float
    double: float
    overlaps: tuple[Overlap, ...]


def split(scheme: str, lag: float) -> Split:
    """Return the cost of a join while a ZooKeeper server lags.

    Four members read four partitions; one of the members is connected to the lagging server. A fifth member joins, so
    that every partition moves. The server lags until the end of the experiment.

    Args:
        scheme: name of the scheme.
        lag: delay of messages between the server and the leader of the ensemble, seconds.
    """
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
    """Return the cost of a join while one of four members does not poll.

    The cost is the number of partition-seconds without a reader, counted while the last reader of the partition is
    still running.

    Args:
        scheme: name of the scheme.
        seconds: time for which the member does not poll, seconds.
    """
    run = settled(scheme, 4, 8)
    before = run.ledger.stopped
    run.scheme.busy("c02", seconds)
    run.do(Step(RESTED + 0.1, JOIN, "c00"))
    run.until(2 * RESTED)
    assert run.ledger.whole
    return run.ledger.stopped - before


@dataclass(frozen=True, slots=True)
class Experiments:
    """The results of all experiments. In each attribute, the first key is the name of the scheme.

    Attributes:
        herds: scheme -> group size -> number of watch notifications when a topic gets partitions.
        splits: scheme -> lag in seconds -> cost of stale data.
        slows: scheme -> seconds for which a member does not poll -> partition-seconds without a reader.
    """

    herds: Mapping[str, Mapping[int, int]]
    splits: Mapping[str, Mapping[float, Split]]
    slows: Mapping[str, Mapping[float, float]]


def experiments(schemes: Iterable[str]) -> Experiments:
    """Run all experiments under the named schemes, and return the results. This takes some seconds."""
    names = list(schemes)
    return Experiments(
        herds={name: {size: herd(name, size, GROW) for size in SIZES} for name in names},
        splits={name: {lag: split(name, lag) for lag in LAGS} for name in names},
        slows={name: {seconds: slow(name, seconds) for seconds in BUSY} for name in names},
    )
