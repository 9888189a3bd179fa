"""The checker of invariant I6: only members commit, in their generation and at their coordinator. Any client may commit
to an empty group.
"""

from __future__ import annotations

from typing import Any

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.groups.streams.state import StreamsGroup
from mockbroker.lab.simulation.watching import Watcher, is_away


class MembersCommit(Watcher):
    """The checker of invariant I6: only members commit, in their generation and at their coordinator.

    The checker uses the state of the group before each request, and the ids of former members. A TxnOffsetCommit
    without a member id may commit to any group (Kafka's rule for producers without group metadata).
    """

    name = "I6"
    apis = (ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT)

    def __init__(self) -> None:
        self._refusals: dict[Ticket, list[str]] = {}  # for each slice: why it must be refused, "" if it may be accepted
        self._holders: dict[tuple[str, str], str] = {}  # group and instance id -> member id
        self._fenced: dict[tuple[str, str], None] = {}

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        if call.ticket.api_key == ApiKey.OFFSET_COMMIT:
            self._refusals[call.ticket] = []
            self.resumed(broker, call, now)

    def resumed(self, broker: Broker, call: Call[Any], now: float) -> None:
        if call.ticket in self._refusals:
            why = self._why_not(broker, call.request)
            node, group_id = call.client.node, call.request.group_id
            if broker.coordinator(group_id) != node:
                why = f"broker {node} is not the coordinator"
            elif is_away(broker, group_id):
                why = f"broker {node} has not loaded the group yet"
            self._refusals[call.ticket].append(why)

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        request = call.request
        match call.ticket.api_key:
            case ApiKey.OFFSET_COMMIT:
                self._committed(broker, call, response)
            case ApiKey.JOIN_GROUP | ApiKey.CONSUMER_GROUP_HEARTBEAT if not response.error_code:
                self._joined(call, response)
            case ApiKey.LEAVE_GROUP if not response.error_code:
                for line in response.members:
                    if not line.error_code and line.member_id:
                        self._fenced[request.group_id, line.member_id] = None

    def journaled(self, broker: Broker, event: Event) -> None:
        if event.event in (EventKind.LOAD, EventKind.DELETE):
            # a member that left during a rebalance may be a member again: the leave was not written yet
            self._fenced = {key: None for key in self._fenced if key[0] != event.group}

    def crashed(self, broker: Broker, now: float) -> None:
        self._fenced.clear()
        self._refusals.clear()

    def _committed(self, broker: Broker, call: Call[Any], response: Any) -> None:
        """Check that each slice of a commit was accepted or rejected according to the group's state before the slice.

        A slice is the part of a request that is handled before other requests get a turn.

        Args:
            broker: the cluster.
            call: the request.
            response: the response body.
        """
        errors = [partition.error_code for topic in response.topics for partition in topic.partitions]
        commit = f"an offset commit of member {call.request.member_id!r} to group {call.request.group_id}"
        for number, why in enumerate(self._refusals.pop(call.ticket, [])):
            part = errors[number * broker.slice_size :][: broker.slice_size]
            if why and ErrorCode.NONE in part:
                raise self.broken(f"{commit} was accepted, although {why}")
            if not why and {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID} & {*part}:
                raise self.broken(f"{commit} was refused, although the member is in the group")

    def _joined(self, call: Call[Any], response: Any) -> None:
        request = call.request
        instance = request.group_instance_id if call.ticket.api_key == ApiKey.JOIN_GROUP else request.instance_id
        self._fenced.pop((request.group_id, response.member_id), None)
        if instance is not None:
            before = self._holders.get((request.group_id, instance))
            if before is not None and before != response.member_id:
                self._fenced[request.group_id, before] = None
            self._holders[request.group_id, instance] = response.member_id

    def _why_not(self, broker: Broker, request: Any) -> str:
        group = broker.groups.get(request.group_id)
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        if group is None:
            return "" if generation < 0 else "the group does not exist"
        if group.empty and generation < 0:
            return ""
        if (request.group_id, member_id) in self._fenced:
            return "the member was fenced or has left"
        member = group.members.get(member_id)
        if member is None:
            return "the client is not a member"
        consumers = broker.groups.get_as(request.group_id, ConsumerGroup)
        streams = broker.groups.get_as(request.group_id, StreamsGroup)
        if streams is not None:  # an older epoch is valid for tasks that the member has had since
            at = streams.members[member_id].epoch
            return "" if generation <= at else f"the epoch of the commit is {generation}, above {at}"
        at = group.generation if consumers is None else consumers.members[member_id].epoch
        return "" if generation == at else f"the generation or epoch of the commit is {generation}, not {at}"
