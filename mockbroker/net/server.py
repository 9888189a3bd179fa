"""The server of a cluster on trio: it connects the pump with listeners, connections, the timer and the data directory.

With a data directory, a response is sent only after all earlier changes are on disk. A thread writes the changes. The
changes that requests make during a write belong to the next write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import trio

from mockbroker.base.effects import Effects
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.broker.router import Router
from mockbroker.net.accepting import Gate
from mockbroker.net.bound_listeners import BoundListener, Listeners
from mockbroker.net.clock import BrokerTime
from mockbroker.net.connection import ClientRequests
from mockbroker.net.dynamic_tls import DynamicTls
from mockbroker.net.in_process import HOST, BrokerEnd, InProcessConnection
from mockbroker.net.pump import Connection, Pump
from mockbroker.net.readiness import Ready, Watch, best_watch
from mockbroker.net.sockets import SocketConnection, Sockets
from mockbroker.net.timekeeper import Timekeeper
from mockbroker.security.identity import UNKNOWN, Identity

if TYPE_CHECKING:
    from mockbroker.faults.stage import Admission, FaultStage
    from mockbroker.net.durability import Durability
    from mockbroker.storage.data_dir import DataDir
    from mockbroker.storage.disk import DataDirError
    from mockbroker.throttling.stage import QuotaStage


DISCONNECTED = "an administrator has closed the connection"


class Server:
    """The server of all brokers of one cluster.

    Args:
        router: The router, which handles the requests.
        bound: The listening sockets of all brokers.
        watch: Function that creates the watcher of readable connections.
        data_dir: Data directory of a persistent cluster; None if the cluster is in memory only.
        clock: The broker's clock; None for a new running clock.
    """

    def __init__(
        self,
        router: Router,
        bound: Sequence[BoundListener],
        watch: Callable[[Ready[SocketConnection]], Watch[SocketConnection]] = best_watch,
        data_dir: DataDir | None = None,
        clock: BrokerTime | None = None,
    ) -> None:
        self.router = router
        self.clock = clock or BrokerTime()
        self.pump = Pump(router, time.perf_counter, data_dir, reschedule=self._reschedule)
        router.identity = self._identity
        self._numbers = count(1)
        self._unserved = trio.Event()  # set when a turn ends while connections are queued
        self._gate = Gate(router, self._listener_names, lambda: self.clock.read(), self._reschedule)
        self._dynamic_tls = DynamicTls(lambda: self._listeners.bound, lambda: router.broker)
        self._sockets = Sockets(
            self.pump, self._new_number, watch, self._turn, self._gate, tls_context=self._dynamic_tls.context
        )
        self._listeners = Listeners(bound, self._sockets.open, self._gate.admit)
        self._timekeeper = Timekeeper(self.pump, self.clock, self._catch_up, self._turn, time.perf_counter)
        self._faults: FaultStage | None = None
        router.broker.broker_settings.listener_files = self._dynamic_tls
        self._add_authorizer()
        self._quotas: QuotaStage | None = None
        self._add_quotas()
        self._durability: Durability | None = None
        if data_dir is not None:
            from mockbroker.net.durability import Durability  # late: most clusters are in memory only

            self._durability = Durability(self.pump, data_dir, self._turn)

    @property
    def connections(self) -> Mapping[int, SocketConnection]:
        """The open connections with sockets, by number. In-process connections are not included."""
        return self._sockets.connections

    @property
    def failure(self) -> DataDirError | None:
        """The error of the first failed write to the data directory; None if no write has failed. A failed write ends
        the server.
        """
        return None if self._durability is None else self._durability.failure

    @property
    def faults(self) -> FaultStage:
        """The object that applies fault rules to requests and connections. It is created at the first use."""
        if self._faults is None:
            from mockbroker.faults.stage import FaultStage  # late: most clusters have no faults

            self._faults = FaultStage(self.router, self.router.principal)
            self._sockets.admit = self._admit
        return self._faults

    @property
    def has_faults(self) -> bool:
        """Whether ``faults`` was used before, so that fault rules may exist."""
        return self._faults is not None

    def _add_authorizer(self) -> None:
        """Make the router use the authorizer of the current broker, or none if the broker has no authorizer."""
        router, old = self.router, {stage for stages in self.router.authorizing_stages.values() for stage in stages}
        router.noticing_stages = tuple(stage for stage in router.noticing_stages if stage not in old)
        router.authorizing_stages = {}
        if router.broker.authorizer is not None:
            from mockbroker.authorizer.checks import CHECKS  # late: most clusters have no authorizer
            from mockbroker.authorizer.stage import AuthorizerStage

            stage = AuthorizerStage(router, router.broker.authorizer)
            router.authorizing_stages = dict.fromkeys(CHECKS, (stage,))
            router.noticing_stages = (*router.noticing_stages, stage)

    def _add_quotas(self) -> None:
        """Make the router throttle clients as soon as the current broker has client quotas."""
        self.router.broker.quotas.changed.append(self._apply_quotas)
        self._apply_quotas()

    def _apply_quotas(self) -> None:
        if self._quotas is None and self.router.broker.quotas.quotas:
            from mockbroker.throttling.stage import QuotaStage  # late: most clusters have no quotas

            self._quotas = QuotaStage(self.router)
        if self._quotas is not None:
            self._quotas.apply_quotas()

    def _reschedule(self) -> None:
        self._timekeeper.reschedule()

    def _listener_names(self) -> frozenset[str]:
        return frozenset(listener.name for listener in self._listeners.bound)

    def _admit(self, number: int, node: int, listener: str, address: str) -> Admission | None:
        """Return the decision of the fault rules about a new connection; None to serve the connection as usual.

        Args:
            number: Number of the connection.
            node: Id of the broker that accepted the connection.
            listener: Name of the listener that accepted the connection.
            address: Address of the client, without port.
        """
        from mockbroker.faults.matching import NewConnection

        admission = self.faults.admit(number, NewConnection(node, listener, address), self.clock.read())
        self._reschedule()  # a delay of the connection
        return admission

    def _identity(self, number: int) -> Identity:
        """Return the identity of the client of the connection with this number.

        The result is UNKNOWN if no such connection is open.
        """
        connection = self.pump.connections.get(number)
        requests = None if connection is None else connection.requests
        return requests.identity if isinstance(requests, ClientRequests) else UNKNOWN

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled or until a write to the data directory fails, then close every socket.

        ``task_status``: trio's task status, which is set to started when the listeners accept connections.
        """
        try:
            async with trio.open_nursery() as nursery:
                self._sockets.start(nursery)
                self._listeners.start(nursery)
                nursery.start_soon(self._serve_rest)
                nursery.start_soon(self._timekeeper.run)
                if self._durability is not None:
                    nursery.start_soon(self._durability.run, nursery.cancel_scope.cancel)
                task_status.started()
        finally:
            self._hang_up()
            self._listeners.close()
            self._gate.close()
            self._sockets.close()

    def restart(self, broker: Broker, bound: Sequence[BoundListener] | None = None) -> None:
        """Close every connection, and replace the broker with the broker of a new cluster.

        Args:
            broker: The broker of the new cluster.
            bound: Listening sockets that replace the current ones; None to keep the current ones.
        """
        self._hang_up()
        self.router.restart(broker, self.clock.read())
        broker.broker_settings.listener_files = self._dynamic_tls
        self._add_authorizer()
        self._add_quotas()
        if self._faults is not None:
            self._faults.restart()
        self._timekeeper.attach_clock()
        self.pump.restart()
        self._gate.restart()
        if bound is not None:
            self._listeners.replace(bound)
        self._sockets.check_idle()

    def stop_broker(self, node: int, *, abruptly: bool) -> None:
        """Close the listeners and connections of a broker, and reserve its ports.

        Args:
            node: Id of the broker.
            abruptly: True to reset the connections, False to send finished responses first.
        """
        self._listeners.stop(node)
        self._gate.wake()
        self.pump.stop(node)
        if self._faults is not None:
            self._faults.stop(node)
        self._sockets.stop(node, abruptly=abruptly)
        for connection in self._in_process():
            if connection.requests.node == node:
                self.pump.close(connection, f"broker {node} was stopped")

    @property
    def stopped_nodes(self) -> list[int]:
        """The ids of the stopped brokers."""
        return self._listeners.stopped_nodes

    def restart_broker(self, node: int) -> None:
        """Listen again at the addresses of a stopped broker.

        Raises:
            OSError: Another process uses one of the ports. The broker then remains stopped.
        """
        self._listeners.restart(node)

    def perform(self, effects: Effects) -> None:
        """Carry out the effects of a change that did not come from a request, such as responses to delayed fetches."""
        now = self.router.requests.now = self.clock.read()
        self.pump.deliver(self.router.finish(effects, now))
        self._turn()

    def connect(self, node: int, client_id: str) -> InProcessConnection:
        """Return a new in-process connection to a broker. It is closed if the broker is stopped.

        Args:
            node: Id of the broker.
            client_id: The ``client.id`` of the request headers.
        """
        listener = self._listeners.first_name
        requests = ClientRequests(self._new_number(), node, HOST, self.router, listener)
        connection = InProcessConnection(self.pump, requests, client_id, self._serve)
        if node in self.stopped_nodes:
            self.pump.close(self.pump.connections[requests.connection], f"broker {node} is not running")
        elif self._faults is not None:
            connection.admit(self._admit(requests.connection, node, listener, HOST.removeprefix("/")))
        return connection

    def disconnect(self, number: int, *, reset: bool) -> None:
        """Close a connection and drop its pending request.

        Args:
            number: Number of the connection, which must be open.
            reset: True to close the connection by a TCP reset, False to send finished responses before the close.
        """
        connection = self.pump.connections[number]
        if reset and isinstance(connection, SocketConnection):
            connection.reset()
        if reset:
            self.pump.close(connection, DISCONNECTED)
        else:
            self.pump.close_after_flush(connection, DISCONNECTED)

    def stop_clock(self) -> None:
        """Stop the broker's clock; do nothing if it is already stopped.

        First the clock advances by ``mockbroker.join.settle.ms``, and the deadlines that became due are handled. While
        the clock is stopped, this setting does not delay the end of a join phase.
        """
        self._timekeeper.stop_clock()

    def resume_clock(self) -> None:
        """Let the broker's stopped clock run again, from the time at which it was stopped."""
        self._timekeeper.resume_clock()

    async def advance(self, seconds: float) -> list[Event]:
        """Serve all requests that have arrived, then advance the broker's clock.

        Args:
            seconds: Number of seconds by which the clock advances.

        Returns:
            The journal events of the served requests and of the deadlines that became due.
        """
        return await self._timekeeper.advance(seconds)

    def _serve(self, connection: Connection) -> None:
        self.pump.serve(connection, self.clock.read())
        self._turn()

    def _turn(self, client_time: float | None = None) -> bool:
        """Serve connections for a limited time; then reschedule the timer, and start a write if changes are not on disk
        yet.

        Args:
            client_time: Trio's time in seconds; None if the caller has not read it.

        Returns:
            True if connections remain in the queue. The task ``_serve_rest`` then serves the queue after other tasks
            have run.
        """
        remain = self.pump.turn(client_time if client_time is not None and self.clock.real else self.clock.read())
        self._timekeeper.reschedule()
        if self._gate.waiting:
            self._gate.wake()
        if self._durability is not None:
            self._durability.wake()
        if remain:
            self._unserved.set()
        return remain

    async def _serve_rest(self) -> None:
        while True:
            await self._unserved.wait()
            self._unserved = trio.Event()
            self._turn()
            await trio.lowlevel.checkpoint()

    async def _catch_up(self, *, until_idle: bool) -> None:
        """Read and serve the requests that have arrived, without waiting for later requests.

        Args:
            until_idle: True to serve until no connection is queued, False for at most one turn per queued connection.
        """
        await self._sockets.watch.catch_up()
        turns = self.pump.queued  # a turn serves at least one connection
        while self.pump.queued and (turns > 0 or until_idle):
            self._turn()
            turns -= 1
            await trio.lowlevel.checkpoint()

    def _hang_up(self) -> None:
        for connection in list(self.connections.values()):
            self.pump.close(connection)
        for end in self._in_process():
            self.pump.close(end, "the cluster was closed or reset")

    def _in_process(self) -> list[BrokerEnd]:
        return [each for each in self.pump.connections.values() if isinstance(each, BrokerEnd)]

    def _new_number(self) -> int:
        return next(self._numbers)
