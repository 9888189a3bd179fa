"""The brokers' side of the pretend network: what server.py does with sockets and a timer, in virtual time.

One request of a connection at a time, the next one when it is answered; others are not held up by it.
"""

from __future__ import annotations

from collections import deque
from math import inf, nextafter
from typing import Any

from mockbroker.broker import Broker
from mockbroker.calls import Call, Close, NoReply, Reply, Ticket
from mockbroker.journal import Event
from mockbroker.router import Outcome, Router
from mockbroker.simulation.network import Connection, Network
from mockbroker.simulation.queue import Queue
from mockbroker.simulation.trace import Trace
from mockbroker.simulation.watching import Broken, Watchers
from mockbroker.simulation.words import told_answer, told_request

LOOK_EVERY = 32  # events between two looks at the whole state
NOTES_KEPT = 100


class Shell:
    """``skew``: how far the broker's clock is ahead; ``stalled``: nothing is handled before this time."""

    def __init__(self, queue: Queue, trace: Trace, router: Router, watchers: Watchers) -> None:
        self.queue = queue
        self.trace = trace
        self.router = router
        self.watchers = watchers
        self.network = Network(queue, self)
        self.skew = 0.0
        self.stalled = 0.0
        self.waiting: dict[Ticket, tuple[Connection, Call[Any]]] = {}
        self._behind: deque[Connection] = deque()  # whose requests came while the loop was stalled
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

    # --- requests ---

    def receive(self, connection: Connection, call: Call[Any]) -> None:
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
        for outcome in outcomes:
            connection, call = self._asked(outcome.ticket)
            match outcome:
                case Reply(_, response):
                    for answered in self.watchers.answered:
                        answered(self.broker, call, response, now)
                    self._send(connection, call, response, now)
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
        if connection.busy is not None:
            self.router.forget(connection.busy.ticket)
            self.watchers.tell("closed", self.broker, connection.busy, self.now)

    # --- time ---

    def keep_time(self) -> None:
        """Wake at the earliest deadline."""
        deadline = self.router.deadline()
        at = max(deadline - self.skew, self.queue.now)
        while at + self.skew < deadline < inf:  # rounded down, it would be too early for ever
            at = nextafter(at, inf)
        if at < self._tick_at:
            self._tick_at = at
            self.queue.at(at, self._tick, at)

    def _tick(self, at: float) -> None:
        if at != self._tick_at:
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
        self.queue.at(self.stalled, self._resume, self.stalled)

    def _resume(self, until: float) -> None:
        if until != self.stalled:
            return
        while self._behind:
            self.serve(self._behind.popleft())
        self.keep_time()

    def jump(self, seconds: float) -> None:
        """The broker's clock goes ahead."""
        self.skew += seconds
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
