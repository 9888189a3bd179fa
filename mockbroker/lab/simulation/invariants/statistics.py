"""The checker of invariant I14: descriptions of a group agree with its state."""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.api.snapshots import committed, snapshots
from mockbroker.base.effects import Call
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.groups.coordinated import DEAD, as_type
from mockbroker.lab.simulation.watching import Watcher


class Statistics(Watcher):
    """The checker of invariant I14: descriptions of a group agree with its state.

    The checker compares the groups with three descriptions: admin responses, snapshots of the control API, and the
    members in journal events.
    """

    name = "I14"
    apis = (ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE)

    def __init__(self) -> None:
        self._members: dict[str, dict[str, None]] = {}

    def answered(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        match call.ticket.api_key:
            case ApiKey.LIST_GROUPS:
                here = call.client.node
                reported = {group.group_id: group.group_state for group in response.groups}
                there = {name: g.state_name for name, g in broker.groups.items() if broker.coordinator(name) == here}
                if response.error_code:
                    return  # while the broker loads groups
                self._same(f"the groups of broker {here}", reported, there)
            case ApiKey.DESCRIBE_GROUPS | ApiKey.CONSUMER_GROUP_DESCRIBE:
                for group in response.groups:
                    if not group.error_code and group.group_state != DEAD:
                        self._described(broker, group)
            case _:
                pass

    def _described(self, broker: Broker, reported: Any) -> None:
        group = broker.groups.get(reported.group_id)
        if group is None:
            raise self.broken(f"a response describes group {reported.group_id}, which does not exist")
        self._same(f"the state of group {reported.group_id}", reported.group_state, group.state_name)
        there = {name: member.client_id for name, member in group.members.items()}
        self._same(f"members of {reported.group_id}", {m.member_id: m.client_id for m in reported.members}, there)
        consumers = broker.groups.get_as(reported.group_id, ConsumerGroup)
        classic = broker.groups.get_as(reported.group_id, ClassicGroup)
        if consumers is not None:
            epochs = {name: member.epoch for name, member in consumers.members.items()}
            self._same(
                f"epochs of {reported.group_id}", {m.member_id: m.member_epoch for m in reported.members}, epochs
            )
            self._same(f"the epoch of {reported.group_id}", reported.group_epoch, consumers.epoch)
        elif classic is not None and reported.group_state == "Stable":
            given = {name: member.assignment for name, member in classic.members.items()}
            self._same(
                f"assignments of {reported.group_id}",
                {m.member_id: m.member_assignment for m in reported.members},
                given,
            )
            self._same(f"the protocol of {reported.group_id}", reported.protocol_data, classic.protocol)

    def journaled(self, broker: Broker, event: Event) -> None:
        members = self._members.setdefault(event.group, {})
        match event.event:
            case EventKind.JOIN:
                members[event.member_id] = None
            case EventKind.LEAVE | EventKind.EXPIRE if event.reason != "member id was never used":
                members.pop(event.member_id, None)
            case EventKind.REJOIN if " rejoined, " in event.reason:  # "static member I rejoined, OLD is fenced"
                members.pop(event.reason.partition(" rejoined, ")[2].split()[0], None)
                members[event.member_id] = None
            case EventKind.LOAD:
                self._members[event.group] = dict.fromkeys(event.members)
            case EventKind.DELETE | EventKind.UNLOAD:
                self._members.pop(event.group, None)
            case _:
                pass

    def crashed(self, broker: Broker, now: float) -> None:
        self._members.clear()

    def inspect(self, broker: Broker, now: float) -> None:
        groups = snapshots(broker)
        self._same("the groups", list(groups), list(broker.groups))
        for group_id, reported in groups.items():
            group = broker.groups[group_id]
            self._same("the state", reported.state, group.state_name, group_id)
            self._same("the members", [m.member_id for m in reported.members], list(group.members), group_id)
            by_journal = self._members.get(group_id, {})
            if by_journal.keys() != group.members.keys():
                what = f"the members of group {group_id} (from the journal)"
                self._same(what, sorted(by_journal), sorted(group.members))
            self._same("the generation", reported.generation, group.generation, group_id)
            there = {place: each.offset for place, each in group.offsets.committed.items()}
            self._same("the offsets", committed(broker, group_id), there, group_id)
            if (classic := as_type(group, ClassicGroup)) is not None:
                self._same("the leader", reported.leader, classic.leader, group_id)

    def _same(self, what: str, reported: object, there: object, group_id: str | None = None) -> None:
        if reported != there:
            of = "" if group_id is None else f" of group {group_id}"
            raise self.broken(f"{what}{of}: the API reported {reported}, but the broker has {there}")
