"""The checker of invariant I2: generations and epochs never decrease, and increase by one with each rebalance."""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.groups.share.state import ShareGroup
from mockbroker.groups.streams.state import StreamsGroup
from mockbroker.lab.simulation.watching import Origins, Watcher

HEARTBEATS = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT)  # with member epochs
GROWTH = (EventKind.GENERATION, EventKind.EMPTY, EventKind.REBALANCE)


def _has_epochs(broker: Broker, group_id: str) -> bool:
    """Return whether a group is of a type that has epochs instead of generations: consumer, share or streams.

    Args:
        broker: the cluster.
        group_id: group id.
    """
    kinds = (ConsumerGroup, StreamsGroup, ShareGroup)
    return any(broker.groups.get_as(group_id, kind) is not None for kind in kinds)


class Generations(Watcher):
    """The checker of invariant I2: generations and epochs never decrease, and increase by one with each rebalance.

    A group that was deleted starts again at generation 0. In a consumer group (KIP-848), the epoch of a new member is
    the group epoch.

    A generation is written when the leader's SyncGroup is handled. If the coordinator is lost before that, the next
    coordinator uses the same generation number again, as in Kafka (fixtures/failover,
    an_unwritten_generation_is_forgotten). Therefore JoinGroup responses are compared only with JoinGroup responses of
    the same coordinator, in the order in which they were made: those of different connections may be sent in another.
    The epoch in a heartbeat response is compared with the epoch that the member had got when the response was made.
    """

    name = "I2"
    apis = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, *HEARTBEATS)

    def __init__(self) -> None:
        self._reached: dict[str, int] = {}
        self._returned: dict[str, int] = {}
        self._settled: dict[str, int] = {}  # acknowledged by a SyncGroup or ConsumerGroupHeartbeat response
        self._origins = Origins()
        self._members: dict[tuple[str, str], int] = {}
        self._epochs: dict[Ticket, int] = {}  # of the member, when the response to a heartbeat was made

    def replaced(self, broker: Broker, group_id: str) -> None:
        self._origins.replaced(group_id)
        self._forget(group_id)

    def _forget(self, group: str) -> None:
        for kept in (self._reached, self._returned, self._settled):
            kept.pop(group, None)
        for key in [key for key in self._members if key[0] == group]:
            del self._members[key]

    def journaled(self, broker: Broker, event: Event) -> None:
        group = event.group
        self._origins.journaled(event)
        match event.event:
            case EventKind.LOAD:
                self._loaded(group, event.generation)
            case EventKind.UNLOAD:
                self._reached.pop(group, None)
                self._returned.pop(group, None)
            case EventKind.DELETE:
                self._forget(group)
            case EventKind.UPGRADE | EventKind.DOWNGRADE:
                self._converted(event)
            case EventKind.GENERATION | EventKind.EMPTY if not _has_epochs(broker, group):
                self._grows(event)
            case EventKind.REBALANCE if _has_epochs(broker, group):
                self._grows(event)

    def _loaded(self, group: str, generation: int) -> None:
        """Check that a new coordinator has loaded the last acknowledged generation of a group, or a newer one.

        Args:
            group: group id.
            generation: generation or group epoch after the load.
        """
        if generation < self._settled.get(group, generation):
            raise self.broken(
                f"group {group} was loaded in generation {generation}, but generation {self._settled[group]} was "
                "acknowledged"
            )
        self._reached[group] = generation
        self._returned.pop(group, None)

    def _converted(self, event: Event) -> None:
        """Check that a group that was converted between the classic and the consumer protocol has not lost a
        generation.

        The conversion keeps the number: the generation becomes the group epoch, or the reverse. The event may contain a
        newer number than the last event, because older events may reach the journal after the event of the conversion.

        ``event``: the journal event of the conversion.

        Raises: Broken if the number in the event is lower than the highest number so far.
        """
        reached = self._reached.get(event.group, event.generation)
        if event.generation < reached:
            raise self.broken(
                f"group {event.group} was converted with generation {event.generation}, but had reached {reached}"
            )
        self._reached[event.group] = event.generation
        self._returned.pop(event.group, None)

    def crashed(self, broker: Broker, now: float) -> None:
        """Forget the generations and epochs that were not acknowledged, because a crash may undo them.

        The response to a SyncGroup acknowledges a generation. In groups with epochs, the response to a heartbeat
        acknowledges an epoch.

        Args:
            broker: the cluster.
            now: broker time, seconds.
        """
        self._reached.clear()
        self._returned.clear()
        self._epochs.clear()
        self._origins.crashed()

    def restarted(self, broker: Broker, now: float) -> None:
        for group, settled in self._settled.items():
            if group not in broker.groups:
                raise self.broken(
                    f"group {group} is missing after a crash, but its generation {settled} was acknowledged"
                )

    def _grows(self, event: Event) -> None:
        reached = self._reached.get(event.group)
        if reached is not None and event.generation != reached + 1:
            raise self.broken(
                f"event {event.event} of group {event.group} has generation {event.generation}, expected {reached + 1}"
            )
        self._reached[event.group] = event.generation

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        group = call.request.group_id
        if call.ticket.api_key in HEARTBEATS:
            self._epochs[call.ticket] = self._members.get((group, response.member_id), 0)
        if call.ticket.api_key != ApiKey.JOIN_GROUP:
            self._origins.answered(call.ticket, group)
        elif not response.error_code and not _has_epochs(broker, group):  # else a member epoch
            self._rises(group, response.generation_id)

    def acknowledged(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        key = call.ticket.api_key
        group = call.request.group_id
        epoch = self._epochs.pop(call.ticket, 0)
        if not self._origins.still_exists(call.ticket, group):
            return
        if key == ApiKey.SYNC_GROUP and not response.error_code:
            self._settled[group] = max(call.request.generation_id, self._settled.get(group, 0))
        elif key in HEARTBEATS and not response.error_code:
            member = response.member_id
            if response.member_epoch <= 0:
                self._members.pop((group, member), None)
                return
            if response.member_epoch < epoch and call.request.member_epoch:
                raise self.broken(
                    f"member {member} of group {group} was in epoch {epoch}, "
                    f"but got the lower epoch {response.member_epoch}"
                )
            known = self._members.get((group, member), 0) if call.request.member_epoch else 0  # else it joins
            self._members[group, member] = max(response.member_epoch, known)
            self._settled[group] = max(response.member_epoch, self._settled.get(group, 0))
            if response.member_epoch > self._reached.get(group, response.member_epoch):
                raise self.broken(
                    f"member {member} of group {group} got epoch {response.member_epoch}, "
                    f"above group epoch {self._reached[group]}"
                )

    def _rises(self, group: str, returned: int) -> None:
        if returned < self._returned.get(group, returned):
            raise self.broken(
                f"group {group} returned generation {self._returned[group]}, and later the lower generation {returned}"
            )
        self._returned[group] = returned

    def inspect(self, broker: Broker, now: float) -> None:
        for group_id, group in broker.groups.items():
            at = group.generation
            if at != self._reached.get(group_id, at):
                raise self.broken(
                    f"group {group_id} is in generation {at}, but in generation {self._reached[group_id]} "
                    "according to the journal"
                )
            if at < self._settled.get(group_id, at):
                raise self.broken(
                    f"group {group_id} is in generation {at}, but generation {self._settled[group_id]} was acknowledged"
                )
