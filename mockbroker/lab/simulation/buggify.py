"""The effects of the buggify points: rare but allowed behaviour of the broker, which then occurs often.

The methods with a buggify point are marked in the broker's code (``mockbroker/base/buggify.py``). A method is replaced
only on the objects of a simulation, right after their creation. Outside of the simulation, a buggify point costs
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from mockbroker.base.buggify import BATCH_DIFFERENTLY, FLUSH_PARTIALLY, RESPOND_LATE, WAKE_EARLY
from mockbroker.base.timers import FetchDue, ShareFetchDue
from mockbroker.broker.broker import Broker
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.queue import Queue
from mockbroker.net.pump import Connection, Pump
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.work import Work

# Name of a point -> what happens there, with the probability ``OFTEN`` each time.
POINTS: Mapping[str, str] = {
    RESPOND_LATE: "Pump.flush sends responses later, together with those of later requests",
    FLUSH_PARTIALLY: "DataDir.next_work returns only the first of the collected changes",
    WAKE_EARLY: "a delayed Fetch or ShareFetch is completed before its maximum wait",
    BATCH_DIFFERENTLY: "Pump.turn serves requests later, together with those that arrive meanwhile",
}
OFTEN = 0.2
LATEST = 0.1  # maximum delay of a response, seconds
TOGETHER = 0.02  # maximum time for which arriving requests are collected, seconds
EARLIEST = 0.5  # maximum time by which a delayed request is completed early, seconds


class Buggify:
    """The buggify points that are active in a run.

    Args:
        points: names of the active points, from POINTS.
        dice: random number generator for all choices.
        queue: event queue of the run.
        happened: function that is called with the name of a point each time that it changes something.
    """

    def __init__(
        self, points: Collection[str], dice: Dice, queue: Queue, happened: Callable[[str], None] = lambda _: None
    ) -> None:
        self._points = points
        self._happened = happened
        self._dice = dice
        self._queue = queue

    def change_pump(self, pump: Pump, alive: Callable[[], bool]) -> None:
        """Apply the point ``respond-late`` to a pump, if the point is active: some responses are sent after a delay.

        A pump is the loop of a broker process that handles received requests and sends responses.

        Args:
            pump: the pump, whose method ``flush`` is replaced.
            alive: function that returns whether the process of the pump is still running. If the process has crashed,
                its delayed responses are not sent.
        """
        if RESPOND_LATE not in self._points:
            return
        flush = pump.flush

        def send(connection: Connection) -> None:
            if alive():
                flush(connection)

        def flush_late(connection: Connection) -> None:
            if connection.out and not connection.closing and self._dice.chance(OFTEN):
                self._happened(RESPOND_LATE)
                self._queue.after(LATEST * self._dice.random(), send, connection)
            else:
                flush(connection)

        pump.flush = flush_late  # type: ignore[method-assign]

    def postpones_turn(self) -> float:
        """Return the time in seconds by which the handling of received requests is postponed; 0 to handle them now.

        If the point ``batch-differently`` is active, the time is chosen at random, mostly 0. If it is not active, the
        time is always 0.
        """
        if BATCH_DIFFERENTLY not in self._points or not self._dice.chance(OFTEN):
            return 0.0
        self._happened(BATCH_DIFFERENTLY)
        return TOGETHER * self._dice.random()

    def change_data_dir(self, data: DataDir) -> None:
        """Apply the point ``flush-partially`` to a data directory, if the point is active: some writes are divided into
        two.

        ``data``: the data directory, whose method for writing is replaced.
        """
        if FLUSH_PARTIALLY not in self._points:
            return
        next_work = data.next_work
        later: list[Any] = []  # operations that were taken out of the last work

        def next_part() -> Work | None:
            if later and data._pending is None:
                data._operations[:0] = later
                later.clear()
            work = next_work()
            if work is None or work.catalogue is not None or len(work.operations) < 2 or later:
                return work
            if not self._dice.chance(OFTEN):
                return work
            self._happened(FLUSH_PARTIALLY)
            count = self._dice.whole(1, len(work.operations) - 1)
            later.extend(work.operations[count:])
            part = replace(work, number=work.number - len(later), operations=work.operations[:count])
            data._pending = part
            return part

        data.next_work = next_part  # type: ignore[method-assign]

    def change_broker(self, broker: Broker) -> None:
        """Apply the point ``wake-early`` to a broker, if the point is active.

        Then the broker completes some Fetch and ShareFetch requests before their maximum wait has passed.

        ``broker``: the broker, whose method for setting deadlines is replaced.
        """
        if WAKE_EARLY not in self._points:
            return
        deadlines = broker.client_deadlines
        set_deadline = deadlines.set

        def set_early(key: Any, at: float) -> None:
            if isinstance(key, (FetchDue, ShareFetchDue)) and self._dice.chance(OFTEN):
                self._happened(WAKE_EARLY)
                at -= EARLIEST * self._dice.random()
            set_deadline(key, at)

        deadlines.set = set_early  # type: ignore[method-assign]
