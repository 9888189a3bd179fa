"""The operations of a cluster, shared by its two handles: ``Cluster`` for trio and ``ThreadCluster`` for any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, overload

from mockbroker.api import connections, groups, snapshots
from mockbroker.api import records as topic_records
from mockbroker.api.connections import ConnectionSnapshot, OpenConnection
from mockbroker.api.home import Home
from mockbroker.api.records import Record, Value
from mockbroker.api.snapshots import GroupSnapshot, TransactionSnapshot
from mockbroker.broker import failover
from mockbroker.broker.journal import Event
from mockbroker.broker.request_log import Request
from mockbroker.broker.router import Router
from mockbroker.net.server import Server

if TYPE_CHECKING:
    from mockbroker.api.fault_names import ApiName

M = TypeVar("M")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Handle:
    """The base class of all handles of a cluster.

    Operations run in the current thread, unless a subclass overrides ``_perform``.
    """

    _home: Home | None = None  # where the handle may be used; None if this is not checked

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: a handle works only in the process of its cluster, and cannot be pickled or copied."""
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: pass bootstrap_servers to another process"
        )

    def _perform(self, call: Callable[[Any], T]) -> T:
        """Run an operation: call ``call`` with the object that owns the cluster.

        Return its result, or raise its exception.

        Raises: ClusterClosedError if the cluster is closed, and in a forked process; RuntimeError in a thread that does
        not run the cluster.
        """
        self._check_home()
        return call(self)

    def _check_home(self) -> None:
        """Raise an error if the cluster is closed, or the caller is in a process or thread that does not run it."""
        if self._home is not None:
            self._home.check()

    def _check_run(self) -> None:
        """Raise an error if the caller is not a task of the trio run of the cluster."""
        if self._home is not None:
            self._home.check_run()


