"""What happens to the groups: one script of joins, leaves, crashes and growing topics, the same for every scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mockbroker.lab.simulation.dice import Dice

JOIN, LEAVE, CRASH, GROW, LAG = "join", "leave", "crash", "grow", "lag"
LAGGING = 2  # the server of ZooKeeper that lags, if one does
MOST_MEMBERS, MOST_PARTITIONS = 8, 24


@dataclass(frozen=True, slots=True)
class Step:
    """``at``: seconds. ``who``: a consumer; of GROW a topic; of LAG nothing.

    ``value``: of GROW how many partitions the topic has from now on, of LAG how many seconds messages take between one
    server of ZooKeeper and its leader.
    """

    at: float
    kind: str
    who: str = ""
    value: float = 0.0

    def __str__(self) -> str:
        match self.kind:
            case "grow":
                return f"{self.who} grows to {self.value:g} partitions"
            case "lag":
                return f"a ZooKeeper server lags {self.value:g} s" if self.value else "no server lags any more"
            case _:
                return f"{self.who} {self.kind}{'es' if self.kind == CRASH else 's'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """``groups``: by consumer; ``end``, ``session`` and ``heartbeat``: seconds. ``seed``: None of a story that is told.

    Every consumer reads all topics.
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
        Step(240.0, LAG, value=8.0),  # longer than a session: the leader gives up consumers that are alive
        Step(280.0, LAG),
        Step(320.0, JOIN, "c5"),
        Step(360.0, LAG, value=3.0),  # shorter: whoever is at that server sees old data, and is slow to write
        Step(380.0, JOIN, "c4"),
        Step(420.0, LEAVE, "c0"),
        Step(460.0, LAG),
        Step(480.0, CRASH, "c5"),
    ),
    end=520.0,
)


def drawn(seed: int, steps: int = 12) -> Story:
    """A story by chance: every consumer joins, leaves and crashes by turns, topics grow, a server lags now and then."""
    dice = Dice("history", seed)
    topics = {f"t{number}": dice.whole(1, 12) for number in range(dice.whole(1, 3))}
    names = [f"c{number}" for number in range(dice.whole(2, MOST_MEMBERS))]
    groups = {name: "A" if number < 2 or dice.chance(0.75) else "B" for number, name in enumerate(names)}
    counts, up, lag, now = dict(topics), dict.fromkeys(names[:2]), 0.0, 1.0
    found = [Step(now, JOIN, name) for name in up]
    for _ in range(steps):
        now = round(now + dice.between(20.0, 45.0), 1)
        kind = dice.pick([JOIN, JOIN, JOIN, LEAVE, CRASH, CRASH, GROW, LAG])
        away = [name for name in names if name not in up]
        if kind == LAG:
            lag = 0.0 if lag else round(dice.between(1.0, 12.0), 1)
            found.append(Step(now, LAG, value=lag))
        elif kind == GROW:
            topic = dice.pick(sorted(counts))
            counts[topic] = min(counts[topic] + dice.whole(1, 4), MOST_PARTITIONS)
            found.append(Step(now, GROW, topic, counts[topic]))
        elif away and (kind == JOIN or not up):
            name = dice.pick(away)
            up[name] = None
            found.append(Step(now, JOIN, name))
        elif up:
            name = dice.pick(list(up))
            del up[name]
            found.append(Step(now, LEAVE if kind == JOIN else kind, name))
    return Story(seed=seed, topics=topics, groups=groups, steps=tuple(found), end=now + 40.0)
