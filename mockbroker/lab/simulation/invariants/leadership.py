"""The checker of invariant I17: if the leader of a classic group rejoins in a rebalance, it remains the leader."""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.lab.simulation.watching import Watcher

# Events after which the next leader may be any member.
GONE = (EventKind.UNLOAD, EventKind.DELETE, EventKind.UPGRADE, EventKind.DOWNGRADE)


class Leadership(Watcher):
    """The checker of invariant I17: a leader that rejoins remains the leader.

    A static member is identified by its instance id, because its leadership survives a restart.

    Source: Kafka's ClassicGroup (maybeElectNewJoinedLeader, replaceStaticMember).
    """

    name = "I17"
    apis = (ApiKey.JOIN_GROUP,)

    def __init__(self) -> None:
        self._leaders: dict[str, str] = {}  # group -> leader of the newest generation
        self._joining: dict[Ticket, tuple[str, str]] = {}  # pending JoinGroup -> group and member
        self._instances: dict[tuple[str, str], str] = {}  # group and member id -> instance id

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        request = call.request
        self._joining[call.ticket] = request.group_id, request.group_instance_id or request.member_id

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        self._joining.pop(call.ticket, None)

    def journaled(self, broker: Broker, event: Event) -> None:
        group = broker.groups.get_as(event.group, ClassicGroup)
        if event.event in GONE:
            self._leaders.pop(event.group, None)
            self._forget_joins(event.group)
        elif event.event in (EventKind.LEAVE, EventKind.EXPIRE):
            if self._leaders.get(event.group) == self._name(event.group, event.member_id):
                del self._leaders[event.group]
        elif group is not None:
            self._learn(group)
            if event.event == EventKind.GENERATION:
                self._begins(event)
            elif event.event == EventKind.LOAD and group.leader:
                self._leaders[event.group] = self._name(event.group, group.leader)

    def replaced(self, broker: Broker, group_id: str) -> None:
        self._leaders.pop(group_id, None)
        self._forget_joins(group_id)

    def crashed(self, broker: Broker, now: float) -> None:
        self._leaders.clear()
        self._joining.clear()

    def _begins(self, event: Event) -> None:
        before, leader = self._leaders.get(event.group), self._name(event.group, event.leader)
        if before not in (None, leader) and (event.group, before) in self._joining.values():
            raise self.broken(
                f"member {leader} is the leader of generation {event.generation} of {event.group}, but the previous "
                f"leader {before} rejoined and should have stayed the leader"
            )
        self._leaders[event.group] = leader
        self._forget_joins(event.group)

    def _forget_joins(self, group: str) -> None:
        for ticket in [ticket for ticket, (of, _) in self._joining.items() if of == group]:
            del self._joining[ticket]

    def _learn(self, group: ClassicGroup) -> None:
        for instance, member_id in group.static_members.items():
            self._instances[group.group_id, member_id] = instance

    def _name(self, group: str, member_id: str) -> str:
        return self._instances.get((group, member_id), member_id)
