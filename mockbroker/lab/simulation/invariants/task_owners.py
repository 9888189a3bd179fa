"""The checker of invariant I20: no active task of a streams group has two owners, and no process owns a task twice."""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.streams.state import StreamsGroup
from mockbroker.lab.simulation.invariants.task_targets import task_name
from mockbroker.lab.simulation.watching import Watcher

Tasks = frozenset[tuple[str, int]]
NOTHING: tuple[Tasks, Tasks] = (frozenset(), frozenset())


class TaskOwners(Watcher):
    """The checker of invariant I20: no active task of a streams group has two owners, and no process owns a task twice.

    A member owns a task from its assignment until the member reports the task as closed, rejoins, or is removed. As in
    Kafka, a member that was removed may run a task until it receives an error.
    """

    name = "I20"
    apis = (ApiKey.STREAMS_GROUP_HEARTBEAT,)

    def __init__(self) -> None:
        self._owned: dict[str, dict[str, tuple[Tasks, Tasks]]] = {}  # group -> member -> active and standby tasks
        self._processes: dict[tuple[str, str], str] = {}
        self._connections: dict[tuple[str, str], int] = {}

    def before(self, broker: Broker, call: Call[Any], now: float) -> None:
        """Update the tasks and the process id of a member from its heartbeat.

        If the heartbeat lists the tasks of the member, the member has closed all tasks that are not listed. The list is
        ignored if the member has sent a request on a newer connection.

        Args:
            broker: the cluster.
            call: the request.
            now: broker time, seconds.
        """
        request = call.request
        key = request.group_id, request.member_id
        if request.process_id is not None:
            self._processes[key] = request.process_id
        if request.active_tasks is not None and self._is_newest(call):
            owned = self._owned.setdefault(request.group_id, {})
            active, standby = owned.get(request.member_id, NOTHING)
            reported = _tasks(request.active_tasks), _tasks(request.standby_tasks)
            owned[request.member_id] = active & reported[0], standby & reported[1]

    def _is_newest(self, call: Call[Any]) -> bool:
        key = call.request.group_id, call.request.member_id
        newest = self._connections[key] = max(self._connections.get(key, 0), call.ticket.connection)
        return newest == call.ticket.connection

    def journaled(self, broker: Broker, event: Event) -> None:
        if event.event == EventKind.DELETE:
            self._owned.pop(event.group, None)
        elif event.event in (EventKind.LEAVE, EventKind.EXPIRE):
            self._owned.get(event.group, {}).pop(event.member_id, None)

    def acknowledged(self, broker: Broker, call: Call[Any], response: Any, now: float) -> None:
        if response.error_code:
            return
        request = call.request
        group = broker.groups.get_as(request.group_id, StreamsGroup)
        if group is None:
            return
        owned = self._owned.setdefault(request.group_id, {})
        for gone in [name for name in owned if name not in group.members]:
            del owned[gone]
        member = response.member_id
        if request.member_epoch < 0 or member not in group.members or response.active_tasks is None:
            return
        if self._is_newest(call):
            active, standby = owned.get(member, NOTHING)
            owned[member] = active | _tasks(response.active_tasks), standby | _tasks(response.standby_tasks)
            self._check(request.group_id, member, owned)

    def _check(self, group_id: str, member: str, owned: dict[str, tuple[Tasks, Tasks]]) -> None:
        active, standby = owned[member]
        for other, (others_active, others_standby) in owned.items():
            if other == member:
                continue
            if both := active & others_active:
                raise self.broken(
                    f"task {task_name(min(both))} of group {group_id} is assigned to member {member}, but member "
                    f"{other} owns it"
                )
            same = self._processes.get((group_id, member)) == self._processes.get((group_id, other))
            if same and (both := (active | standby) & (others_active | others_standby)):
                raise self.broken(
                    f"task {task_name(min(both))} of group {group_id} is assigned to member {member}, but member "
                    f"{other} of the same process owns it"
                )


def _tasks(lines: Any) -> Tasks:
    return frozenset((line.subtopology_id, index) for line in lines or () for index in line.partitions)
