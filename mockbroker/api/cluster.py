"""Clusters for trio: ``open_cluster``, and the handle ``Cluster`` that it returns."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from kwire import WireError
from kwire.counted import counted
from mockbroker.api import records as topic_records
from mockbroker.api.certificates import Certificates
from mockbroker.api.clock import Clock
from mockbroker.api.home import ClusterClosedError, Home
from mockbroker.api.open_listeners import PortInUseError, close_all, nodes_at, open_listeners
from mockbroker.api.operations import ClusterOperations
from mockbroker.api.plan import Plan, check_integer
from mockbroker.api.snapshots import GroupSnapshot
from mockbroker.api.wait import Goal, check_timeout
from mockbroker.base.errors import ConflictError
from mockbroker.base.release import KAFKA_4_2
from mockbroker.base.settings import SettingsError
from mockbroker.broker import failover
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Router
from mockbroker.net.addresses import Addresses
from mockbroker.net.clock import BrokerTime
from mockbroker.net.in_process import InProcessConnection
from mockbroker.net.listeners import LAST_PORT
from mockbroker.net.log_levels import set_levels
from mockbroker.net.server import Server
from mockbroker.net.tls import TlsFiles, is_generated
from mockbroker.storage.disk import DataDirError
from mockbroker.topics.model import Node

if TYPE_CHECKING:  # imported on demand: most clusters have no faults and no data directory
    from mockbroker.api.fault_options import RuleGiven
    from mockbroker.api.faults import Faults
    from mockbroker.api.names import ClockMode, GroupState
    from mockbroker.storage.data_dir import DataDir

WAIT_TIMEOUT = 10.0  # seconds; the default of wait_group: a group of three real clients needs one or two seconds
log = logging.getLogger("mockbroker")


class ResetError(SettingsError, ConflictError):
    """The error for ``reset`` and ``start_over`` of a cluster with a data directory. They would delete its data."""


class Cluster(ClusterOperations):
    """A handle of a running cluster, for use inside the trio run that opened it.

    Attributes:
        clock: The broker's clock, which a test can stop and advance.
        start_count: Number of times that ``start_over`` has replaced the cluster.

    Raises: every operation raises ClusterClosedError after the end of the block and in a forked process, and
    RuntimeError in a thread that does not run the cluster.
    """

    def __init__(
        self, plan: Plan, server: Server, host: str, tls: Certificates, data_dir: DataDir | None = None
    ) -> None:
        self.start_count = 0
        self._data_dir = data_dir
        self.clock = Clock(server)
        self._home = self.clock._home = Home()
        self._tls = tls
        self._plan = plan
        self._server = server
        self._router = server.router
        self._host = host
        self._waiting = trio.lowlevel.ParkingLot()
        self.journal.wakers.append(self._wake_waiters)

    def _wake_waiters(self) -> None:
        if self._waiting:
            self._waiting.unpark_all()

    def _mark_closed(self) -> None:
        """Make every later operation of this handle, and every pending ``wait_group``, raise ClusterClosedError."""
        assert self._home is not None
        self._home.closed = True
        self._wake_waiters()

    @cached_property
    def faults(self) -> Faults:
        """The fault rules, which make the cluster misbehave on command."""
        from mockbroker.api.faults import Faults

        faults = Faults(self._server, self, self._server.faults)
        faults._home = self._home
        return faults

    @property
    def router(self) -> Router:
        """The router, for tools of this package that add stages or read the request log."""
        return self._router

    @property
    def has_faults(self) -> bool:
        """Whether a test has used the attribute ``faults``."""
        return self._server.has_faults

    @property
    def release_name(self) -> str:
        """The emulated Kafka release."""
        return self._router.broker.release.name

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The brokers with their ids and addresses, ordered by id. Stopped brokers are included."""
        cluster = self._router.broker.cluster
        return tuple(node for _, node in sorted((cluster.nodes | cluster.down).items()))

    @property
    def bootstrap_servers(self) -> str:
        """The ``bootstrap.servers`` for clients: ``host:port`` of every broker's first listener, comma-separated."""
        return ",".join(f"{_bracketed(node.host)}:{node.port}" for node in self.nodes)

    @property
    def listeners(self) -> dict[str, str]:
        """The ``bootstrap.servers`` by listener name: comma-separated ``host:port`` of every broker."""
        names = [listener.name for listener in self._plan.listeners]
        return {
            name: ",".join(f"{_bracketed(n.host_of(name))}:{n.port_of(name)}" for n in self.nodes) for name in names
        }

    @property
    def tls(self) -> TlsFiles:
        """The CA and client certificate files for TLS clients.

        All paths are None without a TLS listener, or if the settings name a keystore.
        """
        settings, listeners = self._plan.settings, self._plan.listeners  # of this cluster, not of an earlier one
        generated = any(each.tls and is_generated(settings.of_listener(each.name)) for each in listeners)
        return self._tls.files if generated else TlsFiles()

    @property
    def journal(self) -> Journal:
        """The journal of group events; append a callback to ``journal.listeners`` to receive each new event."""
        return self._router.journal

    def connect(self, node: int | None = None, client_id: str = "inside") -> InProcessConnection:
        """Return an in-process connection to a broker: requests are sent as message objects, without a socket.

        The connection also works in virtual time (``trio.testing.MockClock``), because it uses no socket.

        Args:
            node: Id of the broker; None for the broker with the lowest id. Requests to a stopped broker raise
                ConnectionClosedError.
            client_id: The client id of the requests.

        Raises: ValueError if the cluster has no such broker.
        """
        self._check_home()
        ids = [each.node_id for each in self.nodes]
        if node is not None and node not in ids:
            raise ValueError(f"broker {node} does not exist; the broker ids are {', '.join(map(str, ids))}")
        return self._server.connect(ids[0] if node is None else node, client_id)

    async def wait_group(
        self,
        group_id: str,
        state: GroupState | None = "Stable",
        members: int | None = None,
        timeout: float = WAIT_TIMEOUT,
    ) -> GroupSnapshot:
        """Wait until a group has a given state and number of members, and return a snapshot of the group.

        Args:
            group_id: the group, which need not exist yet.
            state: state name of Kafka. Classic groups: Empty, PreparingRebalance, CompletingRebalance, Stable. Consumer
                groups (KIP-848): Empty, Assigning, Reconciling, Stable. Streams groups: the states of consumer groups,
                and NotReady. Share groups: Empty, Stable. All types: Dead if the group does not exist. None for any
                state.
            members: number of members; None for any number.
            timeout: maximum wait in seconds of real time; the broker's clock does not affect the wait.

        Raises:
            WaitTimeoutError: The condition was not met within the timeout. This AssertionError's message shows the
                group and the last events.
            ClusterClosedError: The cluster was closed or replaced during the wait.
            ValueError: ``state`` is not the name of a state, or ``members`` or ``timeout`` is negative.
            TypeError: An argument has the wrong type, such as ``members="3"``.
        """
        self._check_run()
        goal = Goal(group_id, state, members)
        check_timeout(timeout)
        start_count = self.start_count
        with trio.move_on_after(timeout):
            while (group := goal.snapshot_if_met(self._router.broker)) is None:
                await self._waiting.park()
                self._check_run()
                if self.start_count != start_count:
                    raise ClusterClosedError(f"the cluster was replaced by start_over() while waiting for {goal}")
            return group
        raise goal.timeout_error(self._router.broker, self.journal.events, timeout)

    async def compact(self, topic: str | None = None) -> None:
        """Compact a topic, or all topics with ``cleanup.policy=compact``, without waiting for the log cleaner.

        The active segment of each partition is closed first, so that its records are compacted too. Records younger
        than ``min.compaction.lag.ms`` are not compacted. If a transaction is open, its records and all later records
        are not compacted. Tombstones remain for ``delete.retention.ms``. Requests of clients are served during the
        compaction.

        Args:
            topic: Name of the topic; None for all topics with ``cleanup.policy=compact``.

        Raises: UnknownTopicError; InternalTopicError; NotCompactedError if the topic has no ``cleanup.policy=compact``.
        """
        self._check_run()
        for _ in topic_records.compaction(self._router.broker, topic, self._server.clock.read()):
            await trio.lowlevel.checkpoint()
        self._server.perform([])

    def _restart_listeners(self, node: int) -> None:
        try:
            self._server.restart_broker(node)
        except OSError as error:
            raise PortInUseError(
                f"broker {node} cannot restart: {error.strerror}: stop the process that uses a port of this broker, "
                "or leave the broker stopped"
            ) from error

    def _restart(self) -> None:
        self._check_no_data_dir()
        for node in self._server.stopped_nodes:
            self._restart_listeners(node)
        self._server.restart(self._plan.broker(self.nodes, self._server.clock))
        self._add_initial_faults()
        self._waiting.unpark_all()

    def start_over(
        self,
        topics: Mapping[str, int] | None,
        config: Mapping[str, object] | None,
        listeners: Iterable[str] = (),
        users: Mapping[str, str] | None = None,
        clock: ClockMode = "real",
        faults: Sequence[RuleGiven] = (),
    ) -> None:
        """Replace the cluster with a new one that has the given topics and settings, at new ports.

        The connections of all clients are closed, and the old addresses refuse connections. Pending calls of
        ``wait_group`` raise ClusterClosedError. The callbacks in ``journal.listeners`` are removed. For the arguments,
        see ``open_cluster``. After an error, the old cluster continues to run.

        Raises:
            SettingsError: A setting or topic is invalid, or the cluster has a data directory.
            InvalidRule: A fault rule is invalid; also RuleExists and TooManyRules.
            PortInUseError: A listener cannot be bound.
        """
        self._check_no_data_dir()
        plan = Plan.checked(len(self.nodes), topics, config, self._plan.as_version, listeners, users, clock, faults)
        addresses = Addresses(plan.settings, plan.listeners, self._host)
        bound = open_listeners(plan, self._host, 0, min(node.node_id for node in self.nodes), self._tls, addresses)
        if (settings := plan.without_effect()) != self._plan.without_effect():
            _log_without_effect(settings)
        self.start_count += 1
        self._plan = plan
        self.journal.listeners.clear()
        self._server.restart(plan.broker(nodes_at(addresses, bound), self._server.clock), bound)
        self._add_initial_faults()
        self._waiting.unpark_all()

    def _add_initial_faults(self) -> None:
        if self._plan.faults:
            self._plan.add_faults(self._server.faults)

    def _check_no_data_dir(self) -> None:
        if self._data_dir is not None:
            raise ResetError(
                "a cluster with a data directory cannot be reset: start one without --data-dir (in Python data_dir=)"
            )


