"""What a checker of an invariant sees of a run, and how it says that the invariant is broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from mockbroker.base.effects import Call, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.timers import LossDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.topics.model import NO_LEADER, OFFSETS_TOPIC

V = TypeVar("V")
Offsets: TypeAlias = Mapping[str, Mapping[int, int]]  # by topic and partition


class Broken(Exception):
    """An invariant does not hold. ``name``: I1 to I19, or what else went wrong."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


class Watcher:
    """Checkers override what they want to see; times are the broker's, in seconds. They look and never touch."""

    name = ""

    def broken(self, text: str) -> Broken:
        return Broken(self.name, text)

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        """A request is about to be handled."""

    def noted(self, broker: Broker, event: Event) -> None:
        """The broker wrote a line of its journal."""

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        """The broker has an answer, perhaps to a request that has waited."""

    def handled(self, broker: Broker, call: Call[Any], now: float) -> None:
        """A request, or a slice of it, was handled; it is answered, or waits."""

    def resumed(self, broker: Broker, call: Call[Any], now: float) -> None:
        """The next slice of a request is about to be handled; ``handled`` follows."""

    def stored(self, broker: Broker, call: Call[Any], offsets: Offsets, now: float) -> None:
        """A commit, or a slice of it, was stored, by the journal; its answer may come later."""

    def ticked(self, broker: Broker, now: float) -> None:
        """Everything that was due was done."""

    def acknowledged(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        """The answer leaves for the client, which may believe it from now on."""

    def closed(self, broker: Broker, call: Call[Any], now: float) -> None:
        """The connection of a request that waits for its answer is gone."""

    def stood(self, seconds: float) -> None:
        """The broker's loop stands still for so long, or its clock is so much ahead from now on."""

    def gone(self, broker: Broker, now: float) -> None:
        """The broker's memory is gone, with what was not synced; it is about to begin again."""

    def back(self, broker: Broker, now: float) -> None:
        """It has begun again, from its log."""

    def inspect(self, broker: Broker, now: float) -> None:
        """From time to time, at the whole state."""

    def healed(self, broker: Broker, now: float) -> None:
        """Nothing goes wrong any more, and everybody had the time to get over it."""

    def emptied(self, broker: Broker, now: float) -> None:
        """All clients have gone, and all their time-outs are over."""


def is_away(broker: Broker, group_id: str) -> bool:
    """True while no coordinator has the group: nobody leads its partition, or who does has not read it yet."""
    partition = broker.cluster.topics[OFFSETS_TOPIC].partition_of(group_id)
    return (
        partition.leader == NO_LEADER
        or partition.index in broker.loading
        or partition.leader not in broker.cluster.nodes
        or LossDue(partition.leader) in broker.waits
    )


HOOKS = (
    "before", "noted", "answered", "handled", "ticked", "acknowledged", "closed", "gone", "back", "inspect",
    "healed", "emptied", "stood", "resumed", "stored",
)  # fmt: skip


class Watchers:
    """All checkers of a run; each is asked only what it overrides."""

    def __init__(self, watchers: Iterable[Watcher]) -> None:
        found = list(watchers)
        self._hooks: dict[str, list[Callable[..., None]]] = {
            name: [getattr(each, name) for each in found if getattr(type(each), name) is not getattr(Watcher, name)]
            for name in HOOKS
        }
        self.before = self._hooks["before"]
        self.noted = self._hooks["noted"]
        self.answered = self._hooks["answered"]
        self.handled = self._hooks["handled"]
        self.acknowledged = self._hooks["acknowledged"]

    def notify(self, hook: str, *what: Any) -> None:
        for each in self._hooks[hook]:
            each(*what)


class Origins:
    """Which life of its group an answer comes from. One that waits for the disk may leave after the group was deleted,
    or after its coordinator lost it; it is then one of that group, and of that coordinator."""

    def __init__(self) -> None:
        self._deleted: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._answers: dict[Ticket, tuple[int, int]] = {}

    def noted(self, event: Event) -> None:
        if event.event == EventKind.DELETE:
            self._deleted[event.group] += 1
        elif event.event == EventKind.UNLOAD:
            self._left[event.group] += 1

    def answered(self, ticket: Ticket, group: str) -> None:
        self._answers[ticket] = self._deleted[group], self._left[group]

    def check_origin(self, ticket: Ticket, group: str) -> tuple[bool, bool]:
        """Whether the answer that leaves now comes from the group as it is, and from its coordinator of today."""
        deleted, left = self._answers.pop(ticket, (-1, -1))
        lives = deleted == self._deleted[group]
        return lives, lives and left == self._left[group]

    def gone(self) -> None:
        """What waited for the disk never leaves."""
        self._answers.clear()


def taken_out(told: dict[tuple[str, int], V], group: str) -> dict[tuple[str, int], V]:
    """What was told of a group, by group and generation; it is not among the rest any more."""
    return {key: told.pop(key) for key in list(told) if key[0] == group}
