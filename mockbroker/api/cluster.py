"""Clusters from trio: ``open_cluster``, and what can be asked of one from inside."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from kwire import WireError
from mockbroker.api.certificates import Certificates
from mockbroker.api.clock import Clock
from mockbroker.api.open_listeners import PortInUseError, close_all, nodes_at, open_listeners
from mockbroker.api.operations import ClusterOperations
from mockbroker.api.plan import Plan
from mockbroker.api.snapshots import GroupSnapshot
from mockbroker.api.wait import Goal
from mockbroker.base.release import KAFKA_4_2
from mockbroker.base.settings import SettingsError
from mockbroker.broker import failover
from mockbroker.broker.journal import Event, Journal
from mockbroker.broker.router import Router
from mockbroker.net.addresses import Addresses
from mockbroker.net.clock import BrokerTime
from mockbroker.net.in_process import Line
from mockbroker.net.listeners import LAST_PORT
from mockbroker.net.server import Server
from mockbroker.net.tls import TlsFiles
from mockbroker.storage.disk import DataDirError
from mockbroker.topics.model import Node

if TYPE_CHECKING:  # most clusters keep nothing on disk
    from mockbroker.storage.data_dir import DataDir

WAIT = 10.0  # seconds that wait_group gives a group: three real clients need one or two
log = logging.getLogger("mockbroker")


class ClusterClosedError(RuntimeError):
    """The cluster is gone, belongs to another test by now, or runs in another process."""


class Cluster(ClusterOperations):
    """A running cluster, to be used in the trio run that opened it. ``life``: how often it started over."""

    def __init__(
        self, plan: Plan, server: Server, host: str, tls: Certificates, data_dir: DataDir | None = None
    ) -> None:
        self.life = 0
        self._data_dir = data_dir
        self.clock = Clock(server)
        self._tls = tls
        self._plan = plan
        self._server = server
        self._router = server.router
        self._host = host
        self._waiting = trio.lowlevel.ParkingLot()
        self.journal.listeners.append(self._happened)

    def _happened(self, _: Event) -> None:
        self._waiting.unpark_all()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The brokers and where they listen, also those that were stopped."""
        cluster = self._router.broker.cluster
        return tuple(node for _, node in sorted((cluster.nodes | cluster.down).items()))

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every broker, with commas between."""
        return ",".join(f"{_bracketed(node.host)}:{node.port}" for node in self.nodes)

    @property
    def listeners(self) -> dict[str, str]:
        """``host:port`` of every broker, with commas between, by the name of the listener."""
        names = [listener.name for listener in self._plan.listeners]
        return {
            name: ",".join(f"{_bracketed(n.host_of(name))}:{n.port_of(name)}" for n in self.nodes) for name in names
        }

    @property
    def tls(self) -> TlsFiles:
        """What clients of listeners with TLS need; no files where there are none, or certificates were given."""
        return self._tls.files

    @property
    def journal(self) -> Journal:
        """Where listeners hear of events."""
        return self._router.journal

    def connect(self, node: int | None = None, client_id: str = "inside") -> Line:
        """A connection to a broker (None: the first) in this process, without a socket, for clients made of messages.

        In virtual time (trio.testing.MockClock) nothing is under way while such clients wait, so the clock may jump.
        Raises: ValueError if there is no such broker.
        """
        ids = [each.node_id for each in self.nodes]
        if node is not None and node not in ids:
            raise ValueError(f"there is no broker {node}; there are {', '.join(map(str, ids))}")
        return self._server.connect(ids[0] if node is None else node, client_id)

    async def wait_group(
        self, group_id: str, state: str | None = "Stable", members: int | None = None, timeout: float = WAIT
    ) -> GroupSnapshot:
        """Wait until a group is in a state and has so many members; the group as it then is. None is any.

        ``state``: Kafka's words: Stable, Empty, PreparingRebalance, CompletingRebalance, Dead; ``timeout``: seconds.
        Raises: WaitTimeoutError, an AssertionError that tells how things stand; ClusterClosedError.
        """
        goal = Goal(group_id, state, members)
        life = self.life
        with trio.move_on_after(timeout):
            while (found := goal.met(self._router.broker)) is None:
                await self._waiting.park()
                if self.life != life:
                    raise ClusterClosedError(f"the cluster started over while somebody waited for {goal}")
            return found
        raise goal.missed(self._router.broker, self.journal.events, timeout)

    def _come_back(self, node: int) -> None:
        try:
            self._server.restart_broker(node)
        except OSError as error:
            raise PortInUseError(f"broker {node} cannot come back: {error}") from error

    def _restart(self) -> None:
        self._check_no_data_dir()
        for node in self._server.stopped_nodes:
            self._come_back(node)
        self._server.restart(self._plan.broker(self.nodes, self._server.clock))
        self._waiting.unpark_all()

    def start_over(
        self,
        topics: Mapping[str, int] | None,
        config: Mapping[str, object] | None,
        listeners: Iterable[str] = (),
        users: Mapping[str, str] | None = None,
        clock: str = "real",
    ) -> None:
        """Become another cluster, with other topics and settings at other ports: no client can follow.

        Raises: SettingsError, also with a data directory, PortInUseError; then everything stays.
        """
        self._check_no_data_dir()
        plan = Plan.checked(len(self.nodes), topics, config, self._plan.as_version, listeners, users, clock)
        addresses = Addresses(plan.settings, plan.listeners, self._host)
        bound = open_listeners(plan, self._host, 0, min(node.node_id for node in self.nodes), self._tls, addresses)
        if (settings := plan.without_effect()) != self._plan.without_effect():
            _log_without_effect(settings)
        self.life += 1
        self._plan = plan
        self._server.restart(plan.broker(nodes_at(addresses, bound), self._server.clock), bound)
        self._waiting.unpark_all()

    def _check_no_data_dir(self) -> None:
        if self._data_dir is not None:
            raise SettingsError("a cluster with a data directory does not start over: what is on disk would be lost")


@asynccontextmanager
async def open_cluster(
    *,
    brokers: int = 1,
    topics: Mapping[str, int] | None = None,
    config: Mapping[str, object] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    as_version: str = KAFKA_4_2.name,
    first_node: int = 0,
    listeners: Iterable[str] = (),
    users: Mapping[str, str] | None = None,
    data_dir: str | Path | None = None,
    clock: str = "real",
) -> AsyncIterator[Cluster]:
    """A cluster that lives as long as the block.

    ``topics``: name to number of partitions; ``config``: Kafka's names; ``port``: of broker 0, broker n listens on
    port + n, and 0 picks free ones; ``as_version``: the release of Kafka to be like; ``first_node``: id of the first
    broker; ``listeners``: as in Kafka's setting, such as SASL_SSL or SASL_SSL://:9094, the first is at ``port``;
    ``users``: passwords by name; ``data_dir``: a folder that keeps everything, in the form of Kafka's log directories,
    and has it again for the next cluster; no answer goes to a socket before what it tells is on disk. ``clock``: manual
    for one that stands still until it is advanced.
    Raises: SettingsError, PortInUseError; DataDirError, also out of the block, when the folder cannot be used any more.
    """
    plan = Plan.checked(brokers, topics, config, as_version, listeners, users, clock)
    if not 0 <= port <= LAST_PORT or (port and port + brokers - 1 > LAST_PORT):
        raise SettingsError(f"port: {port} for {brokers} brokers is not within 0 to {LAST_PORT}")
    addresses = Addresses(plan.settings, plan.listeners, host)
    _log_without_effect(plan.without_effect())
    disk = kept = None
    if data_dir is not None:
        from mockbroker.storage.data_dir import DataDir
        from mockbroker.storage.real_disk import RealDisk  # which not every system can have

        disk = RealDisk(Path(data_dir))
        kept = DataDir(disk, str(data_dir))
    tls = Certificates(host)
    try:
        bound = open_listeners(plan, host, port, first_node, tls, addresses)
        try:
            at = BrokerTime()
            router = Router(plan.broker(nodes_at(addresses, bound), at, kept), Journal(at.read()))
            if kept is not None:
                _go_on(router, kept, at.read())
        except BaseException:
            close_all(bound)
            raise
        server = Server(router, bound, data_dir=kept, clock=at)
        failure: BaseException | None = None
        async with trio.open_nursery() as nursery:
            await nursery.start(_serve, server, nursery.cancel_scope)
            try:
                yield Cluster(plan, server, host, tls, kept)
            except BaseException as error:
                failure = error  # raised below as it is: the nursery is no business of the block
            nursery.cancel_scope.cancel()
        if server.failure is not None:
            raise server.failure
        if kept is not None:
            kept.close()
        if failure is not None:
            raise failure
    finally:
        tls.close()
        if disk is not None:
            disk.close()


async def _serve(
    server: Server, scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve, and end the block when the server does so of itself."""
    await server.run(task_status)
    scope.cancel()


def _go_on(router: Router, data_dir: DataDir, now: float) -> None:
    """Groups and transactions are as they were when the last broker ended. Raises: DataDirError."""
    try:
        router.finish(failover.recovered(router.broker, now), now)
    except WireError as error:
        raise DataDirError(f"data directory {data_dir.name}: a record of the coordinators: {error}") from error
    data_dir.flush()


def _log_without_effect(settings: Sequence[str]) -> None:
    if settings:
        log.warning("settings that Kafka has and that have no effect here: %s", ", ".join(settings))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