@asynccontextmanager
async def open_cluster(
    *,
    brokers: int = 1,
    topics: Mapping[str, int] | None = None,
    config: Mapping[str, object] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    as_version: str = KAFKA_4_2.name,
    first_node: int | None = None,
    listeners: Iterable[str] = (),
    users: Mapping[str, str] | None = None,
    data_dir: str | Path | None = None,
    clock: ClockMode = "real",
    faults: Sequence[RuleGiven] = (),
) -> AsyncIterator[Cluster]:
    """Run a cluster for the duration of an ``async with`` block.

    Args:
        brokers: Number of brokers.
        topics: Topics to create: name to number of partitions.
        config: Broker settings by Kafka's names, such as ``{"group.max.size": 2}``.
        host: Address that every listener binds to.
        port: Port of the first broker. The next brokers listen on port + 1, port + 2, in the order of their ids. 0
            picks free ports.
        as_version: The Kafka release to emulate, such as ``"3.9"``.
        first_node: Id of the first broker; None for the setting ``node.id`` or ``broker.id``, or 0.
        listeners: Listeners as in Kafka's setting, such as ``SASL_SSL`` or ``SASL_SSL://:9094``. The first one is at
            ``port``.
        users: SASL users: name to password.
        data_dir: Directory that keeps topics, records, groups and transactions in the format of Kafka's log
            directories. A later cluster with the same directory continues with this data. A response is sent to a
            client only when the data that it acknowledges is on disk.
        clock: ``"real"``, or ``"manual"`` for a clock that is stopped until the test advances it.
        faults: Initial fault rules, which ``reset`` restores. A rule is a JSON object, or a dict of the keyword
            arguments of ``faults.add``, such as ``{"api": "OffsetCommit", "error": "REBALANCE_IN_PROGRESS"}``.

    Raises:
        SettingsError: A setting, topic, listener or other argument is invalid.
        InvalidRule: A fault rule is invalid; also RuleExists and TooManyRules.
        PortInUseError: A listener cannot be bound.
        DataDirError: ``data_dir`` cannot be opened; also raised at the end of the block if writing to it failed.
        RuntimeError: The caller does not run in trio.
    """
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "open_cluster() needs a trio run: in asyncio and in code without an event loop, use run_cluster"
        )
    plan = Plan.checked(brokers, topics, config, as_version, listeners, users, clock, faults)
    check_integer("port", port)
    if not isinstance(host, str):
        raise SettingsError(f"host is {host!r}: expected a host name or an address")
    if data_dir is not None and not isinstance(data_dir, (str, os.PathLike)):
        raise SettingsError(f"data_dir is {data_dir!r}: expected the path of a directory")
    if data_dir == "":  # Path("") is the current directory
        raise SettingsError("data_dir is empty: expected the path of a directory, such as '.' for the current one")
    if not 0 <= port <= LAST_PORT or (port and port + brokers - 1 > LAST_PORT):
        highest = LAST_PORT + 1 - brokers
        raise SettingsError(f"port {port} is out of range (0-{highest} for {counted(brokers, 'broker')})")
    addresses = Addresses(plan.settings, plan.listeners, host)
    _log_without_effect(plan.without_effect())
    disk = opened_data_dir = None
    if data_dir is not None:
        from mockbroker.storage.data_dir import DataDir
        from mockbroker.storage.real_disk import RealDisk

        disk = RealDisk(Path(data_dir))
        opened_data_dir = DataDir(disk, str(data_dir))
    tls = Certificates(host)
    try:
        first = plan.first_node if first_node is None else first_node
        bound = open_listeners(plan, host, port, first, tls, addresses)
        try:
            time = BrokerTime()
            router = Router(plan.broker(nodes_at(addresses, bound), time, opened_data_dir), Journal(time.read()))
            if opened_data_dir is not None:
                _recover(router, opened_data_dir, time.read())
        except BaseException:
            close_all(bound)
            raise
        server = Server(router, bound, data_dir=opened_data_dir, clock=time)
        if plan.faults:
            plan.add_faults(server.faults)
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            await nursery.start(_serve, server, nursery.cancel_scope)
            cluster = Cluster(plan, server, host, tls, opened_data_dir)
            try:
                yield cluster
            except BaseException as error:
                failure = error  # raised below, so that the nursery does not wrap it in an ExceptionGroup
            cluster._mark_closed()
            nursery.cancel_scope.cancel()
        if server.failure is not None:
            raise server.failure
        if opened_data_dir is not None:
            opened_data_dir.close()
        if failure is not None:
            raise failure
    finally:
        set_levels({})
        tls.close()
        if disk is not None:
            disk.close()


async def _serve(
    server: Server, scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Run the server until it is cancelled. If a write to the data directory fails, the server ends: cancel ``scope``.

    ``task_status``: status of the trio task. It is set to started when the server accepts connections.
    """
    await server.run(task_status)
    scope.cancel()


def _recover(router: Router, data_dir: DataDir, now: float) -> None:
    """Load groups and transactions from the data directory into the broker of a router, then flush the directory.

    Args:
        router: The router.
        data_dir: The data directory.
        now: The broker's time in seconds.

    Raises: DataDirError if the data directory cannot be read or written.
    """
    try:
        router.finish(failover.recover(router.broker, now), now)
    except WireError as error:
        raise DataDirError(
            f"data directory {data_dir.name}: a coordinator record cannot be decoded: {error}; "
            "use a backup or a new directory"
        ) from error
    data_dir.flush()


def _log_without_effect(settings: Sequence[str]) -> None:
    if settings:
        log.warning("settings without effect in mockbroker: %s", ", ".join(settings))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
