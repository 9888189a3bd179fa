"""The brokers' side of the pretend network: what server.py does with sockets and a timer, in virtual time.

One request of a connection at a time, the next one when it is answered; others are not held up by it. With a disk, an
answer leaves when everything that was written before it is synced; one sync does for all that came together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf, nextafter
from typing import Any

from mockbroker.base.effects import Call, Close, Effects, NoReply, Reply, Ticket
from mockbroker.broker import failover
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.broker.router import Outcome, Router
from mockbroker.lab.simulation.disk import Disk
from mockbroker.lab.simulation.network import Connection, Network
from mockbroker.lab.simulation.queue import Queue
from mockbroker.lab.simulation.trace import Trace
from mockbroker.lab.simulation.watching import Broken, Watchers
from mockbroker.lab.simulation.words import told_answer, told_request

LOOK_EVERY = 32  # events between two looks at the whole state
NOTES_KEPT = 100
RESTART = 0.5  # seconds that a process takes to come back after its disk has failed


class Shell:
    """``skew``: how far the broker's clock is ahead; ``stalled``: nothing is handled before this time; ``down``: the
    process is gone; ``away``: brokers of the cluster that are gone while it lives; ``disk``: None if there is none.

    ``successor``: makes the broker that goes on with what is on the disk.
    """

    def __init__(
        self,
        queue: Queue,
        trace: Trace,
        router: Router,
        watchers: Watchers,
        disk: Disk | None,
        successor: Callable[[Disk], Broker],
    ) -> None:
        self.queue = queue
        self.trace = trace
        self.router = router
        self.watchers = watchers
        self.disk = disk
        self.network = Network(queue, self)
        self.skew = 0.0
        self.stalled = 0.0
        self.down = False
        self.away: dict[int, None] = {}
        self.waiting: dict[Ticket, tuple[Connection, Call[Any]]] = {}
        self._successor = successor
        self._connections: dict[int, Connection] = {}
        self._behind: deque[Connection] = deque()  # whose requests came while the loop was stalled
        self._held: deque[tuple[int, Connection, Call[Any], object]] = (
            deque()
        )  # answers, and what must be synced before
        self._life = 0  # of the process
        self._tick_at = inf
        self._looked = 0
        router.journal.listeners.append(self._noted)
        router.journal.most = NOTES_KEPT

    @property
    def broker(self) -> Broker:
        return self.router.broker

    @property
    def now(self) -> float:
        """The time as the broker sees it."""
        return self.queue.now + self.skew

    def begin(self) -> None:
        """Before anybody asks."""
        self.broker.groups.schedule_sweep(self.now)
        if self.disk is not None:
            self.disk.flush()
        self.keep_time()

    # --- requests ---

    def receive(self, connection: Connection, call: Call[Any]) -> None:
        if self.down or connection.node in self.away:
            self.network.break_off(connection)
            return
        self._connections[connection.number] = connection
        connection.inbox.append(call)
        if self.queue.now < self.stalled:
            self._behind.append(connection)
        else:
            self.serve(connection)

    def serve(self, connection: Connection) -> None:
        """Handle what came on a connection, as far as nothing before it waits."""
        while connection.inbox and connection.busy is None and not connection.cut:
            self._handle(connection, connection.inbox.popleft())

    def _handle(self, connection: Connection, call: Call[Any]) -> None:
        now = self.now
        ticket = call.ticket
        self.trace.add(now, f"{call.client.client_id}>{call.client.node} {told_request(ticket.api_key, call.request)}")
        connection.busy = call
        self.waiting[ticket] = connection, call
        for before in self.watchers.before:
            before(self.broker, call, now)
        self._carry_out(self.router.step(call, now), now)
        for handled in self.watchers.handled:
            handled(self.broker, call, now)
        self.keep_time()
        self._look(now)

    def _carry_out(self, outcomes: list[Outcome], now: float) -> None:
        disk, written = self.disk, 0
        if disk is not None:
            written = disk.written
            if written > disk.sure:
                self._sync(disk)
        for outcome in outcomes:
            connection, call = self._asked(outcome.ticket)
            match outcome:
                case Reply(_, response):
                    for answered in self.watchers.answered:
                        answered(self.broker, call, response, now)
                    if disk is None or written <= disk.sure:
                        self._send(connection, call, response, now)
                    else:
                        self._held.append((written, connection, call, response))
                case NoReply():
                    connection.busy = None
                case Close():
                    self.network.break_off(connection)

    def _asked(self, ticket: Ticket) -> tuple[Connection, Call[Any]]:
        found = self.waiting.pop(ticket, None)
        if found is None:
            raise Broken("I7", f"an answer to {ticket}, for which nobody waits: it was answered before, or never asked")
        if found[0].busy is not found[1]:
            raise Broken("I8", f"an answer to {ticket}, whose turn it is not")
        return found

    def _send(self, connection: Connection, call: Call[Any], response: object, now: float) -> None:
        for acknowledged in self.watchers.acknowledged:
            acknowledged(self.broker, call, response, now)
        connection.busy = None
        if connection.cut:
            return
        self.trace.add(now, f"{call.client.client_id}<{call.client.node} {told_answer(call.ticket.api_key, response)}")
        self.network.answer(connection, call, response)
        if connection.inbox:
            self.queue.at(self.queue.now, self.serve, connection)

    def disconnected(self, connection: Connection) -> None:
        """A parked request stays parked, as the group does not see connections; its answer goes nowhere."""
        connection.inbox.clear()
        self._connections.pop(connection.number, None)
        if connection.busy is not None and not self.down:
            self.router.forget(connection.busy.ticket)
            self.watchers.tell("closed", self.broker, connection.busy, self.now)

    # --- the disk ---

    def _sync(self, disk: Disk) -> None:
        seconds = disk.start()
        if seconds is not None:
            self.queue.after(seconds, self._synced, self._life, disk)

    def _synced(self, life: int, disk: Disk) -> None:
        if life != self._life:
            return
        if not disk.finish():
            self.trace.add(self.now, "the disk fails, and the process ends")
            self.crash(RESTART)
            return
        while self._held and self._held[0][0] <= disk.sure:
            _, connection, call, response = self._held.popleft()
            self._send(connection, call, response, self.now)
        if disk.written > disk.sure:
            self._sync(disk)

    def crash(self, seconds: float) -> None:
        """The process is gone, with its memory and a part of what was not synced; back after so many seconds."""
        if self.down or self.disk is None:
            return
        self.disk.crash()
        self.trace.add(self.now, "the process is gone, with what was not synced")
        self.down = True
        self._life += 1
        self._held.clear()
        self.waiting.clear()
        self._behind.clear()
        self._tick_at = inf
        for connection in list(self._connections.values()):
            self.network.break_off(connection)
            connection.busy = None
        self.watchers.tell("gone", self.broker, self.now)
        self.queue.after(seconds, self.restart)

    def restart(self) -> None:
        """All brokers of the cluster begin again, with what is on the disk."""
        if not self.down or self.disk is None:
            return
        self.down = False
        self.away.clear()
        now = self.now
        self.router.restart(self._successor(self.disk), 0.0)
        self._carry_out(self.router.finish(failover.recovered(self.broker, now), now), now)
        self.broker.groups.schedule_sweep(now)
        self.trace.add(now, f"the process is back, with {len(self.broker.groups)} groups")
        self.watchers.tell("back", self.broker, now)
        self.keep_time()

    # --- brokers that come and go ---

    def change(self, effects: Effects) -> None:
        """Carry out what the moving of a leader brings."""
        now = self.now
        self._carry_out(self.router.finish(effects, now), now)
        self.watchers.tell("ticked", self.broker, now)
        self.keep_time()

    def take_away(self, node: int) -> None:
        """Nobody reaches this broker any more."""
        self.away[node] = None
        for connection in [each for each in self._connections.values() if each.node == node]:
            self.network.break_off(connection)

    # --- time ---

    def keep_time(self) -> None:
        """Wake at the earliest deadline."""
        if self.down:
            return
        deadline = self.router.deadline()
        at = max(deadline - self.skew, self.queue.now)
        while at + self.skew < deadline < inf:  # rounded down, it would be too early for ever
            at = nextafter(at, inf)
        if at < self._tick_at:
            self._tick_at = at
            self.queue.at(at, self._tick, at)

    def _tick(self, at: float) -> None:
        if at != self._tick_at or self.down:
            return  # it was moved closer
        self._tick_at = inf
        if self.queue.now < self.stalled:
            return
        now = self.now
        if self.router.deadline() <= now:
            self.trace.add(now, "tick")
            while self.router.deadline() <= now:
                self._carry_out(self.router.tick(now), now)
            self.watchers.tell("ticked", self.broker, now)
            self._look(now)
        self.keep_time()

    def stall(self, seconds: float) -> None:
        """The loop stands still; afterwards it reads what has come before it looks at the time."""
        self.stalled = max(self.stalled, self.queue.now + seconds)
        self.watchers.tell("stood", seconds)
        self.queue.at(self.stalled, self._resume, self.stalled)

    def _resume(self, until: float) -> None:
        if until == self.stalled:
            self.go_on()

    def go_on(self) -> None:
        """The loop stands still no longer."""
        self.stalled = 0.0
        while self._behind:
            self.serve(self._behind.popleft())
        self.keep_time()

    def jump(self, seconds: float) -> None:
        """The broker's clock goes ahead."""
        self.skew += seconds
        self.watchers.tell("stood", seconds)
        self._tick_at = inf
        self.keep_time()

    # --- checkers ---

    def _noted(self, event: Event) -> None:
        for noted in self.watchers.noted:
            noted(self.broker, event)

    def _look(self, now: float) -> None:
        if self.trace.events - self._looked >= LOOK_EVERY:
            self._looked = self.trace.events
            self.watchers.tell("look", self.broker, now)
