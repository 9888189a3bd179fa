"""The comparison of rebalance schemes: it runs the same story with each scheme, and measures the cost of rebalances.

A scheme is a rebalance protocol; a story is a script of joins, leaves, crashes and other events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.history.assigning import Assigning
from mockbroker.lab.history.coordinated import ConsumerProtocol, Cooperative, Eager
from mockbroker.lab.history.drafted import Drafted
from mockbroker.lab.history.ledger import Band, Ledger, Overlap
from mockbroker.lab.history.scheme import Scheme
from mockbroker.lab.history.story import Step, Story
from mockbroker.lab.history.watching import Watching
from mockbroker.lab.simulation.queue import Queue
from mockbroker.lab.simulation.watching import Broken

SCHEMES: Mapping[str, type[Scheme]] = {
    each.name: each for each in (Watching, Assigning, Drafted, Eager, Cooperative, ConsumerProtocol)
}
"""Name of a scheme -> its class, in historical order."""


class Run:
    """The simulation of one story with one rebalance scheme. A story is a script of events of consumers and ZooKeeper.

    The simulation proceeds only when the caller advances the virtual time with ``until`` or ``do``.

    Args:
        kind: class of the rebalance scheme.
        story: the script of events.

    Attributes:
        story: the script of events.
        queue: the event queue, which has the virtual time.
        ledger: the record of the readers of all partitions.
        scheme: the rebalance scheme.
    """

    def __init__(self, kind: type[Scheme], story: Story) -> None:
        self.story = story
        self.queue = Queue()
        self.ledger = Ledger(self.queue, story.topics, set(story.groups.values()))
        self.scheme = kind(story, self.queue, self.ledger)

    def until(self, seconds: float) -> None:
        """Advance the virtual time to ``seconds``, running all events that are due until then."""
        while self.queue.next <= seconds:
            self.queue.step()
        self.queue.now = seconds

    def do(self, step: Step) -> None:
        """Advance the virtual time to the time of a step of the story, and then execute the step."""
        self.until(step.at)
        self.scheme.do(step)


@dataclass(frozen=True, slots=True)
class Change:
    """The cost of the steps of a story that happen at the same time, measured until the next step.

    Attributes:
        at: virtual time of the steps, seconds.
        what: description of the steps.
        messages: number of messages.
        notifications: number of ZooKeeper watch notifications.
        rebalances: number of computed assignments.
        moved: number of partitions that changed their reader.
        settled: seconds until every partition had exactly one reader; 0 if no reader changed; None if this never
            happened.
    """

    at: float
    what: str
    messages: int
    notifications: int
    rebalances: int
    moved: int
    settled: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """The measured cost of a whole story (script of joins, leaves and crashes) with one rebalance scheme.

    Attributes:
        scheme: name of the scheme.
        seed: seed of the story; None for the default story.
        messages: number of messages, including heartbeats.
        heartbeats: number of heartbeats and session pings.
        watchers: maximum number of ZooKeeper sessions with watches for groups.
        notifications: number of watch notifications.
        rebalances: number of computed assignments.
        moved: number of partitions that changed their reader.
        stopped: partition-seconds without a reader although the last reader is still running.
        unread: partition-seconds without a reader.
        double: partition-seconds with several readers, counted once per additional reader.
        changes: cost of each change.
        bands: intervals in which a consumer read a partition.
        overlaps: intervals in which a partition had several readers.
    """

    scheme: str
    seed: int | None
    messages: int
    heartbeats: int
    watchers: int
    notifications: int
    rebalances: int
    moved: int
    stopped: float
    unread: float
    double: float
    changes: tuple[Change, ...]
    bands: tuple[Band, ...]
    overlaps: tuple[Overlap, ...]

    @property
    def settled(self) -> list[float]:
        """The values of ``Change.settled``, in seconds, without the values None and 0."""
        return [change.settled for change in self.changes if change.settled]

    @property
    def unsettled(self) -> int:
        """The number of changes that were not settled: the next change came before every partition had exactly one
        reader.
        """
        return sum(change.settled is None for change in self.changes)

    def line(self) -> dict[str, object]:
        """Return the measured values as a JSON object. All times are in seconds."""
        return {
            "scheme": self.scheme,
            "seed": self.seed,
            "messages": self.messages,
            "heartbeats": self.heartbeats,
            "watchers": self.watchers,
            "notifications": self.notifications,
            "rebalances": self.rebalances,
            "moved": self.moved,
            "stopped_partition_seconds": round(self.stopped, 3),
            "unread_partition_seconds": round(self.unread, 3),
            "double_partition_seconds": round(self.double, 3),
            "double_reads": len(self.overlaps),
            "settle_mean_seconds": round(mean(self.settled), 3),
            "settle_longest_seconds": round(max(self.settled, default=0.0), 3),
            "unsettled": self.unsettled,
        }


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def measure(name: str, story: Story) -> Measured:
    """Run a story with a scheme and return the measured cost.

    Args:
        name: name of the scheme.
        story: the story.

    Raises: Broken if an invariant is violated, or a partition had two readers although the scheme must prevent this
    (``Scheme.exclusive``).
    """
    run = Run(SCHEMES[name], story)
    scheme, ledger = run.scheme, run.ledger
    changes: list[Change] = []
    watchers = 0
    moments = sorted({step.at for step in story.steps})
    for at, following in zip(moments, [*moments[1:], story.end], strict=True):
        run.until(at)
        steps = [step for step in story.steps if step.at == at]
        before = scheme.messages, scheme.notifications, scheme.rebalances, ledger.moved
        for step in steps:
            scheme.do(step)
        run.until(following)
        watchers = max(watchers, scheme.watchers)
        after = scheme.messages, scheme.notifications, scheme.rebalances, ledger.moved
        messages, notifications, rebalances, moved = (new - old for new, old in zip(after, before, strict=True))
        settled = max(ledger.changed - at, 0.0) if ledger.whole else None
        changes.append(Change(at, ", ".join(map(str, steps)), messages, notifications, rebalances, moved, settled))
    ledger.end()
    if scheme.exclusive and ledger.overlaps:
        raise Broken("one reader", f"under scheme {name} a partition had several readers: {ledger.overlaps[0]}")
    return Measured(
        scheme=name,
        seed=story.seed,
        messages=scheme.messages,
        heartbeats=scheme.heartbeats,
        watchers=watchers,
        notifications=scheme.notifications,
        rebalances=scheme.rebalances,
        moved=ledger.moved,
        stopped=ledger.stopped,
        unread=ledger.unread,
        double=ledger.double,
        changes=tuple(changes),
        bands=tuple(ledger.bands),
        overlaps=tuple(ledger.overlaps),
    )


MEANING = (
    "watchers: largest number of ZooKeeper sessions with watches for groups; moved: partitions that got another "
    "reader; stopped, unread, two readers: partition-seconds without a reader while the last one lives, without any "
    "reader, with more than one; settles in, at most: mean and longest seconds until every partition has one reader; "
    "never: changes that had not settled when the next one came"
)
COLUMNS = (
    ("scheme", lambda m: m.scheme),
    ("messages", lambda m: f"{m.messages:,}"),
    ("heartbeats", lambda m: f"{m.heartbeats:,}"),
    ("watchers", lambda m: f"{m.watchers:,}"),
    ("notifications", lambda m: f"{m.notifications:,}"),
    ("rebalances", lambda m: f"{m.rebalances:,}"),
    ("moved", lambda m: f"{m.moved:,}"),
    ("stopped", lambda m: f"{m.stopped:.1f}"),
    ("unread", lambda m: f"{m.unread:.1f}"),
    ("two readers", lambda m: f"{m.double:.1f}"),
    ("settles in", lambda m: f"{mean(m.settled):.2f}"),
    ("at most", lambda m: f"{max(m.settled, default=0.0):.2f}"),
    ("never", lambda m: f"{m.unsettled}"),
)


def table(measured: Sequence[Measured]) -> list[str]:
    """Return the lines of a text table: the headings, then one line for each scheme.

    ``measured``: measured costs, one element for each scheme.
    """
    rows = [[name for name, _ in COLUMNS], *([cell(each) for _, cell in COLUMNS] for each in measured)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(COLUMNS))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
