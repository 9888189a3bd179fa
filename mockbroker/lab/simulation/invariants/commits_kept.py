"""The checker of invariant I4: an acknowledged commit is never lost."""

from __future__ import annotations

from typing import Any

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.lab.simulation.checkers.final_log import named
from mockbroker.lab.simulation.model import Key, Model, Place
from mockbroker.lab.simulation.watching import Offsets, Watcher, is_away


class CommitsKept(Watcher):
    """The checker of invariant I4: an acknowledged commit is never lost.

    The checker compares the offsets that OffsetFetch returns with the reference model.

    Args:
        model: the reference model of the committed offsets (model.py), which this checker updates.
    """

    name = "I4"

    def __init__(self, model: Model) -> None:
        self.model = model
        # Pending OffsetFetch -> group -> committed offsets and unstable partitions.
        self._asked: dict[Ticket, dict[str, tuple[dict[Place, int], set[Place]]]] = {}

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Before an OffsetFetch is handled, store the committed offsets that the model expects in the response.

        OffsetFetch must return these offsets, even if the broker divides the OffsetFetch into parts and handles other
        requests between the parts.

        Args:
            broker: the cluster.
            call: the request.
            now: broker time, seconds.
        """
        if call.ticket.api_key == ApiKey.OFFSET_FETCH:
            names = [group.group_id for group in call.request.groups]
            self._asked[call.ticket] = {name: (self.model.of(name), self.model.unstable(name)) for name in names}

    def stored(self, broker: Broker, call: Call[Any], offsets: Offsets, now: float) -> None:
        self.model.stored(call, offsets, now)

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if call.ticket.api_key == ApiKey.OFFSET_FETCH:
            asked = self._asked.pop(call.ticket)
            for group in response.groups:
                if not group.error_code:
                    self._fetched(group, *asked[group.group_id], stable=call.request.require_stable)
        else:
            if wrong := self.model.answered(call, response, now):
                raise self.broken(wrong)
            if self.model.unsettled:
                for group in {key[0]: None for transaction in self.model.unsettled for key in transaction}:
                    if not is_away(broker, group):  # the journal reports a commit for a loaded group
                        self.model.settle(group, {})

    def _fetched(self, group: Any, expected: dict[Place, int], pending: set[Place], *, stable: bool) -> None:
        for topic in group.topics:
            for partition in topic.partitions:
                place = topic.name, partition.partition_index
                unstable = stable and place in pending
                if partition.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT and unstable:
                    continue
                wanted = expected.get(place, -1)
                if partition.error_code or partition.committed_offset != wanted:
                    code = partition.error_code
                    got = f"error {ErrorCode(code).name}" if code else f"offset {partition.committed_offset}"
                    raise self.broken(
                        f"OffsetFetch returned {got} for partition {named(place)} of group {group.group_id}, expected "
                        f"offset {wanted}"
                    )

    def acknowledged(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        self.model.acknowledged(call)

    def restarted(self, broker: Broker, now: float) -> None:
        """Check each committed offset after a crash.

        A committed offset must be the last acknowledged one, or a later one whose commit was not acknowledged. The
        pending offsets of transactions are checked, too. The model then adopts the offsets of the broker.

        Args:
            broker: the cluster.
            now: broker time, seconds.
        """
        held: dict[int, dict[Key, int]] = {}
        there: dict[Key, int] = {}
        for group_id, group in broker.groups.items():
            for place, committed in group.offsets.committed.items():
                there[group_id, place] = committed.offset
            for producer_id, pending in group.offsets.pending_transactional.items():
                for place, (_, committed) in pending.items():
                    held.setdefault(producer_id, {})[group_id, place] = committed.offset
        for key in dict.fromkeys([*self.model.history, *there]):
            may = self.model.may_be(key)
            if there.get(key) not in may:
                raise self.broken(
                    f"the committed offset of partition {named(key[1])} in group {key[0]} is {there.get(key)} after a "
                    f"crash, expected one of {may} (first: the last acknowledged commit; None: no commit)"
                )
            self.model.adopt(*key, there.get(key))
        if wrong := self.model.adopt_held(held):
            raise self.broken(wrong)

    def journaled(self, broker: Broker, event: Event) -> None:
        if event.event == EventKind.DELETE:
            self.model.delete(event.group)
        elif event.event == EventKind.COMMIT and event.reason:
            self.model.committed_by_itself(event.group, event.offsets)
        elif event.event == EventKind.LOAD and event.group in broker.groups:
            offsets = broker.groups[event.group].offsets
            committed = {place: each.offset for place, each in offsets.committed.items()}
            self.model.load(event.group, committed, offsets.pending_transactional)
