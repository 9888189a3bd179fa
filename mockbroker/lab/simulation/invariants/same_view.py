"""The checker of invariant I3, which is about the JoinGroup responses of a generation.

All members of a generation receive the same leader and protocol. The leader receives the list of all members.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from kwire.apikeys import ApiKey
from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Call, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.classic.state import ClassicGroup, State
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.lab.simulation.watching import Watcher, remove_group


@dataclass(slots=True)
class View:
    """The JoinGroup and SyncGroup messages of one generation.

    A member's name is its instance id, or its member id if it is dynamic.

    Attributes:
        protocol: protocol in the JoinGroup responses.
        leader: name of the leader in the JoinGroup responses.
        metadata: name -> metadata in the member's JoinGroup, for each member that has received a JoinGroup response.
        listed: names of the members in the leader's JoinGroup response; None until that response.
        shares: name -> assignment in the leader's SyncGroup; None until that request.
    """

    protocol: str | None
    leader: str
    metadata: dict[str, bytes] = field(default_factory=dict)
    listed: frozenset[str] | None = None
    shares: dict[str, bytes] | None = None


class SameView(Watcher):
    """The checker of invariant I3: the members of a generation agree on leader and protocol, and the leader gets all
    members.

    Static members are identified by instance id, because their member ids change.
    """

    name = "I3"

    def __init__(self) -> None:
        self._views: dict[tuple[str, int], View] = {}
        self._unloaded: dict[str, dict[tuple[str, int], View]] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._mixed: set[Ticket] = set()  # JoinGroups to groups that were consumer groups before the request

    def _name(self, group: str, member_id: str) -> str:
        return self._names.get((group, member_id), member_id)

    def _record_instances(self, group: ClassicGroup) -> None:
        for instance, member_id in group.static_members.items():
            self._names[group.group_id, member_id] = instance

    def journaled(self, broker: Broker, event: Event) -> None:
        match event.event:
            case EventKind.DELETE | EventKind.UPGRADE | EventKind.DOWNGRADE:
                remove_group(self._views, event.group)
            case EventKind.UNLOAD:
                self._unloaded[event.group] = remove_group(self._views, event.group)
            case EventKind.LOAD:  # unwritten generations are lost, and their numbers are used again
                unloaded = self._unloaded.pop(event.group, {})
                self._views |= {key: view for key, view in unloaded.items() if key[1] <= event.generation}
            case _:
                pass

    def replaced(self, broker: Broker, group_id: str) -> None:
        remove_group(self._views, group_id)

    def crashed(self, broker: Broker, now: float) -> None:
        self._views.clear()
        self._unloaded.clear()

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        request = call.request
        if call.ticket.api_key == ApiKey.JOIN_GROUP and broker.groups.get_as(request.group_id, ConsumerGroup):
            self._mixed.add(call.ticket)
        if call.ticket.api_key == ApiKey.SYNC_GROUP and request.assignments:
            group = broker.groups.get_as(request.group_id, ClassicGroup)
            view = self._views.get((request.group_id, request.generation_id))
            if group is None or view is None or view.shares is not None:
                return
            member_name = self._name(request.group_id, request.member_id)
            awaited = group.generation == request.generation_id and group.state is State.COMPLETING
            if awaited and member_name == view.leader:
                view.shares = {
                    self._name(request.group_id, each.member_id): each.assignment for each in request.assignments
                }

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if self._mixed and call.ticket in self._mixed:  # a classic member of a consumer group has no leader
            self._mixed.discard(call.ticket)
            return
        if getattr(response, "error_code", -1):
            return
        group = broker.groups.get_as(getattr(call.request, "group_id", ""), ClassicGroup)
        if group is None:
            return
        if group.static_members:
            self._record_instances(group)
        match call.ticket.api_key:
            case ApiKey.JOIN_GROUP:
                self._joined(call.request, response)
            case ApiKey.SYNC_GROUP:
                self._synced(call.request, response)

    def _joined(self, request: Any, response: Any) -> None:
        group = request.group_id
        if request.group_instance_id is not None:
            self._names[group, response.member_id] = request.group_instance_id
        member_name = self._name(group, response.member_id)
        leader = self._name(group, response.leader)
        key, at = (group, response.generation_id), f"group {group} in generation {response.generation_id}"
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = View(response.protocol_name, leader)
        if (view.protocol, view.leader) != (response.protocol_name, leader):
            raise self.broken(
                f"the JoinGroup responses of {at} differ: member {member_name} got leader {leader} and protocol "
                f"{response.protocol_name}, another member got {view.leader} and {view.protocol}"
            )
        view.metadata[member_name] = request.protocols[0].metadata
        if response.members:
            if member_name != leader:
                raise self.broken(f"member {member_name} got the member list of {at}, although {leader} is the leader")
            view.listed = frozenset(self._name(group, member.member_id) for member in response.members)
            for member in response.members:
                if view.metadata.get(self._name(group, member.member_id), member.metadata) != member.metadata:
                    raise self.broken(
                        f"the leader of {at} got other metadata of member {member.member_id} than this member sent"
                    )
        elif member_name == leader and not response.skip_assignment and response.leader == response.member_id:
            raise self.broken(f"member {member_name} is the leader of {at}, but got no member list")
        if view.listed is not None and (missing := [name for name in view.metadata if name not in view.listed]):
            raise self.broken(f"the leader of {at} got a member list without {missing[0]}")

    def _synced(self, request: Any, response: Any) -> None:
        view = self._views.get((request.group_id, request.generation_id))
        if view is None or view.shares is None:
            return
        member_name = self._name(request.group_id, request.member_id)
        if response.assignment != view.shares.get(member_name, b""):
            raise self.broken(
                f"member {member_name} of group {request.group_id} in generation {request.generation_id} got an "
                "assignment that the leader did not send"
            )
