"""I1: no two members of a group own the same partition."""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.lab.simulation.clients.plans import decoded_share
from mockbroker.lab.simulation.watching import Origins, Watcher, remove_group


class OneOwner(Watcher):
    """The checker of I1.

    Classic protocol: in a generation, a partition has at most one owner.

    Consumer protocol (KIP-848): a member owns a partition from its assignment until it reports the partition as revoked
    or is removed.

    As in Kafka, two clients may still read the same partition, and this is no violation. A removed member reads until
    it receives an error. A member that sends a full heartbeat during reconciliation reports its new partitions as not
    owned.
    """

    name = "I1"

    def __init__(self) -> None:
        self._given: dict[tuple[str, int], dict[tuple[str, int], str]] = {}
        self._unloaded: dict[str, dict[tuple[str, int], dict[tuple[str, int], str]]] = {}
        self._origins = Origins()
        self._connections: dict[tuple[str, str], int] = {}
        self._reads: dict[str, dict[str, frozenset[Any]]] = {}  # group -> member -> partitions

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Remove the partitions that a member reports as revoked in its heartbeat.

        A heartbeat is ignored if the member has sent a later one on a newer connection.
        """
        if call.ticket.api_key != ApiKey.CONSUMER_GROUP_HEARTBEAT:
            return
        request = call.request
        lines = request.topic_partitions
        if lines is not None and self._is_newest(call):
            share = frozenset((line.topic_id, index) for line in lines for index in line.partitions)
            reads = self._reads.setdefault(request.group_id, {})
            reads[request.member_id] = reads.get(request.member_id, frozenset()) & share

    def _is_newest(self, call: Call[Any]) -> bool:
        key = call.request.group_id, call.request.member_id
        newest = self._connections[key] = max(self._connections.get(key, 0), call.ticket.connection)
        return newest == call.ticket.connection

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if call.ticket.api_key == ApiKey.SYNC_GROUP:
            self._origins.answered(call.ticket, call.request.group_id)

    def acknowledged(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if call.ticket.api_key == ApiKey.SYNC_GROUP:
            lives, _ = self._origins.check_origin(call.ticket, call.request.group_id)
            if lives and not response.error_code:
                self._synced(call, response)
        elif call.ticket.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and not response.error_code:
            self._heartbeat_acknowledged(broker, call, response)

    # --- classic ---

    def _synced(self, call: Call[Any], response: Any) -> None:
        request = call.request
        key = request.group_id, request.generation_id
        member = request.group_instance_id or request.member_id
        given = self._given.setdefault(key, {})
        if response.protocol_type != "consumer":
            return
        for place in sorted(decoded_share(response.assignment)):
            if given.setdefault(place, member) != member:
                raise self.broken(f"{place} of {key} was assigned to {given[place]} and to {member}")

    def journaled(self, broker: Broker, event: Event) -> None:
        self._origins.journaled(event)
        match event.event:
            case EventKind.DELETE:
                remove_group(self._given, event.group)
            case EventKind.UNLOAD:
                self._unloaded[event.group] = remove_group(self._given, event.group)
            case EventKind.LOAD:  # unwritten generations are lost, and their numbers are used again
                unloaded = self._unloaded.pop(event.group, {})
                self._given |= {key: given for key, given in unloaded.items() if key[1] <= event.generation}
            case _:
                pass
        if event.event == EventKind.DELETE:
            self._reads.pop(event.group, None)
        elif event.event in (EventKind.LEAVE, EventKind.EXPIRE):
            self._reads.get(event.group, {}).pop(event.member_id, None)

    def crashed(self, broker: Broker, now: float) -> None:
        """Forget all assignments: a crash may undo rebalances that were not synced."""
        self._given.clear()
        self._unloaded.clear()
        self._origins.crashed()

    # --- consumer ---

    def _heartbeat_acknowledged(self, broker: Broker, call: Call[Any], response: Any) -> None:
        request = call.request
        group = broker.groups.get_as(request.group_id, ConsumerGroup)
        if group is None:
            return
        reads = self._reads.setdefault(request.group_id, {})
        for gone in [name for name in reads if name not in group.members]:
            del reads[gone]  # a removed member; the replacement of a static member starts without partitions
        member = response.member_id
        if request.member_epoch < 0:  # the member has stopped, even if its static membership is kept
            reads.pop(member, None)
            return
        if member not in group.members:
            return  # the member was removed while the response waited for the disk
        if response.assignment is not None and self._is_newest(call):
            lines = response.assignment.topic_partitions
            assigned = frozenset((line.topic_id, index) for line in lines for index in line.partitions)
            taken = reads.get(member, frozenset()) | assigned
            for other in reads:
                if other != member and (both := taken & reads[other]):
                    topic_id, index = min(both)
                    raise self.broken(
                        f"partition {index} of topic id {topic_id} in {request.group_id} is assigned to {member}, "
                        f"but {other} owns it"
                    )
            reads[member] = taken
