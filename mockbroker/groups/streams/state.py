"""The state of a streams group (KIP-1071) and its members.

Members are immutable: a change replaces the member, so a request that is rejected changes nothing. Source: Kafka's
StreamsGroup and StreamsGroupMember (4.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from math import inf
from typing import ClassVar, NamedTuple

from kwire.assignors.sticky_tasks import Task, Tasks
from kwire.assignors.sticky_tasks_incremental import BalancedTasks
from kwire.java import timeline_map_order
from kwire.lazy_dataclass import dataclass
from mockbroker.base.deadlines import Deadlines
from mockbroker.groups.coordinated import Timer
from mockbroker.groups.modern_group import EpochGroup
from mockbroker.groups.offsets import Offsets
from mockbroker.groups.partition_sets import metadata_hash, topic_metadata
from mockbroker.groups.streams.configured import ConfiguredTopology
from mockbroker.groups.streams.declaration import ASSIGNING, EMPTY, NOT_READY, RECONCILING, STABLE, STREAMS
from mockbroker.groups.streams.tasks import NOTHING, AssignedTasks
from mockbroker.groups.streams.topology import Topology
from mockbroker.topics.model import ClusterState

JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = (
    0,
    -1,
    -2,
)  # special member epochs in requests
NOT_VALIDATED = -1  # in place of a topology epoch

INITIAL_REBALANCE_TIMER: Timer = ("initial rebalance", "")


def rebalance_timer(member_id: str) -> Timer:
    """Return the timer key for a member's rebalance timeout. The member must revoke tasks within this timeout."""
    return ("rebalance", member_id)


class MemberState(Enum):
    """The reconciliation state of a member, with the numbers in Kafka's records.

    Attributes:
        STABLE: the member has all tasks of the target assignment of its epoch.
        UNREVOKED_TASKS: the member still has to revoke tasks.
        UNRELEASED_TASKS: the member waits for tasks that their previous owners have not released yet.
    """

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3


class Endpoint(NamedTuple):
    """The address of a Streams client for interactive queries (``application.server``): host name and port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """A member of a streams group: one stream thread.

    Attributes:
        member_id: member id.
        instance_id: always None: Kafka 4.2 rejects static members.
        rack_id: rack of the client; None if unknown.
        client_id: the ``client.id`` of the request header.
        client_host: address of the client.
        rebalance_timeout: maximum time in seconds for revoking tasks.
        topology_epoch: epoch of the topology that the member has.
        process_id: id of the Streams client, whose threads share a state directory.
        endpoint: address for interactive queries; None if the member has no such address.
        client_tags: tags of the client.
        epoch: member epoch.
        previous_epoch: member epoch before the latest reconciliation step.
        state: state of the reconciliation.
        assigned: assigned tasks.
        pending_revocation: tasks that the member has to revoke.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: float = -1.0
    topology_epoch: int = NOT_VALIDATED
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: AssignedTasks = NOTHING
    pending_revocation: AssignedTasks = NOTHING

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member has exactly the tasks of the target assignment with this epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch


@dataclass(slots=True)
class Owners:
    """The owner processes of each task in a streams group.

    A process owns the tasks that are assigned to its members, and the tasks that its members have not revoked yet.

    Attributes:
        active: Active task -> id of the process.
        standby: Standby task -> ids of the processes.
        warmup: Warm-up task -> ids of the processes.
    """

    active: dict[Task, str] = field(default_factory=dict)
    standby: dict[Task, set[str]] = field(default_factory=dict)
    warmup: dict[Task, set[str]] = field(default_factory=dict)

    def add(self, tasks: AssignedTasks, process_id: str) -> None:
        """Record that a process owns tasks."""
        for task in tasks.active:
            self.active[task] = process_id
        for table, added in ((self.standby, tasks.standby), (self.warmup, tasks.warmup)):
            for task in added:
                table.setdefault(task, set()).add(process_id)

    def remove(self, tasks: AssignedTasks, process_id: str) -> None:
        """Record that a process no longer owns tasks.

        If another process has become the owner of an active task, the task remains with that process.

        Args:
            tasks: The tasks.
            process_id: Id of the process that no longer owns the tasks.
        """
        for task in tasks.active:
            if self.active.get(task) == process_id:
                del self.active[task]
        for table, removed in ((self.standby, tasks.standby), (self.warmup, tasks.warmup)):
            for task in removed:
                processes = table.get(task)
                if processes is not None:
                    processes.discard(process_id)
                    if not processes:
                        del table[task]

    def replicates(self, task: Task, process_id: str) -> bool:
        """Return whether a process owns the task as a standby or warm-up task."""
        return process_id in self.standby.get(task, ()) or process_id in self.warmup.get(task, ())


