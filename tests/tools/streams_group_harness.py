"""A broker harness with one streams group (KIP-1071), whose members send a heartbeat only when a test calls for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.broker_harness import BrokerHarness

from kwire import ErrorCode
from kwire.assignors.sticky_tasks import Tasks
from kwire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from mockbroker.groups.streams.tasks import task_ids, task_set

Request = StreamsGroupHeartbeatRequest
Topology = Request.Topology
Subtopology = Topology.Subtopology
AT_ONCE = {"group.streams.initial.rebalance.delay.ms": 0}
NOTHING = Tasks()


def part(name: str, *sources: str, **more: Any) -> Subtopology:
    """Return a subtopology with these source topics."""
    return Subtopology(subtopology_id=name, source_topics=list(sources), **more)


def internal(name: str, partitions: int = 0, **more: Any) -> Subtopology.TopicInfo:
    """Return a repartition or changelog topic."""
    return Subtopology.TopicInfo(name=name, partitions=partitions, **more)


def topology(*parts: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(parts))


STATELESS = topology(part("0", "t"))
STATEFUL = topology(part("0", "t", state_changelog_topics=[internal("log")]))
WORD_COUNT = topology(
    part("0", "t", repartition_sink_topics=["again"]),
    part("1", repartition_source_topics=[internal("again")], state_changelog_topics=[internal("log")]),
)


@dataclass
class Client:
    """A member. ``owns``: the tasks that it runs; ``assigned``: its last assignment."""

    name: str
    topology: Topology
    epoch: int = 0
    endpoint_epoch: int = 0
    owns: Tasks = NOTHING
    assigned: Tasks = NOTHING
    answer: StreamsGroupHeartbeatResponse = field(default_factory=StreamsGroupHeartbeatResponse)


class StreamsGroupHarness(BrokerHarness):
    """A harness with one group ``g``, and the tasks that each of its members runs."""

    def __init__(self, *, config: Mapping[str, Any] | None = None, **how: Any) -> None:
        super().__init__(config=AT_ONCE | dict(config or {}), **({"topics": {"t": 3, "u": 2}} | how))
        self.clients: dict[str, Client] = {}

    @property
    def group(self) -> Any:
        return self.broker.groups["g"]

    def beat(self, name: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """Send a heartbeat with exactly these fields. Its response does not change a member."""
        request = Request(**({"group_id": "g", "member_id": name} | fields))
        node = self.broker.coordinator(request.group_id)
        return self.ask(request, 0, client_id=name, node=node)

    def join(self, name: str, topology: Topology = STATELESS, **fields: Any) -> Client:  # type: ignore[override]
        """Add a member, or let a member rejoin without tasks."""
        client = self.clients[name] = Client(name, topology)
        given: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "topology": topology,
            "process_id": name,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
        }
        self._take_up(client, self.beat(name, **given | fields))
        return client

    def poll(self, name: str, **fields: Any) -> Client:
        """Send the heartbeat of a member with the tasks that it owns, and apply the response to it."""
        client = self.clients[name]
        given = {
            "member_epoch": client.epoch,
            "endpoint_information_epoch": client.endpoint_epoch,
            **owned_fields(client.owns),
        }
        self._take_up(client, self.beat(name, **given | fields))
        return client

    def leave(self, name: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """Let a member leave. It stops all its tasks."""
        self.clients.pop(name)
        return self.beat(name, member_epoch=-1, **fields)

    def settle(self, rounds: int = 12) -> None:
        """Send heartbeats of all members until their assignments are stable."""
        for _ in range(rounds):
            before = [(client.epoch, client.owns) for client in self.clients.values()]
            for name in list(self.clients):
                self.poll(name)
            if before == [(client.epoch, client.owns) for client in self.clients.values()]:
                return
        raise AssertionError(f"not settled after {rounds} rounds")

    def active(self) -> dict[str, list[tuple[str, int]]]:
        """Return the active tasks by client."""
        return {name: sorted(client.owns.active) for name, client in self.clients.items()}

    def statuses(self, name: str) -> list[int]:
        """Return the status codes in the last response of a client."""
        return [status.status_code for status in self.clients[name].answer.status or ()]

    def describe(self, group: str = "g") -> Any:
        """Return the description of the group from the describe API."""
        return self.ask(StreamsGroupDescribeRequest(group_ids=[group]), 0, node=self.broker.coordinator(group)).groups[
            0
        ]

    def _take_up(self, client: Client, answer: StreamsGroupHeartbeatResponse) -> None:
        client.answer = answer
        if answer.error_code != ErrorCode.NONE:
            return
        client.epoch, client.endpoint_epoch = answer.member_epoch, answer.endpoint_information_epoch
        client.assigned = received(answer, client.assigned)
        client.owns = client.assigned


def received(answer: StreamsGroupHeartbeatResponse, before: Tasks) -> Tasks:
    """Return the tasks of a member after a response. ``before``: its tasks before."""
    if answer.active_tasks is None:
        return before
    return Tasks(
        task_set(answer.active_tasks), task_set(answer.standby_tasks or ()), task_set(answer.warmup_tasks or ())
    )


def owned_fields(tasks: Tasks) -> dict[str, Any]:
    """Return the fields of a heartbeat with the tasks that a member owns."""
    return {
        "active_tasks": task_ids(Request.TaskIds, tasks.active),
        "standby_tasks": task_ids(Request.TaskIds, tasks.standby),
        "warmup_tasks": task_ids(Request.TaskIds, tasks.warmup),
    }


def numbers(tasks: Iterable[tuple[str, int]]) -> list[int]:
    """Return the partitions of tasks."""
    return sorted(number for _, number in tasks)
