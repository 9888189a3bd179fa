"""The checker of invariant I15: a request for one group changes no other group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call
from mockbroker.broker.broker import Broker
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.streams.state import StreamsGroup
from mockbroker.lab.simulation.watching import Watcher

# Requests that end transactions, and so change all groups with pending offsets; an election moves groups to other
# coordinators.
OF_MANY_GROUPS = (
    ApiKey.END_TXN,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ELECT_LEADERS,
)


class OthersUntouched(Watcher):
    """The checker of invariant I15: a request for one group changes no other group.

    Before and after each request, the checker computes fingerprints of all groups that the request is not for, and
    compares them. The fingerprints after a request are used again as the fingerprints before the next request, unless a
    deadline, a crash or a restart came between the two requests.
    """

    name = "I15"

    def __init__(self) -> None:
        self._prints: dict[str, tuple[object, ...]] = {}
        self._are_current = False

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        if call.ticket.api_key not in OF_MANY_GROUPS:
            mine, groups = _group_of(call.request), broker.groups
            prints = self._prints if self._are_current else {}
            prints.pop(mine, None)
            if mine in groups or prints.keys() != groups.keys():
                prints = {
                    name: prints.get(name) or _fingerprint(group) for name, group in groups.items() if name != mine
                }
            self._prints, self._are_current = prints, False

    def resumed(self, broker: Broker, call: Call[Any], now: float) -> None:
        self.before(broker, call, now)

    def handled(self, broker: Broker, call: Call[Any], now: float) -> None:
        if call.ticket.api_key in OF_MANY_GROUPS:
            self._are_current = False
            return
        groups = broker.groups
        for name, before in self._prints.items():
            group = groups.get(name)
            if group is None or _fingerprint(group) != before:
                raise self.broken(f"group {name} was changed by a request for group {_group_of(call.request)!r}")
        self._are_current = True

    def due(self) -> None:
        self._are_current = False

    def ticked(self, broker: Broker, now: float) -> None:
        self._are_current = False

    def crashed(self, broker: Broker, now: float) -> None:
        self._are_current = False

    def restarted(self, broker: Broker, now: float) -> None:
        self._are_current = False


def _group_of(request: Any) -> str:
    names = getattr(request, "groups_names", None)
    return names[0] if names else getattr(request, "group_id", "")


def _fingerprint(group: CoordinatedGroup) -> tuple[object, ...]:
    """Return a fingerprint of a group: a tuple of values. Almost every change of the group changes at least one of
    them.
    """
    return _OF_TYPE.get(type(group), _of_group)(group)


def _of_group(group: CoordinatedGroup) -> tuple[object, ...]:
    offsets = group.offsets
    return (
        group.generation,
        group.state_name,
        len(group.members),
        len(group.timers),
        len(offsets.committed),
        len(offsets.pending_transactional),
        offsets._last_sequence,
    )


def _of_consumer_group(group: ConsumerGroup) -> tuple[object, ...]:
    # A changed member is a new object. The group state is not compared, because its calculation would read all members.
    offsets = group.offsets
    return (
        group.epoch,
        group.assignment_epoch,
        len(group.partition_epochs),
        len(group.timers),
        len(offsets.committed),
        len(offsets.pending_transactional),
        offsets._last_sequence,
        *group.members.values(),
    )


def _of_streams_group(group: StreamsGroup) -> tuple[object, ...]:
    return *_of_group(group), group.assignment_epoch, len(group.owners.active)


def _of_classic_group(group: ClassicGroup) -> tuple[object, ...]:
    offsets = group.offsets
    return (
        group.generation,
        group.state,
        group.leader,
        group.pending_join_count,
        len(group.pending_sync_members),
        len(group.pending_members),
        len(group.members),
        len(group.timers),
        len(offsets.committed),
        len(offsets.pending_transactional),
        offsets._last_sequence,
    )


_OF_TYPE: Mapping[type[CoordinatedGroup], Callable[[Any], tuple[object, ...]]] = {
    ConsumerGroup: _of_consumer_group,
    StreamsGroup: _of_streams_group,
    ClassicGroup: _of_classic_group,
}
