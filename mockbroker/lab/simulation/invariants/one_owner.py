"""I1: nobody reads what another reads."""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.lab.simulation.clients.plans import decoded_share
from mockbroker.lab.simulation.watching import Origins, Watcher, taken_out


class OneOwner(Watcher):
    """Classic: in a generation no partition is told to two members, and each is told what the leader gave it.

    KIP-848: what a member was assigned is its own until it has reported that it does not own it, or is gone.
    Kafka's protocol lets two members read a partition, and that is no failure, if the first is gone and does not know
    it yet, or if it sent a full heartbeat while it still reconciled: that reports the partitions as not owned, and the
    member begins to read them if the response is lost.
    """

    name = "I1"

    def __init__(self) -> None:
        self._given: dict[tuple[str, int], dict[tuple[str, int], str]] = {}
        self._unloaded: dict[str, dict[tuple[str, int], dict[tuple[str, int], str]]] = {}
        self._origins = Origins()
        self._connections: dict[tuple[str, str], int] = {}
        self._reads: dict[str, dict[str, frozenset[Any]]] = {}  # by group and member

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Keep those of a member's partitions that it still reports, whatever the response will be.

        A report on an older connection does not count, nor do partitions that the member had already given back.
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
            self._beaten(broker, call, response)

    # --- classic ---

    def _synced(self, call: Call[Any], response: Any) -> None:
        request = call.request
        key = request.group_id, request.generation_id
        who = request.group_instance_id or request.member_id
        given = self._given.setdefault(key, {})
        if response.protocol_type != "consumer":
            return
        for place in sorted(decoded_share(response.assignment)):
            if given.setdefault(place, who) != who:
                raise self.broken(f"{place} of {key} was given to {given[place]} and to {who}")

    def noted(self, broker: Broker, event: Event) -> None:
        self._origins.noted(event)
        match event.event:
            case EventKind.DELETE:
                taken_out(self._given, event.group)
            case EventKind.UNLOAD:
                self._unloaded[event.group] = taken_out(self._given, event.group)
            case EventKind.LOAD:  # what was not settled is forgotten, and its generation is given again
                found = self._unloaded.pop(event.group, {})
                self._given |= {key: given for key, given in found.items() if key[1] <= event.generation}
            case _:
                pass
        if event.event == EventKind.DELETE:
            self._reads.pop(event.group, None)
        elif event.event in (EventKind.LEAVE, EventKind.EXPIRE):
            self._reads.get(event.group, {}).pop(event.member_id, None)

    def gone(self, broker: Broker, now: float) -> None:
        """Groups may be as they were before some rebalances that were not settled."""
        self._given.clear()
        self._unloaded.clear()
        self._origins.gone()

    # --- consumer ---

    def _beaten(self, broker: Broker, call: Call[Any], response: Any) -> None:
        request = call.request
        group = broker.groups.typed(request.group_id, ConsumerGroup)
        if group is None:
            return
        reads = self._reads.setdefault(request.group_id, {})
        for gone in [name for name in reads if name not in group.members]:
            del reads[gone]  # put out; whoever replaces a static member begins with nothing
        who = response.member_id
        if request.member_epoch < 0:  # it has stopped, also if its place is kept
            reads.pop(who, None)
            return
        if who not in group.members:
            return  # put out while its answer waited for the disk
        if response.assignment is not None and self._is_newest(call):
            lines = response.assignment.topic_partitions
            told = frozenset((line.topic_id, index) for line in lines for index in line.partitions)
            taken = reads.get(who, frozenset()) | told
            for other in reads:
                if other != who and (both := taken & reads[other]):
                    raise self.broken(f"{min(both)} of {request.group_id} goes to {who}, and {other} reads it")
            reads[who] = taken
