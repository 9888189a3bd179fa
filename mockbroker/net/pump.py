"""The pump, which chooses the connection to serve next, holds responses until data is on disk, and closes connections.

The pump uses no sockets, clocks or tasks. An IO layer implements ``Connection``, passes connections with requests to
``enqueue``, and calls ``turn``. There are two IO layers: net/sockets.py uses sockets, and lab/simulation/shell.py runs
in virtual time.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kwire import WireError
from mockbroker.base.budget import Budget
from mockbroker.base.buggify import BATCH_DIFFERENTLY, RESPOND_LATE, buggify_point
from mockbroker.base.effects import Call, Close, Dismiss, NoReply, Pace, Reply, SendMore, Ticket, Unmute
from mockbroker.base.response_limit import ResponseTooLargeError
from mockbroker.broker.router import Outcome, Router, Unfinished
from mockbroker.broker.stages import Stage
from mockbroker.net.connection import Undecoded

log = logging.getLogger("mockbroker")

WRITE_AHEAD = 1 << 20  # maximum bytes of responses that are collected before they are sent
SLICE = 0.005  # seconds of work after which other tasks run
COLLECT = 0.001  # seconds of work after which the responses of the connections that were served are sent
IN_A_ROW = 64  # maximum requests of one connection that are served before other connections are served
ONCE_SLOW, MOST_SLOW = 2, 16  # ``Connection.slow`` after one slow turn, which is not yet heavy; and its maximum
LARGE = 65_536  # maximum bytes that a connection buffers before it is heavy, and served after the others


class Disk(Protocol):
    """The interface of the storage: how many changes were made, and how many of them are durable.

    Changes are numbered from 1. The pump sends a response only after all changes before the response are durable.
    """

    @property
    def collected(self) -> int:
        """The number of the last change."""
        ...

    @property
    def synced(self) -> int:
        """The number of the last durable change; all earlier changes are durable too."""
        ...


class NothingReceived:
    """The receive buffer of a connection that does not count its received bytes. It is always empty.

    Attributes:
        held: Number of buffered bytes, always 0.
    """

    __slots__ = ()
    held = 0


NOTHING_RECEIVED = NothingReceived()


class Requests(Protocol):
    """The interface of the requests that a client sends on one connection. At most one request is pending.

    Attributes:
        ticket: Ticket of the pending request; None if no request is pending.
    """

    ticket: Ticket | None

    @property
    def node(self) -> int:
        """The id of the broker that the client is connected to."""
        ...

    def next_call(self) -> Call[Any] | Undecoded | None:
        """Return the next request; None if more bytes are needed or a request is pending.

        A large request is returned as ``Undecoded``, which the caller must decode part by part.
        """

    def skip_answer(self) -> None:
        """End the pending request without a response, as for a Produce with acks=0."""


class Connection(ABC):
    """The base class of client connections; subclasses add input and output.

    Attributes:
        number: Number of the connection; the tickets of its requests contain it.
        peer: Address of the client, for the log.
        requests: The requests that have arrived.
        frames: Buffer of received bytes of requests that are not handled yet. The subclass chooses the type of the
            buffer, whose attribute ``held`` must be the number of bytes.
        out: Buffer of encoded responses that are not sent yet. The subclass chooses the type of the buffer, whose
            ``len`` must be the number of bytes.
        stages: Checks that a request passes before it is handled, such as the authentication.
        durable: False if responses are sent before the changes they acknowledge are on disk.
        after: Number of the change (see Disk) that must be durable before the unsent responses are sent.
        held: True while the change with the number ``after`` is not durable; nothing is sent meanwhile.
        draining: True while a task sends responses to a client that reads slowly; no request is served meanwhile.
        ended: True if the client has shut down its sending side; the client may still read responses.
        closing: True if the connection will be closed after the held responses are sent.
        closed: True if the connection is closed.
        queued: True while the connection is queued to be served.
        slow: Measure of how slow the last turns of the connection were: ONCE_SLOW is added for each turn longer than
            SLICE seconds, 1 is subtracted for each shorter turn.
        weighed: True if ``Pump.weigh`` counted buffered bytes of the connection at its last call.
        work: The large request that is being decoded or handled part by part; None if there is none.
        muted: True while no request is served because of a throttle time or a fault.
        pace: Pace at which a fault rule makes the broker send responses; None for full speed.
        resetting: True if the connection will be closed by a TCP reset.
    """

    __slots__ = (
        "after",
        "closed",
        "closing",
        "draining",
        "ended",
        "frames",
        "held",
        "muted",
        "number",
        "out",
        "pace",
        "peer",
        "queued",
        "requests",
        "resetting",
        "slow",
        "stages",
        "weighed",
        "work",
    )

    durable = True

    def __init__(self, number: int, requests: Requests, peer: str, stages: tuple[Stage, ...] = ()) -> None:
        self.number = number
        self.requests = requests
        self.peer = peer
        self.stages = stages
        self.frames: Any = NOTHING_RECEIVED
        self.out: Any = b""
        self.after = 0
        self.held = False
        self.draining = False
        self.ended = False
        self.closing = False
        self.closed = False
        self.queued = False
        self.slow = 0
        self.weighed = False
        self.work: Unfinished | Undecoded | None = None
        self.muted = False
        self.pace: Pace | None = None
        self.resetting = False

    @abstractmethod
    def answer(self, reply: Reply) -> int:
        """Encode the response to the pending request, and append it to ``out``.

        Returns: The number of bytes of all unsent responses.

        Raises:
            kwire.WireError: The response cannot be encoded.
            ResponseTooLargeError: The response exceeds ``mockbroker.response.max.bytes``.
        """

    @abstractmethod
    def send(self) -> bool:
        """Send as many bytes of ``out`` as the client accepts now; return False if the connection is broken.

        If bytes remain although ``pace`` is None, set ``draining``.
        """

    @abstractmethod
    def hang_up(self, reason: str) -> None:
        """Close the socket or in-process connection, and drop unsent bytes. ``reason``: reason for the log."""

    def reset(self) -> None:  # noqa: B027 - a shell may have nothing to do
        """Drop unsent bytes, and make the transport send a TCP reset when it is closed."""

    def fail_handshake(self) -> None:  # noqa: B027 - a shell may have nothing to do
        """Send a TLS alert, before any byte of the TLS handshake."""

    def regulate(self) -> None:  # noqa: B027 - a shell may have nothing to do
        """Start or stop reading from the client, depending on how many bytes are buffered.

        The pump calls this after each time it has served the connection.
        """

    def stop_reading(self) -> None:  # noqa: B027 - a shell may have nothing to do
        """Stop reading from the client."""

    def answered_later(self) -> None:  # noqa: B027 - a shell may have nothing to do
        """Handle a response that was completed while another connection was served, such as a response to JoinGroup."""

    @property
    def send_buffer_full(self) -> bool:
        """Whether more than WRITE_AHEAD bytes of responses are held until changes are on disk. The pump then serves no
        further request of the connection.
        """
        return self.held and len(self.out) > WRITE_AHEAD


class Pump:
    """The scheduler that passes requests from the connections of a cluster to its router.

    The pump works in turns: each call of ``turn`` serves queued connections for about SLICE seconds, and at most one
    heavy connection. A connection is heavy if its last turns were slow, if it has an unfinished request, or if more
    than LARGE bytes of its requests are buffered.

    Args:
        router: The router, which handles the requests.
        stopwatch: Function that returns seconds since an arbitrary time, to measure elapsed time.
        disk: The storage; None if the cluster is in memory only. A response waits until all earlier changes are
            durable.
        in_a_row: Maximum number of requests of one connection that are served before other connections are served.
        reschedule: Function that makes the broker's timer read its next deadline again. The pump calls it after a
            closed connection has added a deadline.

    Attributes:
        connections: The open connections by number.
        requests: Limit on the buffered bytes of unfinished requests of all connections.
        responses: Limit on the buffered bytes of unread responses of all connections.
    """

    def __init__(
        self,
        router: Router,
        stopwatch: Callable[[], float],
        disk: Disk | None = None,
        in_a_row: int = IN_A_ROW,
        reschedule: Callable[[], None] = lambda: None,
    ) -> None:
        self.router = router
        self.connections: dict[int, Connection] = {}
        self.disk = disk
        self._stopwatch = stopwatch
        self._in_a_row = in_a_row
        self._reschedule = reschedule
        self._ready: deque[Connection] = deque()
        self._heavy: deque[Connection] = deque()
        self._heavy_waits = False  # the last turn served no heavy connection
        self._held: list[Connection] = []
        self.set_budgets()

    def set_budgets(self) -> None:
        """Set the limits ``requests`` and ``responses`` from the broker's settings. The caller must have closed all
        connections.
        """
        settings = self.router.broker.settings
        requests, responses = settings.queued_max_request_bytes, settings.mockbroker_queued_max_response_bytes
        self.requests = Budget("bytes of unfinished requests", "queued.max.request.bytes", requests)
        self.responses = Budget("bytes of unread responses", "mockbroker.queued.max.response.bytes", responses)

    def restart(self) -> None:
        """Drop all unfinished requests, and set the limits from the settings of the router's new broker. The caller
        must have closed all connections.
        """
        self._ready.clear()
        self._heavy.clear()
        self._held.clear()
        self.set_budgets()

    def open(self, connection: Connection) -> None:
        """Add a new client connection."""
        self.connections[connection.number] = connection

    def enqueue(self, connection: Connection) -> None:
        """Add a connection to the queue, because it has received bytes or may be served again; do nothing if it is
        queued.
        """
        if not connection.queued:
            connection.queued = True
            heavy = connection.slow > ONCE_SLOW or connection.work is not None or connection.frames.held > LARGE
            (self._heavy if heavy else self._ready).append(connection)

    @property
    def queued(self) -> int:
        """The number of queued connections."""
        return len(self._ready) + len(self._heavy)

    @buggify_point(BATCH_DIFFERENTLY)
    def turn(self, now: float) -> bool:
        """Serve queued connections for about SLICE seconds; return True if connections remain in the queue.

        The responses are sent after each COLLECT seconds of work, and at the end of the turn.

        A heavy connection (see Pump) is served after the connections that are not heavy. While a heavy connection is
        queued, at least every second turn serves one.

        Args:
            now: The broker time in seconds.
        """
        ready, heavy = self._ready, self._heavy
        began = self._stopwatch()
        until, over, waiting = began + SLICE, False, bool(heavy)
        unsent: list[Connection] = []
        send_at = began + COLLECT
        while ready and not over:
            connection = ready.popleft()
            connection.queued = False
            began = self._serve(connection, now, began)
            unsent.append(connection)
            if ready or waiting:
                over = began > until
                if began > send_at:
                    self._send(unsent)
                    began = self._stopwatch()
                    send_at = began + COLLECT
        self._send(unsent)
        if waiting:
            self._heavy_waits = over and not self._heavy_waits
            if not self._heavy_waits:
                connection = heavy.popleft()
                connection.queued = False
                self._serve(connection, now, self._stopwatch())
                self._send([connection])
        return bool(ready or heavy)

    def serve(self, connection: Connection, now: float) -> None:
        """Serve a connection immediately. ``now``: the broker time in seconds."""
        self._serve(connection, now, self._stopwatch())
        self._send([connection])

    def _serve(self, connection: Connection, now: float, began: float) -> float:
        """Handle complete requests of a connection for about SLICE seconds. The caller sends the responses.

        If the connection has an unfinished large request, handle only one part of it. A request that is malformed, or
        whose handler raises an exception, closes only its own connection.

        Args:
            connection: The connection to serve.
            now: The broker time in seconds.
            began: The current time of the stopwatch, in seconds.

        Returns:
            The time of the stopwatch at the end, in seconds.
        """
        if connection.work is not None:
            decoding = isinstance(connection.work, Undecoded)
            more = self._decode(connection, now) if decoding else self.resume(connection, now)
        else:
            more = self._serve_requests(connection, now, began + SLICE)
        ended = self._stopwatch()
        if ended - began > SLICE:
            connection.slow = min(connection.slow + ONCE_SLOW, MOST_SLOW)
        elif connection.slow:
            connection.slow -= 1
        if more:
            self.enqueue(connection)
        return ended

    def _send(self, served: list[Connection]) -> None:
        """Send the responses of served connections, and start or stop reading from their clients.

        The caller collects several connections. A response wakes its client, which may interrupt the broker if all
        cores are busy, and an interruption costs as much CPU time as a short request.

        Args:
            served: The connections. The method removes them from the list.
        """
        for connection in served:
            if connection.out:
                self.flush(connection)
            if connection.frames.held or connection.out or connection.weighed:
                self.weigh(connection)
            if not connection.closed:
                connection.regulate()
                if connection.ended:
                    self.close_if_over(connection)
        served.clear()

    def _serve_requests(self, connection: Connection, now: float, stop_at: float) -> bool:
        """Handle complete requests of a connection: at most ``in_a_row`` requests (see Pump).

        Args:
            connection: The connection, which has no unfinished request.
            now: The broker time in seconds.
            stop_at: Time of the stopwatch, in seconds, after which no further request is handled.

        Returns:
            True if complete requests may remain.
        """
        requests, stopwatch = connection.requests, self._stopwatch
        for _ in range(self._in_a_row):
            if connection.closed or connection.draining or connection.closing or connection.muted:
                return False
            if connection.held and connection.send_buffer_full:
                return False
            try:
                call = requests.next_call()
            except WireError as error:
                self.refuse_request(connection, error)
                return False
            except Exception as error:
                self.fail(connection, "internal error while decoding a request", error)
                return False
            if call is None:
                return False
            if isinstance(call, Undecoded):
                self._keep_work(call, connection)
                return False
            self.handle(connection, call, now)
            if stopwatch() > stop_at:
                break
        return connection.requests.ticket is None

    def _decode(self, connection: Connection, now: float) -> bool:
        """Decode the next part of a connection's large request. After the last part, pass the request to the router.

        The request is decoded even if the connection has been closed meanwhile.

        Args:
            connection: The connection of the request.
            now: The broker time in seconds.

        Returns:
            True if complete requests may remain.
        """
        work, connection.work = connection.work, None
        assert isinstance(work, Undecoded)
        try:
            next(work.steps)
        except StopIteration as end:
            self.handle(connection, end.value, now)
            if connection.closed:
                self.router.forget(work.ticket)
            return connection.requests.ticket is None
        except WireError as error:
            self.refuse_request(connection, error)
            return False
        except Exception as error:
            self.fail(connection, "internal error while decoding a request", error)
            return False
        self._keep_work(work, connection)
        return False

    def resume(self, connection: Connection, now: float) -> bool:
        """Handle the next part of a connection's unfinished request, even if the connection is closed.

        Args:
            connection: The connection of the request.
            now: The broker time in seconds.

        Returns:
            True if complete requests may remain.
        """
        work, connection.work = connection.work, None
        assert isinstance(work, Unfinished)
        try:
            outcomes = work.resume(now)
        except Exception as error:
            self.fail(connection, "internal error while handling a request", error)
            return False
        self.deliver(outcomes, connection)
        if connection.closed:
            self.router.forget(work.ticket)
        return True

    def handle(self, connection: Connection, call: Call[Any], now: float) -> None:
        """Pass a request to the router, and deliver the resulting responses. If the handler raises an exception, log it
        and close the connection.

        Args:
            connection: the connection that the request came from.
            call: request with its sender and its ticket.
            now: the broker time in seconds.
        """
        try:
            outcomes = self.router.step(call, now, connection.stages)
        except Exception as error:
            self.fail(connection, "internal error while handling a request", error)
            return
        self.deliver(outcomes, connection)

    def deliver(self, outcomes: Iterable[Outcome], served: Connection | None = None) -> None:
        """Carry out the outcomes of a request or of a deadline, such as sending a response.

        A response is added to the unsent responses of its connection. The rest of a large request is stored for a later
        turn.

        Args:
            outcomes: The outcomes, such as responses, connections to close, and large requests that are not finished.
            served: The connection that is being served; None if the outcomes come from a deadline.
        """
        for outcome in outcomes:
            ticket = outcome.ticket
            if (
                isinstance(outcome, Reply)
                and served is not None
                and ticket is served.requests.ticket
                and not served.closed
            ):
                self._answer(served, outcome)  # most often
                continue
            connection = self.connections.get(ticket.connection)
            if isinstance(outcome, Unfinished):
                self._keep_work(outcome, connection or served)
                continue
            if connection is None or connection.requests.ticket is not ticket:
                self._control(connection, outcome)
                continue
            if connection is not served:
                self.enqueue(connection)
                connection.answered_later()
            if isinstance(outcome, Reply):
                self._answer(connection, outcome)
            elif isinstance(outcome, NoReply):
                connection.requests.skip_answer()
                connection.muted = connection.muted or outcome.mute
            elif isinstance(outcome, Unmute | SendMore):
                self._resume_sending(connection, outcome)
            else:
                if isinstance(outcome, Dismiss) and outcome.response is not None:
                    self._answer(connection, Reply(outcome.ticket, outcome.response))
                self._close_by_fault(connection, outcome.reason, reset=isinstance(outcome, Close) and outcome.reset)

    def _control(self, connection: Connection | None, outcome: Outcome) -> None:
        """Carry out an outcome that does not answer a pending request, such as closing a connection.

        A response to a request whose connection is closed is discarded.

        Args:
            connection: The connection that the outcome names; None if the connection is closed.
            outcome: The outcome.
        """
        if isinstance(outcome, Unmute | SendMore):
            if connection is not None:
                self._resume_sending(connection, outcome)
        elif isinstance(outcome, Close) and connection is not None and outcome.ticket.api_key < 0:
            if outcome.alert:
                connection.fail_handshake()
            self._close_by_fault(connection, outcome.reason, reset=outcome.reset)
        else:
            self.unclaimed(outcome)

    def _resume_sending(self, connection: Connection, outcome: Unmute | SendMore) -> None:
        """Serve a muted connection again, or send further bytes of a response that a fault rule slows down.

        Args:
            connection: The connection.
            outcome: ``Unmute`` to serve the connection again, ``SendMore`` to send further bytes.
        """
        if isinstance(outcome, SendMore):
            self.flush(connection)
            self.weigh(connection)
        else:
            connection.muted = False
        self.enqueue(connection)
        connection.answered_later()

    def _keep_work(self, work: Unfinished | Undecoded, connection: Connection | None) -> None:
        """Store the rest of a large request, and queue its connection, so that a later turn continues the request.

        The request is completed even if the connection is closed meanwhile, so that no change is applied in part.

        Args:
            work: The rest of the work on the request.
            connection: The connection; None to drop the rest of the work.
        """
        if connection is not None:
            connection.work = work
            self.enqueue(connection)

    def unclaimed(self, outcome: Outcome) -> None:
        """Discard a response whose connection has been closed. A simulation overrides this method."""

    def _answer(self, connection: Connection, reply: Reply) -> None:
        delivery = reply.delivery
        if delivery is not None:
            connection.muted = delivery.mute
            if delivery.pace is not None:
                self._set_pace(connection, delivery.pace)
        try:
            unsent = connection.answer(reply)
        except ResponseTooLargeError as error:
            self._refuse(connection, str(error))
            return
        except Exception as error:
            self.fail(connection, "internal error while encoding a response", error)
            return
        if self.disk is not None:
            connection.after = self.disk.collected
        if unsent > WRITE_AHEAD:
            self.flush(connection)
            self.weigh(connection)
        if delivery is not None and delivery.close:
            self._close_by_fault(connection, delivery.close, reset=delivery.reset)

    def _set_pace(self, connection: Connection, pace: Pace | None) -> None:
        """Set the pace at which a connection sends.

        If an earlier response is still being sent slowly, its pace is marked as finished.

        Args:
            connection: The connection.
            pace: The pace; None for full speed.
        """
        if connection.pace is not None:
            connection.pace.finished = True
        connection.pace = pace

    def _close_by_fault(self, connection: Connection, reason: str, *, reset: bool) -> None:
        """Close a connection because of a fault rule.

        Before that, unsent responses are sent as far as the client accepts them.

        Args:
            connection: The connection to close.
            reason: Reason for the log.
            reset: True to close the connection by a TCP reset.
        """
        connection.resetting = reset
        self._refuse(connection, reason)

    # --- sending and holding ---

    @buggify_point(RESPOND_LATE)
    def flush(self, connection: Connection) -> None:
        """Send the responses of a connection, unless they are held or the client reads slowly."""
        if connection.closed or connection.draining or connection.held or not connection.out:
            return
        if self.disk is not None and self.hold(connection):
            return
        if not connection.send():
            self.close(connection)

    def hold(self, connection: Connection) -> bool:
        """Hold the unsent responses of a connection until ``release``, if a change before them is not durable yet.

        Returns: True if the responses are held.
        """
        if self.disk is None or not connection.durable or connection.after <= self.disk.synced:
            return False
        if not connection.held:
            connection.held = True
            self._held.append(connection)
        return True

    def release(self) -> None:
        """Send the held responses whose changes are durable now, and queue their connections to be served."""
        held, self._held = self._held, []
        for connection in held:
            connection.held = False
            self.flush(connection)  # before it is served: responses to its next requests wait for the next sync
            self.enqueue(connection)
            if connection.closing:
                self.close_after_flush(connection, "")

    @property
    def unsynced(self) -> bool:
        """Whether changes exist that are not durable yet."""
        return self.disk is not None and self.disk.collected > self.disk.synced

    # --- closing ---

    def fail(self, connection: Connection, what: str, error: Exception) -> None:
        """Log an internal error of the broker, and close the connection whose request caused the error.

        Args:
            connection: The connection whose request caused the error.
            what: Phrase for the log that describes the error, such as "internal error while decoding a request".
            error: The exception that was raised.
        """
        log.exception("connection from %s closed: %s", connection.peer, what)
        self.close_after_flush(connection, f"{what}: {error!r}")

    def refuse_request(self, connection: Connection, error: WireError) -> None:
        """Close a connection whose next request is malformed. A simulation overrides this method.

        ``error``: the error from decoding the request.
        """
        self._refuse(connection, str(error))

    def _refuse(self, connection: Connection, reason: str) -> None:
        log.warning("connection from %s closed: %s", connection.peer, reason)
        self.close_after_flush(connection, reason)

    def close_after_flush(self, connection: Connection, reason: str) -> None:
        """Send the unsent responses of a connection as far as the client accepts them, then close the connection.

        If responses are held until changes are durable, the connection is closed after ``release``.

        ``reason``: reason for the log.
        """
        self.flush(connection)
        if connection.held:
            connection.closing = True
            connection.stop_reading()
        else:
            self.close(connection, reason)

    def close_if_over(self, connection: Connection) -> None:
        """Close a connection if its client has ended sending (half-closed) and all finished responses are sent."""
        busy = connection.draining or connection.held or connection.queued or connection.pace is not None
        if connection.ended and not busy:
            self.close(connection)

    def stop(self, node: int) -> None:
        """Drop the unfinished requests to a stopped broker. The caller must close the broker's connections.

        ``node``: broker id.
        """
        for connection in self._heavy:
            if connection.requests.node == node:
                connection.work = None

    def close(self, connection: Connection, reason: str = "") -> None:
        """Close a connection immediately, and drop its pending request. ``reason``: reason for the log."""
        if connection.closed:
            return
        connection.closed = True
        number = connection.number
        self.connections.pop(number, None)
        self.requests.hold(number, 0)
        self.responses.hold(number, 0)
        if connection.requests.ticket is not None:
            self.router.forget(connection.requests.ticket)
        if self.router.forget_connection(number):
            self._reschedule()
        self._set_pace(connection, None)
        if connection.resetting:
            connection.reset()
        connection.hang_up(reason)

    # --- budgets of all connections ---

    def weigh(self, connection: Connection) -> None:
        """Update the limits ``requests`` and ``responses`` with the number of bytes that are buffered for a connection.

        If a limit is exceeded, close the connections that buffer the most bytes.
        """
        if connection.closed:
            return
        buffered, unsent = connection.frames.held, len(connection.out)
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
                log.warning("connection from %s closed: %s", closed.peer, budget.closing_reason(largest))
                self.close(closed)