def operation(method: F) -> F:
    """Return a method for handles: it calls ``method`` through ``Handle._perform``. The function is used as a
    decorator.

    In ``method``, ``self`` is the object that owns the cluster, such as ``Cluster``, and not the handle.
    """

    @wraps(method)
    def performed(self: Handle, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return self._perform(lambda owner: method(owner, *args, **kwargs))

    return cast("F", performed)


class ClusterOperations(Handle):
    """The operations of a cluster that return immediately; base class of ``Cluster`` and ``ThreadCluster``."""

    _router: Router
    _server: Server

    @operation
    def events(self) -> list[Event]:
        """Return the group events since the cluster started or was reset, oldest first."""
        return list(self._router.journal.events)

    @overload
    def requests(self, api: type[M]) -> list[Request[M]]: ...
    @overload
    def requests(self, api: ApiName | None = None) -> list[Request]: ...
    @operation
    def requests(self, api: ApiName | type[Any] | None = None) -> list[Request]:
        """Return the decoded requests of clients, oldest first.

        The latest 10,000 requests are kept, up to 32 MiB of frames.

        Args:
            api: Only requests of this API; None for all APIs. The value is Kafka's name of the API, such as
                ``"JoinGroup"``, or the class of its requests, such as ``JoinGroupRequest``. With the class, type
                checkers know the fields of ``body``.

        Raises: ValueError if ``api`` is not the name of an API, or the class is not the class of a request; TypeError
        if it is neither a name nor a class.
        """
        return self._router.requests.select(api)

    @operation
    def groups(self) -> dict[str, GroupSnapshot]:
        """Return a snapshot of every group, by group id."""
        return snapshots.snapshots(self._router.broker)

    @operation
    def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group, by topic and partition; empty if the group does not exist."""
        return snapshots.committed(self._router.broker, group_id)

    @operation
    def transactions(self) -> dict[str, TransactionSnapshot]:
        """Return a snapshot of every transactional id, by transactional id."""
        return snapshots.transactions(self._router.broker)

    @operation
    def connections(self) -> dict[int, ConnectionSnapshot]:
        """Return a snapshot of every open connection, by its number, oldest first."""
        return connections.snapshots(self._server.pump)

    def open_connections(self) -> list[OpenConnection]:
        """Return every open connection, oldest first.

        The live page uses this method to find the connections that have changed.
        """
        return connections.open_connections(self._server.pump)

    @operation
    def disconnect(self, connection_id: int | None = None, *, client_id: str | None = None, reset: bool = False) -> int:
        """Close connections of clients, and drop their pending requests; return the number of closed connections.

        A pending JoinGroup or SyncGroup remains in the group, as in Kafka when a client disconnects.

        Args:
            connection_id: Number of one connection, from ``connections()``.
            client_id: Client id, with wildcards (``*``, ``?``, and ``\\`` before a literal character); all matching
                connections are closed. No match is not an error.
            reset: True to send a TCP reset, False to send finished responses and then close the connection.

        Raises:
            UnknownConnectionError: No connection with this number is open.
            ValueError: Neither or both of ``connection_id`` and ``client_id`` are given, or the glob is invalid.
        """
        closed = connections.select(self._server.pump, connection_id, client_id)
        for number in closed:
            self._server.disconnect(number, reset=reset)
        return len(closed)

    @operation
    def evict(self, group_id: str, member_id: str, reason: str = "") -> None:
        """Remove a member from a group as an administrator; the group rebalances.

        Pending requests of the member, or its next heartbeat, are answered with UNKNOWN_MEMBER_ID. The journal has an
        ``expire`` event whose reason begins with "evicted by an administrator".

        Args:
            group_id: Id of the group.
            member_id: The member, or a member id that no JoinGroup has used yet. Such an id is removed without a
                rebalance.
            reason: Reason for the journal; "" for none.

        Raises: UnknownGroupError; UnknownMemberError; CoordinatorUnavailableError.
        """
        now = self._server.clock.read()
        self._server.perform(groups.evict(self._router.broker, group_id, member_id, reason, now))

    @operation
    def rebalance(self, group_id: str, reason: str = "") -> None:
        """Start a rebalance of a group.

        The members of a classic group learn of the rebalance by their next heartbeat (REBALANCE_IN_PROGRESS) and join
        again; during a join phase, nothing is done. In all other types of groups, a new group epoch starts.

        Args:
            group_id: Id of the group.
            reason: Reason for the journal; "" for none.

        Raises: UnknownGroupError; EmptyGroupError; CoordinatorUnavailableError.
        """
        now = self._server.clock.read()
        self._server.perform(groups.rebalance(self._router.broker, group_id, reason, now))

    @operation
    def set_committed(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group, as an administrator does with ``kafka-consumer-groups --reset-offsets``.

        The group is created if it does not exist. Unlike in Kafka, the group may have members. The members continue at
        their positions, and their next commit replaces these offsets. A member that gets the partition in a later
        assignment starts at the committed offset.

        Args:
            group_id: Id of the group.
            offsets: Offset of the next record to read, by topic and partition.

        Raises: UnknownTopicError; ValueError for an offset that is out of range, or a group id that cannot be encoded;
            TypeError for an offset that is not an integer, or a key that is not a pair of topic and partition;
            CoordinatorUnavailableError. After an error, no offset is stored.
        """
        now = self._server.clock.read()
        self._server.perform(groups.set_committed(self._router.broker, group_id, offsets, now))

    @operation
    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        """Create a topic with ``default.replication.factor`` replicas.

        Args:
            name: The name of the topic.
            partitions: Number of partitions.
            config: Topic configurations by Kafka's names, such as ``{"cleanup.policy": "compact"}``.

        Raises: TopicExistsError; SettingsError if its name, number of partitions or configuration is invalid.
        """
        topic_records.create_topic(self._router.broker, name, partitions, config)
        self._server.perform([])

    @operation
    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and committed offsets.

        Raises: UnknownTopicError; InternalTopicError.
        """
        self._server.perform(topic_records.delete_topic(self._router.broker, name))

    @operation
    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete the records of a partition before an offset, as retention does; return the log start offset.

        A consumer at a deleted offset gets OFFSET_OUT_OF_RANGE.

        Args:
            topic: The topic, which must exist.
            partition: Index of the partition.
            before: Offset of the first record that is kept; -1 to delete all records.

        Raises: UnknownTopicError; InternalTopicError; ValueError if the offset is out of range; TypeError if it is not
            an integer.
        """
        start, effects = topic_records.delete_records(self._router.broker, topic, partition, before)
        self._server.perform(effects)
        return start

    @operation
    def run_retention(self, topic: str | None = None) -> dict[tuple[str, int], int]:
        """Delete the log segments that retention allows to delete, without waiting for the next check.

        The topic configurations ``retention.ms``, ``retention.bytes`` and ``cleanup.policy`` decide, as in Kafka. A
        consumer at a deleted offset gets OFFSET_OUT_OF_RANGE.

        Args:
            topic: Only this topic; None for all topics.

        Returns:
            The new log start offset of each partition with deleted segments, by topic and partition.

        Raises: UnknownTopicError; InternalTopicError.
        """
        now = self._server.clock.read()
        starts, effects = topic_records.run_retention(self._router.broker, topic, now)
        self._server.perform(effects)
        return starts

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

        Fetch requests that wait for new records are answered.

        Args:
            topic: The topic, which must exist.
            records: Values (bytes, text that is encoded as UTF-8, or None for a tombstone) or ``Record`` objects. The
                arguments ``partition``, ``key``, ``headers`` and ``timestamp`` apply only to values.
            partition: Partition to append to. With None, the key decides as in Kafka's producer, and records without a
                key are distributed round-robin, beginning with partition 0.
            key: Key of each record.
            headers: Headers of each record, as pairs of name and value.
            timestamp: Timestamp of each record in milliseconds since 1970; None for the broker's current time.

        Raises: UnknownTopicError if the topic or a partition does not exist; InternalTopicError; TypeError if
            ``records`` is one value instead of several, or a record has a field of a wrong type; kwire.EncodeError for
            a value out of range, such as a timestamp of 2**63; ValueError if the topic does not allow a record: it is
            too large, its timestamp is out of range, or it has no key and the topic is compacted. After an error, no
            record is written.
        """
        template = Record(key=key, headers=headers, timestamp=timestamp, partition=partition)
        return self._append(topic, topic_records.as_records(records, template))

    @operation
    def _append(self, topic: str, records: Sequence[Record]) -> list[int]:
        now = self._server.clock.read()
        offsets, effects = topic_records.produce(self._router.broker, topic, records, now)
        self._server.perform(effects)
        return offsets

    @operation
    def records(self, topic: str, partition: int | None = None, *, committed: bool = False) -> list[Record]:
        """Return the records of a topic, ordered by partition and offset.

        Args:
            topic: The topic, which must exist.
            partition: Only the records of this partition; None for all partitions.
            committed: True to return only the records that a consumer with ``isolation.level=read_committed`` can read.

        Raises: UnknownTopicError if the topic or the partition does not exist.
        """
        return topic_records.read(self._router.broker, topic, partition, committed=committed)

    # --- assertions ---

    def assert_no_commit_lost(self, group_id: str) -> None:
        """Assert that no committed offset of a group was lost.

        Two conditions must hold. No commit has decreased a committed offset. The committed offset of each partition is
        now at least as high as every offset in an OffsetCommit request or in a stored commit. Requests with an error
        response or without a response count as well. After ``set_committed``, only later commits count.

        Args:
            group_id: Id of the group.

        Raises: AssertionError, also if the group has committed nothing. The message shows the events and the
        OffsetCommit requests of the group.
        """
        __tracebackhide__ = True
        _raise_problem(self._perform(lambda cluster: _lost_commits(cluster, group_id)))

    def assert_owned_once(self, group_id: str, topic: str | None = None) -> None:
        """Assert that no partition was assigned to two members of a group at the same time.

        If the group is Stable, each partition must also be assigned to a member now. The check uses the coordinator's
        assignments. It does not detect that a client processes records after its eviction.

        Args:
            group_id: Id of the group.
            topic: Name of the topic whose partitions are checked; None for all topics that were assigned.

        Raises: AssertionError, also if no partition was assigned. The message shows the events of the group.
        """
        __tracebackhide__ = True
        _raise_problem(self._perform(lambda cluster: _shared_ownership(cluster, group_id, topic)))

    def assert_delivered(self, group_id: str, topic: str | None = None, *, at_most: int = 1) -> None:
        """Assert that no record was delivered to the members of a share group more often than expected.

        With ``at_most=1``, the assertion fails if a record was acquired twice, because it was released, or because its
        acquisition lock ended before the acknowledgement.

        Args:
            group_id: Id of the share group.
            topic: Only the records of this topic; None for all topics.
            at_most: The highest number of deliveries of a record.

        Raises: AssertionError, which shows the deliveries and acknowledgements of the records, and the events of the
            group; also if no record was delivered.
        """
        __tracebackhide__ = True
        _raise_problem(self._perform(lambda cluster: _repeated_deliveries(cluster, group_id, topic, at_most)))

    def assert_acknowledged(self, group_id: str, topic: str | None = None, *, rejected: int = 0) -> None:
        """Assert that the members of a share group have accepted all records, up to the ends of the partitions.

        Args:
            group_id: id of the share group.
            topic: only the records of this topic; None for all topics of the group.
            rejected: expected number of records that are not accepted, such as records that cannot be processed. A
                member has rejected them, or they were archived after the last allowed delivery.

        Raises: AssertionError, which shows the deliveries and acknowledgements of the records, and the events of the
            group; also if no record was delivered.
        """
        __tracebackhide__ = True
        _raise_problem(self._perform(lambda cluster: _unacknowledged(cluster, group_id, topic, rejected)))

    def assert_requested(
        self, api: ApiName, count: int | None = None, where: str = "", *, at_least: int | None = None
    ) -> list[Request]:
        """Assert how many requests of an API the cluster has received, and return them.

        Args:
            api: Kafka's name of the API.
            count: The exact number of requests; None to check ``at_least`` instead.
            where: Only the requests whose body matches this expression, in the language of ``kwire capture --where``,
                such as ``body.group_id == "billing"``.
            at_least: The minimum number of requests; 1 if neither ``at_least`` nor ``count`` is set.

        Raises:
            AssertionError: The number is different. The message shows the requests of the API, and the events.
            ValueError: The API or the expression is not valid, or ``count`` and ``at_least`` are both given.
        """
        __tracebackhide__ = True
        if count is not None and at_least is not None:
            raise ValueError(f"assert_requested got count={count} and at_least={at_least}: pass only one of them")
        from mockbroker.api import assertions

        assertions.checked_where(api, where)
        requests = self.requests(api)
        matching = assertions.matching_requests(requests, where)
        lowest = 1 if at_least is None else at_least
        if len(matching) != count if count is not None else len(matching) < lowest:
            expected = f"at least {lowest}" if count is None else str(count)
            _raise_problem(assertions.wrong_number(api, requests, matching, expected, where, self.events()))
        return [requests[index] for index in matching]

    # --- failover ---

    @operation
    def coordinator(self, group_id: str) -> int:
        """Return the id of the broker that coordinates a group; -1 if the coordinator is unavailable.

        The group need not exist.
        """
        return self._router.broker.coordinator(group_id)

    @operation
    def stop_broker(self, node: int) -> None:
        """Shut a broker down cleanly: other brokers take over its partitions, then its connections are closed.

        ``node``: id of the broker.

        Raises: FailoverError if the broker is not running.
        """
        self._server.perform(failover.stop_broker(self._router.broker, node, self._server.clock.read()))
        self._server.stop_broker(node, abruptly=False)

    @operation
    def kill_broker(self, node: int, noticed_after: float = 0.0) -> None:
        """Crash a broker: its connections are reset, and its pending requests are lost.

        Args:
            node: Id of the broker.
            noticed_after: Seconds until other brokers take over its partitions, as with Kafka's
                ``broker.session.timeout.ms``. Before this time, metadata still shows the crashed broker as leader.

        Raises: FailoverError if the broker is not running.
        """
        failover.check_running(self._router.broker, node)
        self._server.stop_broker(node, abruptly=True)
        self._server.perform(failover.kill_broker(self._router.broker, node, self._server.clock.read(), noticed_after))

    @operation
    def start_broker(self, node: int) -> None:
        """Start a broker that was stopped or killed, at the same addresses.

        The broker becomes the leader only of partitions that have no leader.

        ``node``: id of the broker.

        Raises: FailoverError if the broker is running; PortInUseError if a different process uses the broker's port.
        """
        broker = self._router.broker
        failover.check_stopped(broker, node)
        self._restart_listeners(node)
        self._server.perform(failover.start_broker(broker, node, self._server.clock.read()))

    @operation
    def move_coordinator(self, group_id: str, node: int) -> None:
        """Make a broker the coordinator of a group, and of all groups in the same partition of ``__consumer_offsets``.

        Pending requests of these groups are answered with NOT_COORDINATOR.

        Args:
            group_id: The group, which need not exist.
            node: Id of the new coordinator. The broker must be running, and must be a replica of the partition.

        Raises: FailoverError if the broker cannot become the coordinator.
        """
        self.move_leader(*self._router.broker.offsets_partition(group_id), node)

    @operation
    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make a broker the leader of a partition.

        Args:
            topic: The topic, which must exist.
            partition: Index of the partition.
            node: Id of the new leader. The broker must be running, and must be a replica of the partition.

        Raises: FailoverError if the broker cannot become the leader; UnknownTopicError.
        """
        broker = self._router.broker
        moved = topic_records.partition(broker, topic, partition)
        self._server.perform(failover.move_leader(broker, moved, node, self._server.clock.read()))

    @operation
    def pause_replica(self, topic: str, partition: int, node: int) -> None:
        """Stop a follower from fetching, so that it lags behind and leaves the in-sync replicas.

        If all other replicas of the partition are stopped, the partition has no leader. An unclean election
        (ElectLeaders, or the topic configuration ``unclean.leader.election.enable``) then makes the follower the
        leader. The records that the follower had not fetched are lost. A consumer detects the truncation as after
        ``lose_records``.

        Args:
            topic: The topic, which must exist.
            partition: Index of the partition.
            node: Id of the follower's broker.

        Raises: FailoverError if the broker is not an in-sync follower; UnknownTopicError; InternalTopicError.
        """
        topic_records.pause_replica(self._router.broker, topic, partition, node)
        self._server.perform([])

    @operation
    def resume_replica(self, topic: str, partition: int, node: int) -> None:
        """Let a paused replica fetch again: it has all records immediately and rejoins the in-sync replicas.

        Args:
            topic: The topic, which must exist.
            partition: Index of the partition.
            node: Id of the replica's broker.

        Raises: FailoverError if the replica is not paused; UnknownTopicError.
        """
        topic_records.resume_replica(self._router.broker, topic, partition, node)
        self._server.perform([])

    @operation
    def lose_records(self, topic: str, partition: int, count: int) -> int:
        """Elect an unclean leader whose log does not contain the last records of a partition. Return the new log end
        offset.

        The new leader is a running follower; if no follower is running, the old leader. The leader epoch increases, and
        the lost offsets are assigned again to new records. A consumer whose position is after the end gets
        OFFSET_OUT_OF_RANGE, or detects the truncation by the leader epoch (KIP-320). Committed offsets are not changed.

        Args:
            topic: Name of the topic.
            partition: Index of the partition.
            count: Number of records to lose. Only whole batches can be lost, so the number of lost records may be
                greater than ``count``.

        Raises: UnknownTopicError; InternalTopicError; ValueError if ``count`` is negative.
        """
        now = self._server.clock.read()
        end, effects = topic_records.lose_records(self._router.broker, topic, partition, count, now)
        self._server.perform(effects)
        return end

    @operation
    def freeze_metadata(self, *nodes: int) -> None:
        """Freeze the metadata that brokers return (brokers, leaders and coordinators) until ``thaw_metadata``.

        Args:
            nodes: ids of the brokers; without ids, nothing is frozen.

        Raises: UnknownBrokerError if a broker does not exist; then nothing is frozen.
        """
        broker = self._router.broker
        for node in nodes:
            failover.check_exists(broker, node)
        for node in nodes:
            broker.frozen_metadata[node] = broker.cluster.snapshot()

    @operation
    def thaw_metadata(self, *nodes: int) -> None:
        """Make brokers return current metadata again after ``freeze_metadata``.

        Args:
            nodes: Ids of the brokers; none for all brokers.

        Raises: UnknownBrokerError if a broker does not exist.
        """
        broker = self._router.broker
        for node in nodes:
            failover.check_exists(broker, node)
        for node in nodes or list(broker.frozen_metadata):
            broker.frozen_metadata.pop(node, None)

    @operation
    def reset(self) -> None:
        """Reset the cluster to its initial topics and settings, at the same addresses.

        All changes since the start are lost: groups, transactions, records, events and created topics are deleted, and
        the initial fault rules replace the current ones. Stopped brokers are started. All connections are closed, and
        pending requests are dropped. A client that reconnects reaches the new cluster.

        Raises:
            PortInUseError: Another process uses the port of a stopped broker.
            ResetError: The cluster has a data directory, and its content would be lost.
        """
        self._restart()

    def _restart_listeners(self, node: int) -> None:
        raise NotImplementedError  # implemented by Cluster

    def _restart(self) -> None:
        raise NotImplementedError  # implemented by Cluster


def _lost_commits(cluster: ClusterOperations, group_id: str) -> str:
    from mockbroker.api import assertions

    topics, requests = cluster._router.broker.cluster, cluster.requests("OffsetCommit")
    return assertions.lost_commits(group_id, cluster.events(), requests, cluster.committed(group_id), topics)


def _shared_ownership(cluster: ClusterOperations, group_id: str, topic: str | None) -> str:
    from mockbroker.api import assertions

    broker = cluster._router.broker
    partitions = {name: len(each.partitions) for name, each in broker.cluster.topics.items()}
    return assertions.shared_ownership(snapshots.snapshot(broker, group_id), cluster.events(), partitions, topic)


def _repeated_deliveries(cluster: ClusterOperations, group_id: str, topic: str | None, at_most: int) -> str:
    from mockbroker.api import share_assertions

    requests, topics = _share_requests(cluster), cluster._router.broker.cluster
    return share_assertions.repeated_deliveries(group_id, requests, cluster.events(), topics, topic, at_most)


def _unacknowledged(cluster: ClusterOperations, group_id: str, topic: str | None, rejected: int) -> str:
    from mockbroker.api import share_assertions

    requests, broker = _share_requests(cluster), cluster._router.broker
    return share_assertions.unacknowledged(group_id, requests, cluster.events(), broker, topic, rejected)


def _share_requests(cluster: ClusterOperations) -> list[Request]:
    return [*cluster.requests("ShareFetch"), *cluster.requests("ShareAcknowledge")]


def _raise_problem(problem: str) -> None:
    """Raise AssertionError with the message ``problem``, unless it is ""."""
    __tracebackhide__ = True
    if problem:
        raise AssertionError(problem)
