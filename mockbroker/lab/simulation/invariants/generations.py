"""I2: generations and epochs never fall, and grow by one with each rebalance."""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.lab.simulation.watching import Origins, Watcher


class Generations(Watcher):
    """``_reached``: by group. A group that was deleted begins anew; members of the consumer protocol begin at their
    group's epoch, and may only grow from there.

    A generation whose coordinator was lost before the leader's SyncGroup is not written: the next coordinator is in the
    generation before, and its number is given again. Kafka does the same (fixtures/failover,
    an_unwritten_generation_is_forgotten). So answers of JoinGroup rise with each coordinator, not from one to the next,
    and one that waited for the disk while its coordinator lost the group is compared with no other.
    """

    name = "I2"

    def __init__(self) -> None:
        self._reached: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._settled: dict[str, int] = {}  # acknowledged in a SyncGroup, or in a heartbeat of the consumer protocol
        self._origins = Origins()
        self._members: dict[tuple[str, str], int] = {}

    def noted(self, broker: Broker, event: Event) -> None:
        group = event.group
        self._origins.noted(event)
        match event.event:
            case EventKind.LOAD:
                self._loaded(group, event.generation)
            case EventKind.UNLOAD:
                self._reached.pop(group, None)
                self._told.pop(group, None)
            case EventKind.DELETE:
                self._reached.pop(group, None)
                self._told.pop(group, None)
                self._settled.pop(group, None)
                for key in [key for key in self._members if key[0] == group]:
                    del self._members[key]
            case EventKind.GENERATION | EventKind.EMPTY if broker.groups.typed(group, ConsumerGroup) is None:
                self._grows(event)
            case EventKind.REBALANCE if broker.groups.typed(group, ConsumerGroup) is not None:
                self._grows(event)

    def _loaded(self, group: str, generation: int) -> None:
        """A new coordinator knows of no rebalance that was not over; what was settled it knows."""
        if generation < self._settled.get(group, generation):
            raise self.broken(f"{group} was settled in {self._settled[group]}, and is {generation} for its coordinator")
        self._reached[group] = generation
        self._told.pop(group, None)

    def gone(self, broker: Broker, now: float) -> None:
        """Groups whose first records were lost are not there; then they begin anew."""
        self._reached.clear()
        self._told.clear()
        self._origins.gone()

    def back(self, broker: Broker, now: float) -> None:
        for group, settled in self._settled.items():
            if group not in broker.groups:
                raise self.broken(f"{group} was settled in {settled}, and is not there after a crash")

    def _grows(self, event: Event) -> None:
        reached = self._reached.get(event.group)
        if reached is not None and event.generation != reached + 1:
            raise self.broken(f"{event.event} of {event.group}: {event.generation} follows {reached}")
        self._reached[event.group] = event.generation

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if call.ticket.api_key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT):
            self._origins.answered(call.ticket, call.request.group_id)

    def acknowledged(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        key = call.ticket.api_key
        if key not in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT):
            return
        group = call.request.group_id
        lives, current = self._origins.check_origin(call.ticket, group)
        if not lives:
            return
        if key == ApiKey.SYNC_GROUP and not response.error_code:
            self._settled[group] = max(call.request.generation_id, self._settled.get(group, 0))
        if key == ApiKey.JOIN_GROUP and not response.error_code:
            if current:
                self._rises(group, response.generation_id)
        elif key == ApiKey.CONSUMER_GROUP_HEARTBEAT and not response.error_code:
            member = response.member_id
            if response.member_epoch <= 0:
                self._members.pop((group, member), None)
                return
            before = self._members.get((group, member), 0)
            if response.member_epoch < before and call.request.member_epoch:
                raise self.broken(f"{member} of {group} was at epoch {before} and is told {response.member_epoch}")
            self._members[group, member] = response.member_epoch
            self._settled[group] = max(response.member_epoch, self._settled.get(group, 0))
            if response.member_epoch > self._reached.get(group, response.member_epoch):
                raise self.broken(f"{member} of {group} is told epoch {response.member_epoch}, which is not there yet")

    def _rises(self, group: str, told: int) -> None:
        if told < self._told.get(group, told):
            raise self.broken(f"{group} told generation {self._told[group]} and then {told}")
        self._told[group] = told

    def inspect(self, broker: Broker, now: float) -> None:
        for group_id, group in broker.groups.items():
            at = group.generation
            if at != self._reached.get(group_id, at):
                raise self.broken(f"{group_id} is at {at}, and its last rebalance was {self._reached[group_id]}")
            if at < self._settled.get(group_id, at):
                raise self.broken(f"{group_id} is at {at}, and was settled in {self._settled[group_id]}")
