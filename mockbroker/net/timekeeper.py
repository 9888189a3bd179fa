"""The broker's deadlines in trio's time: one timer task, and a clock that tests stop, step and resume."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from math import inf
from typing import Protocol

import trio

from mockbroker.broker.journal import Event
from mockbroker.net.clock import BrokerTime
from mockbroker.net.pump import SLICE, Pump

log = logging.getLogger("mockbroker")

ROUNDING = 1e-6  # seconds by which a sum of steps may miss a deadline that it was meant to reach
LATE = 0.1  # seconds; when the timer wakes so late, something held up the broker, and clients are waiting to be read


class CatchUp(Protocol):
    """Reads what clients have sent by now, and serves it."""

    def __call__(self, *, until_idle: bool) -> Awaitable[None]:
        """``until_idle``: until nothing is left, else each connection that has sent something once."""
        ...


class Timekeeper:
    """Has the router do what is due.

    clock: the time that the router is given
    catch_up: reads what clients have sent by now, and serves it
    turn: serves what is ready, as after every change
    stopwatch: seconds, from any moment on, by which work is measured
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
        """Give the broker, which may be new, the time of the clock."""
        self._router.broker.outside = self.clock.outside
        self._router.broker.stand(not self.clock.running)
        self._wake.set()

    async def run(self) -> None:
        """The only timer: it wakes when something is due, or when that moves closer."""
        while True:
            self._wake_at = self._next_deadline()
            self._wake = trio.Event()
            with trio.move_on_at(self._wake_at):
                await self._wake.wait()
            if trio.current_time() - self._wake_at > LATE:  # what was sent meanwhile counts first
                await self._catch_up(until_idle=False)
            outside = trio.current_time()
            slice_ends = self._stopwatch() + SLICE
            while self._next_deadline() <= outside:
                due, now = self._router.broker.waits.next(), self.clock.read()
                self._tick(max(now, due) if self.clock.when(due) <= outside else now, outside)  # times are rounded
                if self._stopwatch() > slice_ends:
                    await trio.lowlevel.checkpoint()
                    slice_ends = self._stopwatch() + SLICE
            await trio.lowlevel.checkpoint()

    def reschedule(self) -> None:
        """Wake the timer if a deadline has moved closer."""
        if self._next_deadline() < self._wake_at:
            self._wake.set()

    def stop_clock(self) -> None:
        """Stop the time. Groups that waited for the last JoinGroups to come do so no more."""
        if self.clock.running:
            self.clock.stop()
            self._pass(self._router.broker.groups.settle)
            self.attach_clock()

    def resume_clock(self) -> None:
        """Let the time run on from where it stopped."""
        self.clock.resume()
        self.attach_clock()

    async def advance(self, seconds: float) -> list[Event]:
        """Serve what clients have sent up to now, and let time pass; the events of that."""
        happened: list[Event] = []
        self._router.journal.listeners.append(happened.append)
        try:
            for _ in range(2):  # connections that were just made are accepted
                await trio.lowlevel.checkpoint()
            await self._catch_up(until_idle=True)
            self._pass(seconds)
        finally:
            self._router.journal.listeners.remove(happened.append)
        return happened

    def _pass(self, seconds: float) -> None:
        """Do everything that is due within this time, each at its own; no request is served meanwhile."""
        broker, clock, ran = self._router.broker, self.clock, self.clock.running
        clock.stop()
        until = clock.read() + seconds
        broker.groups.quiet_until = until
        while (due := broker.waits.next()) <= until + ROUNDING:
            clock.move_to(max(due, clock.read()))
            self._tick(clock.read(), trio.current_time())
        broker.groups.quiet_until = -inf
        clock.move_to(max(until, clock.read()))
        if ran:
            clock.resume()
        self._wake.set()

    def _next_deadline(self) -> float:
        """When something is due, in trio's time."""
        broker = self._router.broker
        return min(self.clock.when(broker.waits.next()), broker.patience.next())

    def _tick(self, now: float, outside: float) -> None:
        """Do one thing that is due in either time."""
        try:
            self._pump.deliver(self._router.tick(now, outside))
            self._turn()
        except Exception:
            log.exception("a deadline failed; the broker goes on")
