"""I4: a commit that was acknowledged is never lost."""

from __future__ import annotations

from typing import Any

from kwire import ErrorCode
from mockbroker.broker import Broker
from mockbroker.calls import Call
from mockbroker.journal import Event
from mockbroker.simulation.model import Model
from mockbroker.simulation.watching import Watcher

OFFSET_FETCH = 9


class CommitsKept(Watcher):
    """Whoever asks for offsets gets what was committed last. The reference is kept here."""

    name = "I4"

    def __init__(self, model: Model) -> None:
        self.model = model

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if call.ticket.api_key == OFFSET_FETCH:
            for group in response.groups:
                if not group.error_code:
                    self._fetched(group, stable=call.request.require_stable)
        else:
            self.model.answered(call, response, now)

    def _fetched(self, group: Any, *, stable: bool) -> None:
        expected = self.model.of(group.group_id)
        for topic in group.topics:
            for partition in topic.partitions:
                place = topic.name, partition.partition_index
                unstable = stable and self.model.unstable(group.group_id, place)
                if partition.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT and unstable:
                    continue
                wanted = expected.get(place, -1)
                if partition.error_code or partition.committed_offset != wanted:
                    got = partition.error_code or partition.committed_offset
                    raise self.broken(f"{place} of {group.group_id} is {wanted}, and {got} was told")

    def noted(self, broker: Broker, event: Event) -> None:
        if event.event == "delete":
            self.model.delete(event.group)