@dataclass(slots=True, kw_only=True)
class StreamsGroup(EpochGroup):
    """The state of a streams group.

    Attributes:
        group_id: group id.
        epoch: group epoch, which is incremented when a new target assignment is necessary.
        assignment_epoch: group epoch for which the target assignment was computed.
        topology: the topology; None before the first member joins.
        validated_topology_epoch: epoch of the topology if all its topics exist and are valid; -1 if not.
        metadata_hash: hash of the metadata of the topology's topics, at the last read.
        assignment_configs: settings of the assignor for which the group epoch was computed.
        members: members by member id.
        target: target assignments by member id.
        balanced_tasks: state for adding a joining member to the target assignment; None if the next target is computed
            from scratch.
        configured: the topology as configured for the existing topics; None until a heartbeat configures it.
        owners: the processes that own each task.
        with_endpoint: ids of the members that have an endpoint for interactive queries.
        endpoint_epoch: epoch of the endpoint information.
        shutdown_by: id of the member that requested the shutdown of the application; "" without such a request.
        metadata_version: version of the cluster metadata at the last read; -1 before the first read.
        metadata_refresh_at: time in seconds by which the metadata must be read again.
        peak_member_count: largest number of members so far, which determines the iteration order of Kafka's hash map.
        timers: deadlines of the group and its members.
        offsets: committed offsets.
    """

    type_name: ClassVar[str] = STREAMS
    FIRST_EPOCH: ClassVar[int] = 2  # epoch 1 is that of members which wait for the first assignment
    TRANSIENT: ClassVar[frozenset[str]] = frozenset(
        {
            "balanced_tasks",
            "configured",
            "owners",
            "with_endpoint",
            "endpoint_epoch",
            "shutdown_by",
            "metadata_version",
            "metadata_refresh_at",
            "peak_member_count",
            "timers",
            "offsets",
        }
    )
    group_id: str
    epoch: int = 0
    assignment_epoch: int = 0
    topology: Topology | None = None
    validated_topology_epoch: int = 0
    metadata_hash: int = 0
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    members: dict[str, StreamsMember] = field(default_factory=dict)  # pyright: ignore[reportIncompatibleMethodOverride]
    target: dict[str, Tasks] = field(default_factory=dict)
    balanced_tasks: BalancedTasks | None = None
    configured: ConfiguredTopology | None = None
    owners: Owners = field(default_factory=Owners)
    with_endpoint: dict[str, None] = field(default_factory=dict)
    endpoint_epoch: int = 0
    shutdown_by: str = ""
    metadata_version: int = -1
    metadata_refresh_at: float = inf
    peak_member_count: int = 0
    timers: Deadlines[Timer] = field(default_factory=Deadlines)
    offsets: Offsets = field(default_factory=Offsets)

    # --- description ---

    @property
    def state_name(self) -> str:
        """Name of the state, as ListGroups reports it. Source: Kafka's StreamsGroup.maybeUpdateGroupState."""
        if not self.members:
            return EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return NOT_READY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        reconciled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return STABLE if reconciled else RECONCILING

    @property
    def state_filter(self) -> str:
        """The state as written in the state filter of ListGroups. Kafka writes the state NotReady as ``not_ready``."""
        return "not_ready" if (name := self.state_name) == NOT_READY else name.lower()

    def in_map_order(self) -> list[StreamsMember]:
        """Return the members in the iteration order of Kafka's hash map."""
        return [self.members[member_id] for member_id in timeline_map_order(self.members, self.peak_member_count)]

    # --- topics ---

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a topic is a source or repartition topic of the topology.

        The result is False if the group has no members.
        """
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of

    def read_metadata(self, topology: Topology, cluster: ClusterState) -> int:
        """Return a hash of the metadata of a topology's existing topics. ``cluster``: cluster that has the topics."""
        return metadata_hash(topic_metadata(topology.required_topics, cluster))

    # --- members ---

    def put_member(self, member: StreamsMember) -> None:
        """Add a member, or replace the member with the same id.

        If the member epoch changes, cancel the rebalance timeout.
        """
        old = self.members.get(member.member_id)
        if old is not None:
            self._remove_owner(old)
            if old.epoch != member.epoch:
                self.timers.forget(rebalance_timer(member.member_id))
        self._prepare_target(old, member)
        self.members[member.member_id] = member
        self.owners.add(member.assigned, member.process_id)
        self.owners.add(member.pending_revocation, member.process_id)
        if member.endpoint is not None:
            self.with_endpoint[member.member_id] = None
        self.peak_member_count = max(self.peak_member_count, len(self.members))

    def remove_member(self, member: StreamsMember) -> None:
        """Remove a member and its target assignment, and release its tasks.

        If no member remains, discard the request to shut down the application.
        """
        self._remove_owner(self.members.pop(member.member_id))
        self.target.pop(member.member_id, None)
        self.balanced_tasks = None
        self.with_endpoint.pop(member.member_id, None)
        if not self.members:
            self.shutdown_by = ""

    def _prepare_target(self, old: StreamsMember | None, member: StreamsMember) -> None:
        """Update ``balanced_tasks`` after a change of a member.

        ``balanced_tasks`` is the state for adding a joining member to the target assignment.

        If the state cannot be updated, set it to None: then the next target assignment is computed for all members.

        Args:
            old: The member before the change; None for a new member.
            member: The member after the change.
        """
        if self.balanced_tasks is None:
            return
        is_prepared = (
            self.balanced_tasks.join(member.member_id, member.process_id)
            if old is None
            else old.process_id == member.process_id
        )
        if not is_prepared:
            self.balanced_tasks = None

    def _remove_owner(self, member: StreamsMember) -> None:
        self.owners.remove(member.assigned, member.process_id)
        self.owners.remove(member.pending_revocation, member.process_id)
