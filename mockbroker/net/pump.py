"""The pump: which connection is served next, what is held until it is on disk, and when a connection is closed.

It knows no socket, no clock and no task. A shell derives its connections from ``Connection``, announces those that have
requests with ``enqueue``, and calls ``turn``; net/sockets.py does so with sockets, lab/simulation/shell.py in virtual
time.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kwire import WireError
from mockbroker.base.budget import Budget
from mockbroker.base.effects import Call, Dismiss, NoReply, Reply, Ticket
from mockbroker.base.response_limit import ResponseTooLargeError
from mockbroker.broker.router import Outcome, Router, Unfinished
from mockbroker.broker.stages import Stage

log = logging.getLogger("mockbroker")

WRITE_AHEAD = 1 << 20  # bytes of answers collected before they are sent
SLICE = 0.005  # seconds of work after which other tasks have their turn
IN_A_ROW = 64  # requests of one connection that are served before others have their turn
ONCE_SLOW, MOST_SLOW = 2, 16  # once is not enough to wait for others: the system may have had another process running
LARGE = 65_536  # bytes of requests with which a connection waits for those that ask for less


class Disk(Protocol):
    """What must be durable before an answer is sent, as numbers of changes."""

    @property
    def collected(self) -> int:
        """The last change that was made."""
        ...

    @property
    def synced(self) -> int:
        """The last change that is durable, with all before it."""
        ...


class Requests(Protocol):
    """The requests of one connection: the next is given out once the one before is answered."""

    ticket: Ticket | None

    @property
    def node(self) -> int:
        """The broker that the client is connected to."""
        ...

    def next_call(self) -> Call[Any] | None:
        """The next request; None if more bytes are needed or the one before is not answered."""

    def skip_answer(self) -> None:
        """The request last given out gets no answer."""


class Connection(ABC):
    """A client connection as the pump sees it; the shell adds input and output.

    number: of the connection, in the tickets of its requests
    peer: the client's address, for the log
    requests: those that have arrived, one given out at a time
    stages: what its requests pass before they are handled, as authentication
    after: the change that must be durable before the pending answers are sent
    held: that change is not durable yet, and nothing is sent
    draining: the shell is sending what the peer was too slow to read; no request is served meanwhile
    ended: the peer has closed its half, and may still read answers
    given_up: it is closed once the answers that are held have been sent
    closed: it is closed
    queued: it is among those to be served
    slow: grows when it takes longer than a slice to be served, and falls when it does not
    weighed: it held something when that was last counted
    work: the rest of a request that is handled in slices
    """

    __slots__ = (
        "after",
        "closed",
        "draining",
        "ended",
        "given_up",
        "held",
        "number",
        "peer",
        "queued",
        "requests",
        "slow",
        "stages",
        "weighed",
        "work",
    )

    durable = True  # its answers wait for the disk

    def __init__(self, number: int, requests: Requests, peer: str, stages: tuple[Stage, ...] = ()) -> None:
        self.number = number
        self.requests = requests
        self.peer = peer
        self.stages = stages
        self.after = 0
        self.held = False
        self.draining = False
        self.ended = False
        self.given_up = False
        self.closed = False
        self.queued = False
        self.slow = 0
        self.weighed = False
        self.work: Unfinished | None = None

    @property
    @abstractmethod
    def buffered(self) -> int:
        """Bytes received and not yet served."""

    @property
    @abstractmethod
    def unsent(self) -> int:
        """Bytes of answers that are not sent."""

    @abstractmethod
    def answer(self, reply: Reply) -> int:
        """Add an answer to those to be sent; their bytes. Raises: kwire.WireError; ResponseTooLargeError."""

    @abstractmethod
    def send(self) -> bool:
        """Send what the peer takes now; False if the connection is broken. Sets ``draining`` if some is left."""

    @abstractmethod
    def hang_up(self, reason: str) -> None:
        """Close; what is not sent is dropped."""

    def regulate(self) -> None:  # noqa: B027 - a shell may have nothing to do
        """Read on, or stop reading: it was served."""

    def stop_reading(self) -> None:  # noqa: B027 - a shell may have nothing to do
        """Read nothing more."""

    def answered_later(self) -> None:  # noqa: B027 - a shell may have nothing to do
        """A request that was pending has its answer."""

    @property
    def stuffed(self) -> bool:
        """True if no more answers shall be made that would only be held."""
        return self.held and self.unsent > WRITE_AHEAD


class Pump:
    """The connections of one cluster between their input and the router.

    No connection keeps the others waiting: a turn ends after a slice of work, and of the connections that ask for much
    only one has a share in it.

    router: handles the requests
    connections: those that are open, by number
    disk: what answers wait for; None if the cluster is in memory only
    stopwatch: seconds, from any moment on, by which work is measured
    in_a_row: requests of one connection that are served before others have their turn
    requests, responses: what all connections may hold together
    """

    def __init__(
        self, router: Router, stopwatch: Callable[[], float], disk: Disk | None = None, in_a_row: int = IN_A_ROW
    ) -> None:
        self.router = router
        self.connections: dict[int, Connection] = {}
        self.disk = disk
        self._stopwatch = stopwatch
        self._in_a_row = in_a_row
        self._ready: deque[Connection] = deque()
        self._heavy: deque[Connection] = deque()  # those that ask for much
        self._heavy_waits = False  # the last turn had no time for them
        self._held: list[Connection] = []
        self.set_budgets()

    def set_budgets(self) -> None:
        """Take the limits from the broker, which may be new; no connection is open."""
        settings = self.router.broker.settings
        requests, responses = settings.queued_max_request_bytes, settings.mockbroker_queued_max_response_bytes
        self.requests = Budget("bytes of unfinished requests", "queued.max.request.bytes", requests)
        self.responses = Budget("bytes of unread responses", "mockbroker.queued.max.response.bytes", responses)

    def restart(self) -> None:
        """Forget the rest of all requests: the broker is another one. Every connection is closed."""
        self._ready.clear()
        self._heavy.clear()
        self._held.clear()
        self.set_budgets()

    def open(self, connection: Connection) -> None:
        """Serve this connection too."""
        self.connections[connection.number] = connection

    def enqueue(self, connection: Connection) -> None:
        """Serve it with the next turns: it has received something, or may be served again."""
        if not connection.queued:
            connection.queued = True
            heavy = connection.slow > ONCE_SLOW or connection.work is not None or connection.buffered > LARGE
            (self._heavy if heavy else self._ready).append(connection)

    @property
    def queued(self) -> int:
        """How many connections are to be served."""
        return len(self._ready) + len(self._heavy)

    def turn(self, now: float) -> bool:
        """Serve connections that are ready, for about a slice; True if some remain. ``now``: the broker's time.

        Those that ask for much wait for the others, but have a share in every second turn.
        """
        ready, heavy, stopwatch = self._ready, self._heavy, self._stopwatch
        began = stopwatch()
        until, over, waiting = began + SLICE, False, bool(heavy)
        while ready and not over:
            connection = ready.popleft()
            connection.queued = False
            began = self._serve(connection, now, began)
            over = began > until
        if waiting:
            self._heavy_waits = over and not self._heavy_waits
            if not self._heavy_waits:
                connection = heavy.popleft()
                connection.queued = False
                self._serve(connection, now, began)
        return bool(ready or heavy)

    def serve(self, connection: Connection, now: float) -> None:
        """Serve a connection at once."""
        self._serve(connection, now, self._stopwatch())

    def _serve(self, connection: Connection, now: float, began: float) -> float:
        """Handle complete requests of a connection and send the answers; the rest is left to its next turn.

        A request that cannot be read, or that a handler fails on, closes this connection only. ``began``: this moment
        of the stopwatch; it returns the one at its end.
        """
        if connection.work is not None:
            more = self.resume(connection, now)
        else:
            more = self._serve_requests(connection, now, began + SLICE)
        worked = (
            self._stopwatch() - began
        )  # without sending, which wakes the peer, and the system may let that run first
        self.flush(connection)
        self.weigh(connection)
        ended = self._stopwatch()
        if worked > SLICE:
            connection.slow = min(connection.slow + ONCE_SLOW, MOST_SLOW)
        elif connection.slow:
            connection.slow -= 1
        if more:
            self.enqueue(connection)
        if not connection.closed:
            connection.regulate()
            if connection.ended:
                self.close_if_over(connection)
        return ended

    def _serve_requests(self, connection: Connection, now: float, until: float) -> bool:
        """Handle complete requests until a share is used up; True if there may be more of them."""
        requests, stopwatch = connection.requests, self._stopwatch
        for _ in range(self._in_a_row):
            if connection.closed or connection.draining or connection.given_up:
                return False
            if connection.held and connection.stuffed:
                return False
            try:
                call = requests.next_call()
            except WireError as error:
                self._refuse(connection, str(error))
                return False
            except Exception as error:
                self.fail(connection, "its request could not be read", error)
                return False
            if call is None:
                return False
            self.handle(connection, call, now)
            if stopwatch() > until:
                break
        return connection.requests.ticket is None

    def resume(self, connection: Connection, now: float) -> bool:
        """Handle the next slice of a request, also if its connection is closed; True if there may be more to serve."""
        work, connection.work = connection.work, None
        assert work is not None
        try:
            outcomes = work.resume(now)
        except Exception as error:
            self.fail(connection, "its request failed", error)
            return False
        self.deliver(outcomes, connection)
        if connection.closed:
            self.router.forget(work.ticket)
        return True

    def handle(self, connection: Connection, call: Call[Any], now: float) -> None:
        """Have a request answered, and deliver all answers that it brings."""
        try:
            outcomes = self.router.step(call, now, connection.stages)
        except Exception as error:
            self.fail(connection, "its request failed", error)
            return
        self.deliver(outcomes, connection)

    def deliver(self, outcomes: Iterable[Outcome], served: Connection | None = None) -> None:
        """Give each answer to its connection, and keep the work that remains for its next turn.

        ``served``: the connection that is being served.
        """
        for outcome in outcomes:
            connection = self.connections.get(outcome.ticket.connection)
            if isinstance(outcome, Unfinished):
                self._keep_work(outcome, connection or served)
                continue
            if connection is None or connection.requests.ticket is not outcome.ticket:
                self.unclaimed(outcome)
                continue
            if connection is not served:
                self.enqueue(connection)
                connection.answered_later()
            if isinstance(outcome, Reply):
                self._answer(connection, outcome)
            elif isinstance(outcome, NoReply):
                connection.requests.skip_answer()
            else:
                if isinstance(outcome, Dismiss) and outcome.response is not None:
                    self._answer(connection, Reply(outcome.ticket, outcome.response))
                self._refuse(connection, outcome.reason)

    def _keep_work(self, work: Unfinished, connection: Connection | None) -> None:
        """Its next turn goes on with it, also if it has been closed: no request is carried out by half."""
        if connection is not None:
            connection.work = work
            self.enqueue(connection)

    def unclaimed(self, outcome: Outcome) -> None:
        """An answer for which no connection waits: its connection has been closed."""

    def _answer(self, connection: Connection, reply: Reply) -> None:
        try:
            unsent = connection.answer(reply)
        except ResponseTooLargeError as error:
            self._refuse(connection, str(error))
            return
        except Exception as error:
            self.fail(connection, "its answer could not be written", error)
            return
        if self.disk is not None:
            connection.after = self.disk.collected
        if unsent > WRITE_AHEAD:
            self.flush(connection)
            self.weigh(connection)

    # --- sending and holding ---

    def flush(self, connection: Connection) -> None:
        """Send the answers of a connection, unless they have to wait."""
        if connection.closed or connection.draining or connection.held or not connection.unsent:
            return
        if self.disk is not None and self.hold(connection):
            return
        if not connection.send():
            self.close(connection)

    def hold(self, connection: Connection) -> bool:
        """True if nothing may be sent, as a change before it is not durable yet; ``release`` sends it."""
        if self.disk is None or not connection.durable or connection.after <= self.disk.synced:
            return False
        if not connection.held:
            connection.held = True
            self._held.append(connection)
        return True

    def release(self) -> None:
        """Send the answers that waited for the disk, as far as it is synced now; the next turn serves on."""
        held, self._held = self._held, []
        for connection in held:
            connection.held = False
            self.flush(connection)  # before it is served: the answers to its next requests wait for the next sync
            self.enqueue(connection)
            if connection.given_up:
                self.give_up(connection, "")

    @property
    def unsynced(self) -> bool:
        """True if the disk has something to write."""
        return self.disk is not None and self.disk.collected > self.disk.synced

    # --- closing ---

    def fail(self, connection: Connection, what: str, error: Exception) -> None:
        """The broker failed on what this connection asked for."""
        log.exception("%s: closed, %s", connection.peer, what)
        self.give_up(connection, f"{what}: {error!r}")

    def _refuse(self, connection: Connection, reason: str) -> None:
        log.warning("%s: closed, %s", connection.peer, reason)
        self.give_up(connection, reason)

    def give_up(self, connection: Connection, reason: str) -> None:
        """Close; what was answered before is still sent, as far as the peer takes it then."""
        self.flush(connection)
        if connection.held:
            connection.given_up = True
            connection.stop_reading()
        else:
            self.close(connection, reason)

    def close_if_over(self, connection: Connection) -> None:
        """Close it if the peer has closed its half and has been answered, but for a request that is pending."""
        if connection.ended and not (connection.draining or connection.held or connection.queued):
            self.close(connection)

    def stop(self, node: int) -> None:
        """A broker has ended: what remains of the requests to it is not carried out. Its connections are closed."""
        for connection in self._heavy:
            if connection.requests.node == node:
                connection.work = None

    def close(self, connection: Connection, reason: str = "") -> None:
        """Close at once; a request of it that is pending is forgotten."""
        if connection.closed:
            return
        connection.closed = True
        number = connection.number
        self.connections.pop(number, None)
        self.requests.hold(number, 0)
        self.responses.hold(number, 0)
        if connection.requests.ticket is not None:
            self.router.forget(connection.requests.ticket)
        connection.hang_up(reason)

    # --- what all connections may hold ---

    def weigh(self, connection: Connection) -> None:
        """Count what a connection holds; where that is too much for all, those that hold the most are closed."""
        if connection.closed:
            return
        buffered, unsent = connection.buffered, connection.unsent
        if not (buffered or unsent or connection.weighed):
            return
        connection.weighed = bool(buffered or unsent)
        exceeded = self.requests.hold(connection.number, buffered)
        if self.responses.hold(connection.number, unsent) or exceeded:
            self._close_largest()

    def _close_largest(self) -> None:
        for budget in (self.requests, self.responses):
            while budget.exceeded:
                largest = budget.largest()
                closed = self.connections[largest]
                log.warning("%s: closed, %s", closed.peer, budget.closing_reason(largest))
                self.close(closed)
