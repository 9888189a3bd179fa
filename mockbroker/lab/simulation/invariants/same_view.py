"""I3: all members of a generation saw the same leader and protocol, and the leader saw all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.classic.state import ClassicGroup, State
from mockbroker.lab.simulation.watching import Watcher, taken_out


@dataclass(slots=True)
class View:
    """What members received of one generation. ``told``: the members that received it, with the metadata of their
    JoinGroup, which may be another one in the next generation; ``shares``: what its leader gave each, once it has."""

    protocol: str | None
    leader: str
    told: dict[str, bytes] = field(default_factory=dict)
    listed: frozenset[str] | None = None
    shares: dict[str, bytes] | None = None


class SameView(Watcher):
    """Members by their instance, if they have one: a static member may come back under another id, and is told of the
    leader by the id that it had."""

    name = "I3"

    def __init__(self) -> None:
        self._views: dict[tuple[str, int], View] = {}
        self._unloaded: dict[str, dict[tuple[str, int], View]] = {}
        self._names: dict[tuple[str, str], str] = {}

    def _name(self, group: str, member_id: str) -> str:
        return self._names.get((group, member_id), member_id)

    def _learn(self, group: ClassicGroup) -> None:
        for instance, member_id in group.static.items():
            self._names[group.group_id, member_id] = instance

    def noted(self, broker: Broker, event: Event) -> None:
        match event.event:
            case EventKind.DELETE | EventKind.UPGRADE | EventKind.DOWNGRADE:
                taken_out(self._views, event.group)
            case EventKind.UNLOAD:
                self._unloaded[event.group] = taken_out(self._views, event.group)
            case EventKind.LOAD:  # what was not settled is forgotten, and its generation is given again
                found = self._unloaded.pop(event.group, {})
                self._views |= {key: view for key, view in found.items() if key[1] <= event.generation}
            case _:
                pass

    def gone(self, broker: Broker, now: float) -> None:
        self._views.clear()
        self._unloaded.clear()

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        request = call.request
        if call.ticket.api_key == ApiKey.SYNC_GROUP and request.assignments:
            group = broker.groups.typed(request.group_id, ClassicGroup)
            view = self._views.get((request.group_id, request.generation_id))
            if group is None or view is None or view.shares is not None:
                return
            who = self._name(request.group_id, request.member_id)
            awaited = group.generation == request.generation_id and group.state is State.COMPLETING
            if awaited and who == view.leader:
                view.shares = {
                    self._name(request.group_id, each.member_id): each.assignment for each in request.assignments
                }

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if response.error_code if hasattr(response, "error_code") else True:
            return
        group = broker.groups.typed(getattr(call.request, "group_id", ""), ClassicGroup)
        if group is None:
            return
        self._learn(group)
        match call.ticket.api_key:
            case ApiKey.JOIN_GROUP:
                self._joined(call.request, response)
            case ApiKey.SYNC_GROUP:
                self._synced(call.request, response)

    def _joined(self, request: Any, response: Any) -> None:
        group = request.group_id
        if request.group_instance_id is not None:
            self._names[group, response.member_id] = request.group_instance_id
        who = self._name(group, response.member_id)
        leader = self._name(group, response.leader)
        key = group, response.generation_id
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = View(response.protocol_name, leader)
        if (view.protocol, view.leader) != (response.protocol_name, leader):
            told = f"{view.leader} {view.protocol}, and {who} {leader} {response.protocol_name}"
            raise self.broken(f"of {key} somebody was told leader and protocol {told}")
        view.told[who] = request.protocols[0].metadata
        if response.members:
            if who != leader:
                raise self.broken(f"{who} of {key} got the list of members, and {leader} leads")
            view.listed = frozenset(self._name(group, member.member_id) for member in response.members)
            for member in response.members:
                if view.told.get(self._name(group, member.member_id), member.metadata) != member.metadata:
                    raise self.broken(f"the leader of {key} was told what {member.member_id} did not say")
        elif who == leader and not response.skip_assignment and response.leader == response.member_id:
            raise self.broken(f"{who} of {key} leads, and got no list of members")
        if view.listed is not None and (missing := [name for name in view.told if name not in view.listed]):
            raise self.broken(f"the leader of {key} was not told of {missing[0]}, who is in")

    def _synced(self, request: Any, response: Any) -> None:
        view = self._views.get((request.group_id, request.generation_id))
        if view is None or view.shares is None:
            return
        who = self._name(request.group_id, request.member_id)
        if response.assignment != view.shares.get(who, b""):
            raise self.broken(f"{who} of {request.group_id} {request.generation_id} got what its leader gave another")
