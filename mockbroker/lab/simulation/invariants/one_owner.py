"""The checker of invariant I1: no two members of a group own the same partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias
from uuid import UUID

from kwire.apikeys import ApiKey
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from mockbroker.base.effects import Call
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.lab.simulation.checkers.final_log import named
from mockbroker.lab.simulation.clients.plans import decoded_share
from mockbroker.lab.simulation.watching import Origins, Watcher, remove_group

Share: TypeAlias = frozenset[tuple[UUID, int]]


class OneOwner(Watcher):
    """The checker of invariant I1: no two members of a group own the same partition.

    Classic group: in a generation, a partition has at most one owner.

    Consumer group (KIP-848), including its classic members: a member owns a partition from its assignment until it
    reports the partition as revoked or is removed.

    As in Kafka, two clients may still read the same partition for a time, which is no violation. There are two cases:
    a removed member reads until it receives an error, and a member that sends a full heartbeat during reconciliation
    reports its new partitions as not owned.
    """

    name = "I1"
    apis = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT)

    def __init__(self) -> None:
        self._given: dict[tuple[str, int], dict[tuple[str, int], str]] = {}
        self._unloaded: dict[str, dict[tuple[str, int], dict[tuple[str, int], str]]] = {}
        self._origins = Origins()
        self._connections: dict[tuple[str, str], int] = {}
        self._synced_shares: dict[tuple[str, str], tuple[int, Share]] = {}  # of classic members, with the generation
        self._reads: dict[str, dict[str, Share]] = {}  # group -> member -> partitions

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Update the partitions of a member from its heartbeat or JoinGroup.

        If the request lists the owned partitions of the member, the member has revoked all partitions that are not
        listed. A request is ignored if the member has sent a request on a newer connection.

        Args:
            broker: the cluster.
            call: the request.
            now: broker time, seconds.
        """
        request = call.request
        if call.ticket.api_key == ApiKey.JOIN_GROUP and request.protocol_type == "consumer" and self._is_newest(call):
            subscription, _ = decode_stored(ConsumerProtocolSubscription, request.protocols[0].metadata)
            self._keep(request, _with_ids(broker, subscription.owned_partitions))
        if call.ticket.api_key != ApiKey.CONSUMER_GROUP_HEARTBEAT:
            return
        lines = request.topic_partitions
        if lines is not None and self._is_newest(call):
            self._keep(request, frozenset((line.topic_id, index) for line in lines for index in line.partitions))

    def _keep(self, request: Any, share: Share) -> None:
        """Remove the partitions that are not in ``share`` from the partitions of a member, because the member has
        revoked them.

        Args:
            request: body of the member's heartbeat or JoinGroup.
            share: the owned partitions that the request lists.
        """
        reads = self._reads.get(request.group_id, {})
        if request.member_id in reads:
            reads[request.member_id] &= share
        generation, synced = self._synced_shares.get((request.group_id, request.member_id), (-1, share))
        self._synced_shares[request.group_id, request.member_id] = generation, synced & share

    def _is_newest(self, call: Call[Any]) -> bool:
        key = call.request.group_id, call.request.member_id
        newest = self._connections[key] = max(self._connections.get(key, 0), call.ticket.connection)
        return newest == call.ticket.connection

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if call.ticket.api_key == ApiKey.SYNC_GROUP:
            self._origins.answered(call.ticket, call.request.group_id)

    def acknowledged(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if call.ticket.api_key == ApiKey.SYNC_GROUP:
            still_exists = self._origins.still_exists(call.ticket, call.request.group_id)
            if still_exists and not response.error_code and response.assignment:
                self._synced(call, response)
                if response.protocol_type == "consumer":
                    assignment, _ = decode_stored(ConsumerProtocolAssignment, response.assignment)
                    key = call.request.group_id, call.request.member_id
                    share = _with_ids(broker, assignment.assigned_partitions)
                    self._synced_shares[key] = call.request.generation_id, share
                self._synced_in_consumer_group(broker, call, response)
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
                raise self.broken(
                    f"partition {named(place)} was assigned to both {given[place]} and {member} in generation {key[1]} "
                    f"of group {key[0]}"
                )

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
        if event.event == EventKind.UPGRADE:  # classic members continue to read
            for member_id in event.members:
                generation, share = self._synced_shares.get((event.group, member_id), (-1, frozenset()))
                if generation == event.generation:
                    self._reads.setdefault(event.group, {})[member_id] = share
        if event.event in (EventKind.DELETE, EventKind.DOWNGRADE):
            self._reads.pop(event.group, None)
        elif event.event in (EventKind.LEAVE, EventKind.EXPIRE):
            self._reads.get(event.group, {}).pop(event.member_id, None)

    def replaced(self, broker: Broker, group_id: str) -> None:
        self._origins.replaced(group_id)
        remove_group(self._given, group_id)
        remove_group(self._synced_shares, group_id)
        self._reads.pop(group_id, None)

    def crashed(self, broker: Broker, now: float) -> None:
        """Forget all assignments, because a crash may undo rebalances that were not synced.

        Args:
            broker: the cluster.
            now: broker time, seconds.
        """
        self._given.clear()
        self._synced_shares.clear()
        self._unloaded.clear()
        self._origins.crashed()

    def restarted(self, broker: Broker, now: float) -> None:
        """Forget the partitions of groups whose upgrade the crash has undone, as they are classic groups again.

        Args:
            broker: the cluster.
            now: broker time, seconds.
        """
        for group_id in [name for name in self._reads if broker.groups.get_as(name, ConsumerGroup) is None]:
            del self._reads[group_id]

    # --- consumer ---

    def _synced_in_consumer_group(self, broker: Broker, call: Call[Any], response: Any) -> None:
        """Record the assignment that a classic member of a consumer group receives by SyncGroup.

        Args:
            broker: the cluster.
            call: the SyncGroup request.
            response: the response body.
        """
        request = call.request
        group = broker.groups.get_as(request.group_id, ConsumerGroup)
        if group is not None and request.member_id in group.members and self._is_newest(call):
            assignment, _ = decode_stored(ConsumerProtocolAssignment, response.assignment)
            self._assigned(group, request.member_id, _with_ids(broker, assignment.assigned_partitions))

    def _assigned(self, group: ConsumerGroup, member: str, assigned: Share) -> None:
        """Record the assignment of a member.

        Args:
            group: the group.
            member: member id.
            assigned: the assigned partitions.

        Raises: Broken if another member owns one of the partitions.
        """
        reads = self._reads.setdefault(group.group_id, {})
        for gone in [name for name in reads if name not in group.members]:
            del reads[gone]  # a removed member; the replacement of a static member starts without partitions
        taken = reads.get(member, frozenset()) | assigned
        for other in reads:
            if other != member and (both := taken & reads[other]):
                topic_id, index = min(both)
                raise self.broken(
                    f"partition {index} of topic id {topic_id} in group {group.group_id} is assigned to {member}, "
                    f"but {other} owns it"
                )
        reads[member] = taken

    def _heartbeat_acknowledged(self, broker: Broker, call: Call[Any], response: Any) -> None:
        request = call.request
        group = broker.groups.get_as(request.group_id, ConsumerGroup)
        if group is None:
            return
        member = response.member_id
        if request.member_epoch < 0:  # the member has stopped, even if its static membership is kept
            self._reads.get(request.group_id, {}).pop(member, None)
            return
        if member not in group.members:
            return  # the member was removed while the response waited for the disk
        if response.assignment is not None and self._is_newest(call):
            lines = response.assignment.topic_partitions
            self._assigned(
                group, member, frozenset((line.topic_id, index) for line in lines for index in line.partitions)
            )


def _with_ids(broker: Broker, lines: Iterable[Any]) -> Share:
    """Return partitions as (topic id, partition). Unknown topics are left out.

    Args:
        broker: the cluster.
        lines: topics of a classic subscription or assignment, each with its partitions.
    """
    topics = broker.cluster.topics
    return frozenset(
        (topics[line.topic].topic_id, index) for line in lines for index in line.partitions if line.topic in topics
    )
