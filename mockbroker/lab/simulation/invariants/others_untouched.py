"""The checker of invariant I15: a request for one group changes no other group."""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call
from mockbroker.broker.broker import Broker
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.consumer.state import (
    ConsumerGroup,
)
from mockbroker.groups.coordinated import CoordinatedGroup, as_type
from mockbroker.groups.streams.state import (
    StreamsGroup,
)
from mockbroker.lab.simulation.watching import Watcher

# Requests that end transactions, and so change all groups with pending offsets.
OF_TRANSACTIONS = (
    ApiKey.END_TXN,
    ApiKey.INIT_PRODUCER_ID,
)


class OthersUntouched(Watcher):
    """The checker of invariant I15: a request for one group changes no other group.

    The checker compares fingerprints of all other groups from before and after each request.
    """

    name = "I15"

    def __init__(self) -> None:
        self._prints: dict[str, tuple[object, ...]] = {}

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        if call.ticket.api_key not in OF_TRANSACTIONS:
            mine = _group_of(call.request)
            self._prints = {name: _fingerprint(group) for name, group in broker.groups.items() if name != mine}

    def resumed(self, broker: Broker, call: Call[Any], now: float) -> None:
        self.before(broker, call, now)

    def handled(self, broker: Broker, call: Call[Any], now: float) -> None:
        if call.ticket.api_key in OF_TRANSACTIONS:
            return
        for name, before in self._prints.items():
            group = broker.groups.get(name)
            if group is None or _fingerprint(group) != before:
                raise self.broken(f"group {name} was changed by a request for group {_group_of(call.request)!r}")


def _group_of(request: Any) -> str:
    names = getattr(request, "groups_names", None)
    return names[0] if names else getattr(request, "group_id", "")


def _fingerprint(group: CoordinatedGroup) -> tuple[object, ...]:
    """Return a fingerprint of a group: values of which almost every operation on the group changes at least one."""
    offsets = group.offsets
    at: tuple[object, ...] = (group.generation, group.state_name)
    if (consumers := as_type(group, ConsumerGroup)) is not None:
        at += (consumers.assignment_epoch, len(consumers.partition_epochs))
    if (streams := as_type(group, StreamsGroup)) is not None:
        at += (streams.assignment_epoch, len(streams.owners.active))
    if (classic := as_type(group, ClassicGroup)) is not None:
        at += (
            classic.leader,
            classic.pending_join_count,
            len(classic.pending_sync_members),
            len(classic.pending_members),
        )
    return (
        *at,
        len(group.members),
        len(group.timers),
        len(offsets.committed),
        len(offsets.pending_transactional),
        offsets._last_sequence,
    )
