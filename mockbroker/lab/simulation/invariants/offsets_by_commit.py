"""The checker of invariant I5: committed offsets are changed only by commits, admin requests and expiry."""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.lab.simulation.checkers.final_log import named
from mockbroker.lab.simulation.model import Model, Place
from mockbroker.lab.simulation.watching import Watcher, is_away


class OffsetsByCommit(Watcher):
    """The checker of invariant I5: committed offsets are changed only by commits, admin requests and expiry.

    After each request, the checker compares the broker's committed offsets with the offsets of the reference model.

    Args:
        model: the reference model of the committed offsets (model.py), which the checker CommitsKept updates.
    """

    name = "I5"

    def __init__(self, model: Model) -> None:
        self._model = model
        self._in_use: list[str] = []

    def journaled(self, broker: Broker, event: Event) -> None:
        if event.event != EventKind.OFFSET_EXPIRE:
            return
        words = event.reason.split()  # "offset of TOPIC PARTITION expired"
        place: Place = words[2], int(words[3])
        stored = self._model.offsets.get(event.group, {}).get(place)
        retention = broker.settings.offsets_retention_minutes * 60
        if stored is None or event.time_ms / 1000 - stored.at < retention - 0.002:
            raise self.broken(
                f"the offset of partition {named(place)} in group {event.group} expired before the retention time of "
                f"{retention} s had passed"
            )
        self._model.forget(event.group, place)

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        if call.ticket.api_key == ApiKey.DELETE_GROUPS:
            self._in_use = [name for name in call.request.groups_names if name in broker.groups]
            self._in_use = [name for name in self._in_use if broker.groups[name].members]

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if call.ticket.api_key == ApiKey.DELETE_GROUPS:
            for result in response.results:
                if not result.error_code and result.group_id in self._in_use:
                    raise self.broken(f"group {result.group_id} was deleted although it had members")

    def handled(self, broker: Broker, call: Call[Any], now: float) -> None:
        group = getattr(call.request, "group_id", None)
        if group:
            self._compare(broker, group)
        elif call.ticket.api_key == ApiKey.END_TXN:
            self.inspect(broker, now)

    def inspect(self, broker: Broker, now: float) -> None:
        for group in broker.groups:
            self._compare(broker, group)
        for group, stored in self._model.offsets.items():
            if stored and group not in broker.groups and not is_away(broker, group):
                raise self.broken(
                    f"group {group} does not exist, but {len(stored)} of its committed offsets have not expired"
                )

    def _compare(self, broker: Broker, group_id: str) -> None:
        group = broker.groups.get(group_id)
        if group is None and is_away(broker, group_id):
            return
        held = {place: each.offset for place, each in group.offsets.committed.items()} if group is not None else {}
        expected = self._model.of(group_id)
        if held != expected:
            place = next(place for place in [*expected, *held] if held.get(place) != expected.get(place))
            raise self.broken(
                f"the committed offset of partition {named(place)} in group {group_id} is {held.get(place)}, "
                f"expected {expected.get(place)} (None: no committed offset)"
            )
