"""The base class of invariant checkers, with the methods that the simulation calls, and the error for a violation."""

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
Offsets: TypeAlias = Mapping[str, Mapping[int, int]]  # topic -> partition -> offset


class Broken(Exception):
    """A violated invariant.

    Attributes:
        name: name of the invariant, I1 to I19.
        text: description of the violation.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


class Watcher:
    """The base class of invariant checkers. A checker overrides the methods that it needs. It never changes the broker.

    All times are times on the broker's clock, in seconds.

    Attributes:
        name: name of the invariant.
    """

    name = ""

    def broken(self, text: str) -> Broken:
        """Return the exception for a violation. ``text``: description of the violation."""
        return Broken(self.name, text)

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Called before a request is handled."""

    def journaled(self, broker: Broker, event: Event) -> None:
        """Called after the broker added an event to its journal."""

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        """Called when a request has a response, which may still wait for the disk."""

    def handled(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Called after a request, or a slice of it, was handled. The request may still be pending."""

    def resumed(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Called before the next slice of a request is handled. After the slice, ``handled`` is called."""

    def stored(self, broker: Broker, call: Call[Any], offsets: Offsets, now: float) -> None:
        """Called when the journal contains a stored commit, or a slice of it. The response follows later."""

    def ticked(self, broker: Broker, now: float) -> None:
        """Called after all due deadlines were handled."""

    def acknowledged(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        """Called when a response is sent to the client. The changes that the request made are synced."""

    def closed(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Called when the connection of a pending request was closed."""

    def stalled(self, seconds: float) -> None:
        """Called when the event loop of the broker blocks for ``seconds``, or its clock jumps by ``seconds``."""

    def crashed(self, broker: Broker, now: float) -> None:
        """Called when the process has crashed, which lost its memory and some unsynced bytes."""

    def restarted(self, broker: Broker, now: float) -> None:
        """Called after the process has restarted with the state on its disk."""

    def inspect(self, broker: Broker, now: float) -> None:
        """Called repeatedly during a run, and in its last phases. The checker inspects the whole state."""

    def healed(self, broker: Broker, now: float) -> None:
        """Called after the last fault, once all groups have had time to become stable."""

    def emptied(self, broker: Broker, now: float) -> None:
        """Called when all clients have stopped and all their timeouts have expired."""


def is_away(broker: Broker, group_id: str) -> bool:
    """Return whether a group has no active coordinator.

    Its partition of __consumer_offsets has no leader, or the leader is still loading it.
    """
    partition = broker.cluster.topics[OFFSETS_TOPIC].partition_of(group_id)
    return (
        partition.leader == NO_LEADER
        or partition.index in broker.loading
        or partition.leader not in broker.cluster.nodes
        or LossDue(partition.leader) in broker.deadlines
    )


HOOKS = (
    "before", "journaled", "answered", "handled", "ticked", "acknowledged", "closed", "crashed", "restarted", "inspect",
    "healed", "emptied", "stalled", "resumed", "stored",
)  # fmt: skip


class Watchers:
    """All checkers of a run. An event is passed only to the checkers that override the method for it."""

    def __init__(self, watchers: Iterable[Watcher]) -> None:
        checkers = list(watchers)
        self._hooks: dict[str, list[Callable[..., None]]] = {
            name: [getattr(each, name) for each in checkers if getattr(type(each), name) is not getattr(Watcher, name)]
            for name in HOOKS
        }
        self.before = self._hooks["before"]
        self.journaled = self._hooks["journaled"]
        self.answered = self._hooks["answered"]
        self.handled = self._hooks["handled"]
        self.acknowledged = self._hooks["acknowledged"]

    def notify(self, hook: str, *what: Any) -> None:
        for each in self._hooks[hook]:
            each(*what)


class Origins:
    """The origin of each response: the incarnation of the group, and the coordinator.

    A response that waits for the disk may be sent when its group is already deleted or has another coordinator.
    """

    def __init__(self) -> None:
        self._deleted: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._answers: dict[Ticket, tuple[int, int]] = {}

    def journaled(self, event: Event) -> None:
        if event.event == EventKind.DELETE:
            self._deleted[event.group] += 1
        elif event.event == EventKind.UNLOAD:
            self._left[event.group] += 1

    def answered(self, ticket: Ticket, group: str) -> None:
        self._answers[ticket] = self._deleted[group], self._left[group]

    def check_origin(self, ticket: Ticket, group: str) -> tuple[bool, bool]:
        """Remove a response from the record, and check its origin.

        Returns:
            Whether the group still is the same incarnation, and whether it also still has the same coordinator.
        """
        deleted, left = self._answers.pop(ticket, (-1, -1))
        lives = deleted == self._deleted[group]
        return lives, lives and left == self._left[group]

    def crashed(self) -> None:
        """Forget the responses that wait for the disk: after a crash they are never sent."""
        self._answers.clear()


def remove_group(entries: dict[tuple[str, int], V], group: str) -> dict[tuple[str, int], V]:
    """Remove and return all entries of a group. ``entries``: (group, generation) -> value."""
    return {key: entries.pop(key) for key in list(entries) if key[0] == group}
