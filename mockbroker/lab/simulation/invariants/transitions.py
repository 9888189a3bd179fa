"""The checker of invariant I12: classic groups make only the state transitions that Kafka allows."""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.classic.state import ClassicGroup, State
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.groups.coordinated import as_type
from mockbroker.lab.simulation.watching import Watcher

E, P, C, S = State.EMPTY, State.PREPARING, State.COMPLETING, State.STABLE
# Allowed transitions in one request or tick, which may pass through several states. Source: Kafka's ClassicGroupState.
STEPS = {
    (None, E), (None, P),
    (E, P), (E, C), (P, C), (P, E), (C, P), (C, S), (C, E), (S, P), (S, C), (S, E),
}  # fmt: skip


class Transitions(Watcher):
    """The checker of invariant I12: classic groups make only the state transitions that Kafka allows.

    The checker also verifies that a group has no members in state Empty, and at least one member in CompletingRebalance
    and Stable. In PreparingRebalance a group may be without members, because the join phase continues after all members
    have left.
    """

    name = "I12"

    def __init__(self) -> None:
        self._known: dict[str, tuple[State | None, int]] = {}  # group id -> state and generation

    def journaled(self, broker: Broker, event: Event) -> None:
        if event.event == EventKind.UNLOAD:
            self._known.pop(event.group, None)
        elif event.event == EventKind.DOWNGRADE:  # a consumer group becomes a Stable classic group
            self._known[event.group] = S, event.generation

    def crashed(self, broker: Broker, now: float) -> None:
        self._known.clear()

    def handled(self, broker: Broker, call: Call[Any], now: float) -> None:
        self._compare(broker, call.ticket.api_key)

    def ticked(self, broker: Broker, now: float) -> None:
        self._compare(broker, -1)

    def _compare(self, broker: Broker, api_key: int) -> None:
        known, groups = self._known, broker.groups
        if not groups.keys() >= known.keys():
            for group_id in [group_id for group_id in known if group_id not in groups]:
                del known[group_id]
        for group_id, any_group in groups.items():
            group = as_type(any_group, ClassicGroup)
            if group is None:
                known.pop(group_id, None)
                consumers = as_type(any_group, ConsumerGroup)
                if consumers is not None and consumers.assignment_epoch > consumers.epoch:
                    raise self.broken(
                        f"the assignment epoch {consumers.assignment_epoch} of group {group_id} is above "
                        f"its group epoch {consumers.epoch}"
                    )
                continue
            state, generation = group.state, group.generation
            before, had = known.get(group_id, (None, generation))
            if state is not before:
                self._changed(group, before, state, generation > had, api_key)
            elif generation != had and state not in (C, P):
                raise self.broken(
                    f"group {group_id} went from generation {had} to {generation}, but stayed in state {state.value}"
                )
            if state is not before or generation != had:
                known[group_id] = state, generation
            if state is not P and bool(group.members) == (state is E):
                raise self.broken(f"group {group_id} is in state {state.value}, but has {len(group.members)} members")

    def _changed(self, group: ClassicGroup, before: State | None, state: State, grown: bool, api_key: int) -> None:
        if before is not None and (before, state) not in STEPS:
            raise self.broken(
                f"group {group.group_id} went from state {before.value} to {state.value}, which Kafka does not allow"
            )
        if before is None:
            return
        if state == C and not grown:
            raise self.broken(
                f"group {group.group_id} went to state {state.value}, but stayed in generation {group.generation}"
            )
        if state == S and (grown or api_key != ApiKey.SYNC_GROUP):
            raise self.broken(f"group {group.group_id} went to state {state.value} without a SyncGroup")
