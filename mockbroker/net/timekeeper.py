"""The timer of a cluster: a task that handles due deadlines. Tests can stop, advance and resume its clock."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Protocol

import trio

from mockbroker.broker.journal import Event
from mockbroker.net.clock import BrokerTime
from mockbroker.net.pump import SLICE, Pump

log = logging.getLogger("mockbroker")

ROUNDING = 1e-6  # seconds; maximum rounding error of a sum of steps that should reach a deadline
LATE = 0.1  # seconds; a timer that wakes later than this reads the requests that have arrived before it continues


class CatchUp(Protocol):
    """The interface of the function that reads and serves the requests that have arrived."""

    def __call__(self, *, until_idle: bool) -> Awaitable[None]:
        """Read and serve the requests that have arrived, and return when this is done.

        ``until_idle``: True to serve until no request remains, False to serve each connection once.
        """
        ...


class Timekeeper:
    """The timer of a broker: it handles each deadline, such as the end of a session timeout, when it is due.

    Args:
        pump: The pump, which sends the responses that result from a deadline.
        clock: The broker's clock.
        catch_up: Function that reads and serves the requests that have arrived.
        turn: Function that serves queued connections for a limited time, see ``Pump.turn``.
        stopwatch: Function that returns seconds since an arbitrary time, to measure elapsed time.
    """

    def __init__(
        self,
        pump: Pump,
        clock: BrokerTime,
        catch_up: CatchUp,
        turn: Callable[[], bool],
        stopwatch: Callable[[], float],
    ) -> None:
        self.clock = clock
        self._pump = pump
        self._router = pump.router
        self._catch_up = catch_up
        self._turn = turn
        self._stopwatch = stopwatch
        self._wake = trio.Event()
        self._wake_at = 0.0
        self.attach_clock()

    def attach_clock(self) -> None:
        """Connect the clock to the router's current broker, and let the timer read the next deadline again."""
        self._router.broker.to_client_time = self.clock.client_time
        self._router.broker.set_clock_stopped(not self.clock.running)
        self._wake.set()

    async def run(self) -> None:
        """Handle deadlines when they are due, until cancelled. This is the only timer of a cluster."""
        while True:
            self._wake_at = self._next_deadline()
            self._wake = trio.Event()
            with trio.move_on_at(self._wake_at):
                await self._wake.wait()
            if trio.current_time() - self._wake_at > LATE:  # a heartbeat that has arrived renews a session first
                await self._catch_up(until_idle=False)
            client_time = trio.current_time()
            slice_ends = self._stopwatch() + SLICE
            while self._next_deadline() <= client_time:
                due, now = self._router.broker.deadlines.earliest, self.clock.read()
                at = max(now, due) if self.clock.when(due) <= client_time else now  # times are rounded
                self._tick(at, client_time)
                if self._stopwatch() > slice_ends:
                    await trio.lowlevel.checkpoint()
                    slice_ends = self._stopwatch() + SLICE
            await trio.lowlevel.checkpoint()

    def reschedule(self) -> None:
        """Wake the timer if the next deadline is earlier than the time until which the timer sleeps."""
        broker, clock = self._router.broker, self.clock
        due = broker.deadlines.earliest
        if not clock.real:
            due = clock.when(due)
        if due < self._wake_at or broker.client_deadlines.earliest < self._wake_at:
            self._wake.set()

    def stop_clock(self) -> None:
        """Stop the broker's clock; do nothing if it is already stopped.

        First the clock advances by ``mockbroker.join.settle.ms``, and the deadlines that became due are handled. While
        the clock is stopped, this setting does not delay the end of a join phase.
        """
        if self.clock.running:
            self.clock.stop()
            self._pass(self._router.broker.groups.join_settle)
            self.attach_clock()

    def resume_clock(self) -> None:
        """Let the broker's stopped clock run again, from the time at which it was stopped."""
        self.clock.resume()
        self.attach_clock()

    async def advance(self, seconds: float) -> list[Event]:
        """Serve all requests that have arrived, then advance the broker's clock.

        Args:
            seconds: Number of seconds by which the clock advances.

        Returns:
            The journal events of the served requests and of the deadlines that became due.
        """
        happened: list[Event] = []
        self._router.journal.listeners.append(happened.append)
        try:
            for _ in range(2):  # lets listeners accept new connections
                await trio.lowlevel.checkpoint()
            await self._catch_up(until_idle=True)
            self._pass(seconds)
        finally:
            with suppress(ValueError):  # the cluster was replaced meanwhile
                self._router.journal.listeners.remove(happened.append)
        return happened

    def _pass(self, seconds: float) -> None:
        """Advance the clock by a number of seconds. Stop at each deadline in this period, and handle the deadline.

        Requests that arrive meanwhile are served after the call.
        """
        broker, clock, ran = self._router.broker, self.clock, self.clock.running
        clock.stop()
        until = clock.read() + seconds
        broker.groups.quiet_until = until
        while (due := broker.deadlines.earliest) <= until + ROUNDING:
            clock.move_to(max(due, clock.read()))
            self._tick(clock.read(), trio.current_time())
        broker.groups.quiet_until = -inf
        clock.move_to(max(until, clock.read()))
        if ran:
            clock.resume()
        self._wake.set()

    def _next_deadline(self) -> float:
        """Return the client time in seconds at which the next deadline is due.

        Deadlines in broker time are converted to client time, and compared with the deadlines in client time.
        """
        broker = self._router.broker
        return min(self.clock.when(broker.deadlines.earliest), broker.client_deadlines.earliest)

    def _tick(self, now: float, client_time: float) -> None:
        """Handle one due deadline, then serve queued connections for a limited time. Log an exception of the handler.

        Args:
            now: the broker time in seconds.
            client_time: the client time in seconds.
        """
        try:
            self._pump.deliver(self._router.tick(now, client_time))
            self._turn()
        except Exception:
            log.exception("the handler of an expired deadline raised an exception; the broker continues")
