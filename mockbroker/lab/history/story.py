"""Stories: scripts of events that can be run with any rebalance scheme.

The events are joins, leaves, crashes, additional partitions of topics, and lagging ZooKeeper servers.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.simulation.dice import Dice

JOIN, LEAVE, CRASH, GROW, LAG = "join", "leave", "crash", "grow", "lag"
LAGGING = 2  # number of the ZooKeeper server that may lag
MOST_MEMBERS, MOST_PARTITIONS = 8, 24  # maximum numbers in a random story


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a story.

    Attributes:
        at: virtual time of the step, seconds.
        kind: kind of step: JOIN, LEAVE, CRASH, GROW or LAG.
        name: name of the consumer; for GROW, name of the topic; for LAG, "".
        value: for GROW, the new number of partitions. For LAG, the delay of messages between the ZooKeeper server
            LAGGING and the leader, seconds. For other kinds, 0.
    """

    at: float
    kind: str
    name: str = ""
    value: float = 0.0

    def __str__(self) -> str:
        match self.kind:
            case "grow":
                return f"{self.name} grows to {self.value:g} partitions"
            case "lag":
                return f"a ZooKeeper server lags {self.value:g} s" if self.value else "no server lags any more"
            case _:
                return f"{self.name} {self.kind}{'es' if self.kind == CRASH else 's'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A script of events that can be run with any rebalance scheme. Every consumer subscribes to all topics.

    Attributes:
        topics: topic name -> number of partitions at the start.
        groups: consumer name -> group id.
        steps: steps, in order of time.
        end: virtual time of the end, seconds.
        seed: seed of a random story; None for any other story.
        brokers: number of brokers.
        session: session timeout, seconds.
        heartbeat: heartbeat interval, seconds.
    """

    topics: Mapping[str, int]
    groups: Mapping[str, str]
    steps: tuple[Step, ...]
    end: float
    seed: int | None = None
    brokers: int = 3
    session: float = 6.0
    heartbeat: float = 2.0


DEFAULT = Story(
    topics={"orders": 12},
    groups={**{f"c{number}": "A" for number in range(6)}, "d0": "B", "d1": "B"},
    steps=(
        *(Step(1.0, JOIN, name) for name in ("c1", "c2", "c3", "c4", "d0", "d1")),
        Step(40.0, JOIN, "c0"),
        Step(80.0, LEAVE, "c3"),
        Step(120.0, CRASH, "c4"),
        Step(160.0, GROW, "orders", 16),
        Step(200.0, JOIN, "c3"),
        Step(240.0, LAG, value=8.0),  # longer than the session timeout: sessions of live consumers expire
        Step(280.0, LAG),
        Step(320.0, JOIN, "c5"),
        Step(360.0, LAG, value=3.0),  # shorter: clients of that server see stale data and write late
        Step(380.0, JOIN, "c4"),
        Step(420.0, LEAVE, "c0"),
        Step(460.0, LAG),
        Step(480.0, CRASH, "c5"),
    ),
    end=520.0,
)


def drawn(seed: int, steps: int = 12) -> Story:
    """Return a random story.

    Args:
        seed: seed of the random numbers.
        steps: maximum number of steps after the first joins.
    """
    dice = Dice("history", seed)
    topics = {f"t{number}": dice.whole(1, 12) for number in range(dice.whole(1, 3))}
    names = [f"c{number}" for number in range(dice.whole(2, MOST_MEMBERS))]
    groups = {name: "A" if number < 2 or dice.chance(0.75) else "B" for number, name in enumerate(names)}
    counts, up, lag, now = dict(topics), dict.fromkeys(names[:2]), 0.0, 1.0
    story_steps = [Step(now, JOIN, name) for name in up]
    for _ in range(steps):
        now = round(now + dice.between(20.0, 45.0), 1)
        kind = dice.pick([JOIN, JOIN, JOIN, LEAVE, CRASH, CRASH, GROW, LAG])
        away = [name for name in names if name not in up]
        if kind == LAG:
            lag = 0.0 if lag else round(dice.between(1.0, 12.0), 1)
            story_steps.append(Step(now, LAG, value=lag))
        elif kind == GROW:
            topic = dice.pick(sorted(counts))
            counts[topic] = min(counts[topic] + dice.whole(1, 4), MOST_PARTITIONS)
            story_steps.append(Step(now, GROW, topic, counts[topic]))
        elif away and (kind == JOIN or not up):
            name = dice.pick(away)
            up[name] = None
            story_steps.append(Step(now, JOIN, name))
        elif up:
            name = dice.pick(list(up))
            del up[name]
            story_steps.append(Step(now, LEAVE if kind == JOIN else kind, name))
    return Story(seed=seed, topics=topics, groups=groups, steps=tuple(story_steps), end=now + 40.0)
