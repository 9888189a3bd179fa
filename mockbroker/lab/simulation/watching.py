"""The base class of invariant checkers, with the methods that the simulation calls, and the error for a violation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.timers import LossDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.topics.model import NO_LEADER, OFFSETS_TOPIC

K = TypeVar("K")
V = TypeVar("V")
Offsets: TypeAlias = Mapping[str, Mapping[int, int]]  # topic -> partition -> offset


class Broken(Exception):
    """The error for a violated invariant.

    Attributes:
        name: name of the invariant, such as I1.
        text: description of the violation.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


class Watcher:
    """The base class of invariant checkers.

    A checker overrides the methods that it needs, and never changes the broker.

    All times are times on the broker's clock, in seconds.

    Attributes:
        name: name of the invariant, such as I1.
        apis: API keys of the requests for which ``before``, ``resumed``, ``handled``, ``answered`` and ``acknowledged``
            are called; None for all.
    """

    name = ""
    apis: Collection[int] | None = None

    def broken(self, text: str) -> Broken:
        """Return the exception for a violation. ``text``: description of the violation."""
        return Broken(self.name, text)

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Observe a request that the broker is about to handle.

        Args:
            broker: the cluster.
            call: the request.
            now: broker time, seconds.
        """

    def journaled(self, broker: Broker, event: Event) -> None:
        """Observe an event that the broker has added to its journal."""

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        """Observe a response that the broker has produced.

        The response may not be sent yet, because it waits for a disk sync.

        Args:
            broker: the cluster.
            call: the request.
            response: the response body.
            now: broker time, seconds.
        """

    def handled(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Observe a request of which the broker has handled a slice or everything. The request may still be pending.

        A slice is the part of a request that is handled before other requests get a turn.

        Args:
            broker: the cluster.
            call: the request.
            now: broker time, seconds.
        """

    def resumed(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Observe a request of which the broker is about to handle another slice.

        A slice is the part of a request that is handled before other requests get a turn. After the slice, ``handled``
        is called.

        Args:
            broker: the cluster.
            call: the request.
            now: broker time, seconds.
        """

    def stored(self, broker: Broker, call: Call[Any], offsets: Offsets, now: float) -> None:
        """Observe offsets that the broker has stored for a commit, as the journal reports.

        The response follows later.

        The offsets may be only a part of the commit: the slice that is handled before other requests get a turn.

        Args:
            broker: the cluster.
            call: the request.
            offsets: topic -> partition -> offset.
            now: broker time, seconds.
        """

    def due(self) -> None:
        """Observe that the broker is about to handle a due deadline, which may also continue a delayed request."""

    def ticked(self, broker: Broker, now: float) -> None:
        """Observe the state of the broker after all due deadlines were handled.

        Args:
            broker: the cluster.
            now: broker time, seconds.
        """

    def acknowledged(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        """Observe a response that is sent to the client. The changes of the request are already synced.

        Args:
            broker: the cluster.
            call: the request.
            response: the response body.
            now: broker time, seconds.
        """

    def closed(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Observe a pending request whose connection was closed.

        Args:
            broker: the cluster.
            call: the request.
            now: broker time, seconds.
        """

    def stalled(self, seconds: float) -> None:
        """Observe that the event loop of the broker blocks for ``seconds``, or that its clock jumps by ``seconds``."""

    def crashed(self, broker: Broker, now: float) -> None:
        """Observe a crash of the process: its memory and some unsynced bytes are lost.

        Args:
            broker: the cluster.
            now: broker time, seconds.
        """

    def restarted(self, broker: Broker, now: float) -> None:
        """Observe a restart of the process with the state on its disk.

        Args:
            broker: the cluster.
            now: broker time, seconds.
        """

    def replaced(self, broker: Broker, group_id: str) -> None:
        """Observe that an empty group was replaced by a group of another type.

        No event of the new group has occurred yet.

        Args:
            broker: the cluster.
            group_id: group id.
        """

    def inspect(self, broker: Broker, now: float) -> None:
        """Inspect the whole state of the broker.

        The simulation calls this method repeatedly during a run and in its last phases.

        Args:
            broker: the cluster.
            now: broker time, seconds.
        """

    def healed(self, broker: Broker, now: float) -> None:
        """Observe the broker after the last fault, when all groups have had enough time to become stable.

        Args:
            broker: the cluster.
            now: broker time, seconds.
        """

    def emptied(self, broker: Broker, now: float) -> None:
        """Observe the broker when all clients have stopped and all their timeouts have expired.

        Args:
            broker: the cluster.
            now: broker time, seconds.
        """


def is_away(broker: Broker, group_id: str) -> bool:
    """Return whether a group has no active coordinator.

    This is so if the group's partition of ``__consumer_offsets`` has no leader, or its leader is lost or is still
    loading the partition.

    Args:
        broker: the cluster.
        group_id: group id.
    """
    partition = broker.cluster.topics[OFFSETS_TOPIC].partition_of(group_id)
    return (
        partition.leader == NO_LEADER
        or partition.index in broker.loading
        or partition.leader not in broker.cluster.nodes
        or LossDue(partition.leader) in broker.deadlines
    )


def has_no_response(call: Call[Any]) -> bool:
    """Return whether a request (``call``) gets no response: Produce with acks=0."""
    return call.ticket.api_key == ApiKey.PRODUCE and call.request.acks == 0


HOOKS = (
    "before", "journaled", "answered", "handled", "ticked", "acknowledged", "closed", "crashed", "restarted", "inspect",
    "healed", "emptied", "stalled", "resumed", "stored", "replaced", "due",
)  # fmt: skip


class ByApi(dict[int, list[Callable[..., None]]]):
    """A hook of the invariant checkers, by API key: the methods to call for a request.

    Args:
        hook: name of the hook.
        checkers: the invariant checkers that have the hook.
    """

    def __init__(self, hook: str, checkers: list[Watcher]) -> None:
        self._hook = hook
        self._checkers = checkers

    def __missing__(self, api_key: int) -> list[Callable[..., None]]:
        checkers = [each for each in self._checkers if each.apis is None or api_key in each.apis]
        self[api_key] = methods = [getattr(each, self._hook) for each in checkers]
        return methods


class Watchers:
    """All invariant checkers of a run. An event is passed only to checkers that override the method for it.

    Args:
        watchers: the invariant checkers.
    """

    def __init__(self, watchers: Iterable[Watcher]) -> None:
        checkers = list(watchers)
        of_hook = {
            name: [each for each in checkers if getattr(type(each), name) is not getattr(Watcher, name)]
            for name in HOOKS
        }
        self._hooks: dict[str, list[Callable[..., None]]] = {
            name: [getattr(each, name) for each in some] for name, some in of_hook.items()
        }
        self.journaled = self._hooks["journaled"]
        self.before = ByApi("before", of_hook["before"])
        self.resumed = ByApi("resumed", of_hook["resumed"])
        self.handled = ByApi("handled", of_hook["handled"])
        self.answered = ByApi("answered", of_hook["answered"])
        self.acknowledged = ByApi("acknowledged", of_hook["acknowledged"])

    def notify(self, hook: str, *what: Any) -> None:
        for each in self._hooks[hook]:
            each(*what)


class Origins:
    """A record of responses that wait for the disk: whether the group of each response still exists.

    The record is necessary because the group may be deleted before the response is sent.
    """

    def __init__(self) -> None:
        self._deleted: Counter[str] = Counter()
        self._answers: dict[Ticket, int] = {}

    def journaled(self, event: Event) -> None:
        if event.event == EventKind.DELETE:
            self._deleted[event.group] += 1

    def replaced(self, group: str) -> None:
        """Record that an empty group was replaced by a group of another type."""
        self._deleted[group] += 1

    def answered(self, ticket: Ticket, group: str) -> None:
        self._answers[ticket] = self._deleted[group]

    def still_exists(self, ticket: Ticket, group: str) -> bool:
        """Remove a response from the record, and return whether its group still exists.

        A group that was deleted and created again counts as another group. The result is False for a response that is
        not in the record.

        Args:
            ticket: ticket of the request.
            group: group id.
        """
        return self._answers.pop(ticket, -1) == self._deleted[group]

    def crashed(self) -> None:
        """Remove all responses that wait for the disk: after a crash they are never sent."""
        self._answers.clear()


class GroupTypes:
    """A record of the types of groups. It detects when an empty group is replaced by a group of another type.

    Online migration also changes the type of groups, but does not count as replacement.
    """

    def __init__(self) -> None:
        self._types: dict[str, tuple[str, bool]] = {}  # group -> type, and whether the group was empty

    def begin(self, broker: Broker, group_id: str) -> None:
        """Store the type of a group, before a request is handled, for the next call of ``is_replaced``.

        Args:
            broker: the cluster.
            group_id: group id.
        """
        group = broker.groups.get(group_id)
        if group is None:
            self._types.pop(group_id, None)
        else:
            self._types[group_id] = group.type_name, group.empty

    def is_replaced(self, broker: Broker, group_id: str) -> bool:
        """Return whether a group was replaced since the last call of ``begin``. Each replacement is returned only once.

        Args:
            broker: the cluster.
            group_id: group id.
        """
        group, known = broker.groups.get(group_id), self._types.get(group_id)
        if group is None or known is None or known[0] == group.type_name:
            return False
        self._types[group_id] = group.type_name, False
        return known[1]


def remove_group(entries: dict[tuple[str, K], V], group: str) -> dict[tuple[str, K], V]:
    """Remove the entries of a group from ``entries``, and return them.

    Args:
        entries: (group id, generation or member id) -> value.
        group: group id.
    """
    return {key: entries.pop(key) for key in list(entries) if key[0] == group}
