"""``KafkaCluster``, the type of the fixture ``kafka_cluster`` in annotations."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

from mockbroker.api.connections import ConnectionSnapshot
from mockbroker.api.fault_names import ApiName
from mockbroker.api.fault_options import RuleGiven
from mockbroker.api.names import ClockMode, GroupState
from mockbroker.api.records import Record, Value
from mockbroker.api.snapshots import GroupSnapshot, TransactionSnapshot
from mockbroker.api.thread import ThreadClock
from mockbroker.api.thread_faults import ThreadFaults
from mockbroker.broker.journal import Event, Journal
from mockbroker.broker.request_log import Request
from mockbroker.net.tls import TlsFiles
from mockbroker.topics.model import Node

M = TypeVar("M")


class KafkaCluster(Protocol):
    """The type of a cluster for a test or a fixture: ``def test_orders(kafka_cluster: KafkaCluster) -> None``.

    The fixture ``kafka_cluster`` and ``run_cluster`` provide it. An object of your own with the same methods, such as a
    wrapper that creates topics first, has this type too. ``ThreadCluster`` has the full description of each method.

    Attributes:
        nodes: The brokers with their ids and addresses.
        bootstrap_servers: The ``bootstrap.servers`` for clients.
        listeners: The ``bootstrap.servers`` of each listener, by listener name.
        tls: The CA and client certificate files for TLS clients.
        journal: The journal of group events.
        clock: The broker's clock, which a test can stop and advance.
        faults: The fault rules, which make the cluster misbehave on command.
    """

    @property
    def nodes(self) -> tuple[Node, ...]: ...

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def listeners(self) -> dict[str, str]: ...

    @property
    def tls(self) -> TlsFiles: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def clock(self) -> ThreadClock: ...

    @property
    def faults(self) -> ThreadFaults: ...

    def assert_no_commit_lost(self, group_id: str) -> None:
        """Assert that no committed offset of a group was lost."""
        ...

    def assert_delivered(self, group_id: str, topic: str | None = None, *, at_most: int = 1) -> None:
        """Assert that no record was delivered to the members of a share group more often than ``at_most`` times.

        For the arguments, see ``ThreadCluster.assert_delivered``.
        """
        ...

    def assert_acknowledged(self, group_id: str, topic: str | None = None, *, rejected: int = 0) -> None:
        """Assert that the members of a share group have accepted all records, except ``rejected`` records.

        For the arguments, see ``ThreadCluster.assert_acknowledged``.
        """
        ...

    def assert_owned_once(self, group_id: str, topic: str | None = None) -> None:
        """Assert that no partition was assigned to two members of a group at the same time.

        For the arguments, see ``ThreadCluster.assert_owned_once``.
        """
        ...

    def assert_requested(
        self, api: ApiName, count: int | None = None, where: str = "", *, at_least: int | None = None
    ) -> list[Request]:
        """Assert how many requests of an API the cluster has received, and return them.

        For the arguments, see ``ThreadCluster.assert_requested``.
        """
        ...

    def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group, by topic and partition; empty if the group does not exist."""
        ...

    def compact(self, topic: str | None = None) -> None:
        """Compact a topic, or all topics with ``cleanup.policy=compact``, without waiting for the log cleaner.

        ``topic``: only this topic; None for all topics.
        """
        ...

    def compact_async(self, topic: str | None = None) -> Coroutine[Any, Any, None]:
        """Return a coroutine that compacts topics as ``compact`` does: ``await`` the coroutine in an event loop."""
        ...

    def connections(self) -> dict[int, ConnectionSnapshot]:
        """Return a snapshot of every open connection, by its number, oldest first."""
        ...

    def coordinator(self, group_id: str) -> int:
        """Return the id of the broker that coordinates a group; -1 if the coordinator is unavailable."""
        ...

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        """Create a topic with ``default.replication.factor`` replicas.

        For the arguments, see ``ThreadCluster.create_topic``.
        """
        ...

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete the records of a partition before an offset, as retention does; return the log start offset.

        For the arguments, see ``ThreadCluster.delete_records``.
        """
        ...

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and committed offsets."""
        ...

    def disconnect(self, connection_id: int | None = None, *, client_id: str | None = None, reset: bool = False) -> int:
        """Close connections of clients, and drop their pending requests; return the number of closed connections.

        For the arguments, see ``ThreadCluster.disconnect``.
        """
        ...

    def events(self) -> list[Event]:
        """Return the group events since the cluster started or was reset, oldest first."""
        ...

    def evict(self, group_id: str, member_id: str, reason: str = "") -> None:
        """Remove a member from a group as an administrator; the group rebalances.

        ``reason``: text for the journal.
        """
        ...

    def freeze_metadata(self, *nodes: int) -> None:
        """Freeze the metadata that brokers return (brokers, leaders and coordinators) until ``thaw_metadata``.

        ``nodes``: ids of the brokers.
        """
        ...

    def groups(self) -> dict[str, GroupSnapshot]:
        """Return a snapshot of every group, by group id."""
        ...

    def kill_broker(self, node: int, noticed_after: float = 0.0) -> None:
        """Crash a broker: its connections are reset, and its pending requests are lost.

        For the arguments, see ``ThreadCluster.kill_broker``.
        """
        ...

    def lose_records(self, topic: str, partition: int, count: int) -> int:
        """Elect an unclean leader whose log does not contain the last ``count`` records of a partition.

        Return the new log end offset.
        """
        ...

    def move_coordinator(self, group_id: str, node: int) -> None:
        """Make broker ``node`` the coordinator of a group and of all groups on its ``__consumer_offsets`` partition."""
        ...

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make broker ``node`` the leader of a partition."""
        ...

    def pause_replica(self, topic: str, partition: int, node: int) -> None:
        """Stop a follower, the replica on broker ``node``, from fetching.

        The follower then lags behind and leaves the in-sync replicas.
        """
        ...

    def produce(
        self,
        topic: str,
        records: Iterable[Value],
        *,
        partition: int | None = None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
    ) -> list[int]:
        """Append records to a topic without a client, and return the offset of each one.

        For the arguments, see ``ThreadCluster.produce``.
        """
        ...

    def rebalance(self, group_id: str, reason: str = "") -> None:
        """Start a rebalance of a group.

        ``reason``: text for the journal.
        """
        ...

    def records(self, topic: str, partition: int | None = None, *, committed: bool = False) -> list[Record]:
        """Return the records of a topic, ordered by partition and offset.

        For the arguments, see ``ThreadCluster.records``.
        """
        ...

    @overload
    def requests(self, api: type[M]) -> list[Request[M]]: ...
    @overload
    def requests(self, api: ApiName | None = None) -> list[Request]: ...
    def requests(self, api: ApiName | type[Any] | None = None) -> list[Request]:
        """Return the decoded requests of clients, oldest first.

        ``api``: only requests of this API; None for all APIs.
        """
        ...

    def reset(self) -> None:
        """Reset the cluster to its initial topics and settings, at the same addresses."""
        ...

    def resume_replica(self, topic: str, partition: int, node: int) -> None:
        """Let a paused replica on broker ``node`` fetch again: it has all records at once and rejoins the in-sync
        replicas.
        """
        ...

    def run_retention(self, topic: str | None = None) -> dict[tuple[str, int], int]:
        """Delete the log segments that retention allows to delete; return the new log start offsets, by topic and
        partition.

        ``topic``: only this topic; None for all topics.
        """
        ...

    def set_committed(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group, as an administrator does with ``kafka-consumer-groups --reset-offsets``.

        ``offsets``: offset of the next record to read, by topic and partition.
        """
        ...

    def start_broker(self, node: int) -> None:
        """Start a broker that was stopped or killed, at the same addresses."""
        ...

    def stop_broker(self, node: int) -> None:
        """Shut a broker down cleanly: other brokers take over its partitions, then its connections are closed."""
        ...

    def thaw_metadata(self, *nodes: int) -> None:
        """Make brokers return current metadata again after ``freeze_metadata``.

        ``nodes``: ids of the brokers; none for all.
        """
        ...

    def transactions(self) -> dict[str, TransactionSnapshot]:
        """Return a snapshot of every transactional id, by transactional id."""
        ...

    def wait_group(
        self, group_id: str, state: GroupState | None = "Stable", members: int | None = None, timeout: float = 10.0
    ) -> GroupSnapshot:
        """Wait until a group has a given state and number of members, and return a snapshot of the group.

        For the arguments, see ``ThreadCluster.wait_group``.
        """
        ...

    def wait_group_async(
        self, group_id: str, state: GroupState | None = "Stable", members: int | None = None, timeout: float = 10.0
    ) -> Coroutine[Any, Any, GroupSnapshot]:
        """Return a coroutine that waits as ``wait_group`` does: ``await`` the coroutine in an event loop."""
        ...


class KafkaClusterFactory(Protocol):
    """The type of the fixture ``kafka_cluster_factory``: a function that creates clusters for one test."""

    def __call__(
        self,
        *,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, object] | None = None,
        listeners: Iterable[str] = (),
        users: Mapping[str, str] | None = None,
        clock: ClockMode = "real",
        as_version: str | None = None,
        data_dir: str | Path | None = None,
        port: int = 0,
        faults: Sequence[RuleGiven] = (),
    ) -> KafkaCluster:
        """Create a cluster, and return it. It is closed at the end of the test.

        For the arguments, see ``run_cluster``.
        """
        ...
