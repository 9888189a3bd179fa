"""The trio shell of a cluster: wires listeners, connections, timer and data directory to the pump.

With a data directory no answer leaves before everything is on disk that was appended before it: answers are held
while one flush runs in a thread, and what comes meanwhile goes into the next.
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
from mockbroker.net.bound_listeners import BoundListener, Listeners
from mockbroker.net.clock import BrokerTime
from mockbroker.net.connection import ClientRequests
from mockbroker.net.in_process import HOST, BrokerEnd, InProcessConnection
from mockbroker.net.pump import Connection, Pump
from mockbroker.net.readiness import Ready, Watch, best
from mockbroker.net.sockets import SocketConnection, Sockets
from mockbroker.net.timekeeper import Timekeeper

if TYPE_CHECKING:
    from mockbroker.net.durability import Durability
    from mockbroker.storage.data_dir import DataDir
    from mockbroker.storage.disk import DataDirError


class Server:
    """Serves the brokers of one cluster.

    router: handles the requests
    clock: the time that the router is given
    bound: the listeners of the brokers
    watch: makes what reports which connections are readable
    data_dir: where the cluster is kept; None if nowhere
    """

    def __init__(
        self,
        router: Router,
        bound: Sequence[BoundListener],
        watch: Callable[[Ready[SocketConnection]], Watch[SocketConnection]] = best,
        data_dir: DataDir | None = None,
        clock: BrokerTime | None = None,
    ) -> None:
        self.router = router
        self.clock = clock or BrokerTime()
        self.pump = Pump(router, time.perf_counter, data_dir)
        self._numbers = count(1)
        self._unserved = trio.Event()  # a turn has ended before all were served
        self._sockets = Sockets(self.pump, self._new_number, watch, self._turn)
        self._listeners = Listeners(bound, self._sockets.open)
        self._timekeeper = Timekeeper(self.pump, self.clock, self._catch_up, self._turn, time.perf_counter)
        self._durability: Durability | None = None
        if data_dir is not None:
            from mockbroker.net.durability import Durability  # most clusters keep nothing on disk

            self._durability = Durability(self.pump, data_dir, self._turn)

    @property
    def connections(self) -> Mapping[int, SocketConnection]:
        """The connections on sockets, by number."""
        return self._sockets.connections

    @property
    def failure(self) -> DataDirError | None:
        """Why the data directory could not be written, which ends the server."""
        return None if self._durability is None else self._durability.failure

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled, or the data directory fails; then every socket is closed."""
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
            self._sockets.close()

    def restart(self, broker: Broker, bound: Sequence[BoundListener] | None = None) -> None:
        """Go on with another broker, and everything else empty. Every connection is closed, pending requests with it.

        ``bound``: listen there instead; clients of the old listeners are refused.
        """
        self._hang_up()
        self.router.restart(broker, self.clock.read())
        self._timekeeper.attach_clock()
        self.pump.restart()
        if bound is not None:
            self._listeners.replace(bound)
        self._sockets.check_idle()

    def stop_broker(self, node: int, *, abruptly: bool) -> None:
        """Close the listeners and connections of a broker; ``abruptly``: clients see a reset."""
        self._listeners.stop(node)
        self.pump.stop(node)
        self._sockets.stop(node, abruptly=abruptly)
        for connection in self._in_process():
            if connection.requests.node == node:
                self.pump.close(connection, f"broker {node} was stopped")

    @property
    def stopped_nodes(self) -> list[int]:
        """Ids of the brokers that are stopped."""
        return self._listeners.stopped_nodes

    def restart_broker(self, node: int) -> None:
        """Listen again where a stopped broker did. Raises: OSError if another process does so by now."""
        self._listeners.restart(node)

    def perform(self, effects: Effects) -> None:
        """Carry out the effects of a change from inside, as answers to fetches that wait for records."""
        self.pump.deliver(self.router.finish(effects, self.clock.read()))
        self._turn()

    def connect(self, node: int, client_id: str) -> InProcessConnection:
        """Return an in-process connection to a broker."""
        requests = ClientRequests(self._new_number(), node, HOST, self.router, self._listeners.bound[0].name)
        return InProcessConnection(self.pump, requests, client_id, self._serve)

    def stop_clock(self) -> None:
        """Stop the time. Groups that waited for the last JoinGroups to come do so no more."""
        self._timekeeper.stop_clock()

    def resume_clock(self) -> None:
        """Let the time run on from where it stopped."""
        self._timekeeper.resume_clock()

    async def advance(self, seconds: float) -> list[Event]:
        """Serve what clients have sent up to now, and let time pass; the events of that."""
        return await self._timekeeper.advance(seconds)

    def _serve(self, connection: Connection) -> None:
        self.pump.serve(connection, self.clock.read())
        self._turn()

    def _turn(self, outside: float | None = None) -> bool:
        """Serve what is ready for a while, and see to what that changed: deadlines, and what is to be written.

        ``outside``: trio's time, if it was read already. True if not all were served; then ``_serve_rest`` goes on,
        after other tasks had their turn.
        """
        remain = self.pump.turn(outside if outside is not None and self.clock.real else self.clock.read())
        self._timekeeper.reschedule()
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
        """Read what clients have sent by now, and serve it. ``until_idle``: also what is left after a turn of each."""
        await self._sockets.watch.catch_up()
        turns = self.pump.queued  # each of which serves one connection or more
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
