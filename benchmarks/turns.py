"""CPU time of the broker between a heartbeat and its response during an attack: a row for each attack.

    python benchmarks/turns.py [--heartbeats 2000] [NAME ...]

The attacks are those of bystander.py, without sockets: the requests of their connections are available at once. A
heartbeat arrives while the broker is busy with them; its wait is the CPU time of the loop until the response. Other
processes on the machine change that little, and the time of the system between processes is not counted.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from uuid import UUID

from bystander import ATTACKS, Attack, add_names, at, check_names, framed

from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker.base.effects import Reply
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Router
from mockbroker.cli.garbage_collection import COLLECT_AFTER
from mockbroker.net.connection import ClientRequests
from mockbroker.net.pump import LARGE, Connection, Pump
from mockbroker.topics.model import Node

READ = 65_536  # bytes received at once
SECONDS = 20.0  # CPU limit of an attack


class Endless(Connection):
    """A connection that receives the same bytes repeatedly.

    Attributes:
        answered: number of responses.
        answered_at: time of the last response, in seconds of CPU.
    """

    __slots__ = ("answered", "answered_at", "at", "data")

    requests: ClientRequests

    def __init__(self, number: int, router: Router, data: bytes) -> None:
        super().__init__(number, ClientRequests(number, 0, "/127.0.0.1", router), f"peer {number}")
        self.data, self.at, self.answered = data, 0, 0
        self.answered_at = 0.0

    @property
    def buffered(self) -> int:
        return self.requests.buffered

    @property
    def unsent(self) -> int:
        return 0

    def answer(self, reply: Reply) -> int:
        self.requests.answer(reply)
        self.answered += 1
        self.answered_at = time.thread_time()
        return 0

    def send(self) -> bool:
        return True

    def hang_up(self, reason: str) -> None:
        pass

    def read(self) -> None:
        """Receive the next bytes, unless enough are buffered."""
        if self.data and (not self.requests.frames.complete or self.buffered <= LARGE) and self.requests.ticket is None:
            self.requests.receive(self.data[self.at : self.at + READ])
            self.at = (self.at + READ) if self.at + READ < len(self.data) else 0


def measure(attack: Attack, beats: int, topics: dict[str, int]) -> list[float]:
    """Return the wait of each heartbeat in seconds of CPU."""
    broker = Broker([Node(0, "127.0.0.1", 9092)], Settings.parse({}), ids())
    for name, partitions in topics.items():
        broker.cluster.create_topic(name, [[0]] * partitions)
    router = Router(broker, Journal(0.0))
    router.journal.max_events = 2_000  # as with mockbroker serve
    pump = Pump(router, time.thread_time)
    numbers = iter(range(1, 1_000_000))

    def opened(data: bytes) -> Endless:
        connection = Endless(next(numbers), router, data)
        pump.open(connection)
        return connection

    for request in attack.before():
        first = opened(request)
        while not first.answered:
            first.read()
            pump.enqueue(first)
            pump.turn(0.0)
        pump.close(first)
    data = attack.data()
    bystander, others = opened(b""), [opened(data) for _ in range(attack.connections)]
    beat = framed(HeartbeatRequest(group_id="b", generation_id=1, member_id="m"), 4)
    waits: list[float] = []
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    until = time.thread_time() + SECONDS
    while len(waits) < beats and time.thread_time() < until:
        began, had = time.thread_time(), bystander.answered
        others = [opened(data) if other.closed else other for other in others]
        for other in others:
            other.read()
            if other.requests.frames.complete:
                pump.enqueue(other)
        pump.turn(0.0)  # the heartbeat arrives during this turn
        bystander.requests.receive(beat)
        pump.enqueue(bystander)
        while bystander.answered == had:
            pump.turn(0.0)
            expire(router, pump)
        waits.append(bystander.answered_at - began)
    return sorted(waits)


def expire(router: Router, pump: Pump) -> None:
    """Complete the pending fetches whose wait is over."""
    if (due := router.broker.client_deadlines.earliest) < float("inf"):
        pump.deliver(router.tick(0.0, due))


def ids() -> Callable[[], UUID]:
    numbers = iter(range(1, 1 << 60))
    return lambda: UUID(int=next(numbers) << 40)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    add_names(parser)
    parser.add_argument("--heartbeats", type=int, default=2_000)
    given = parser.parse_args(argv)
    check_names(parser, given.names)
    print("| attack | heartbeats | p50 ms | p99 | p99.9 | most |\n|---|---|---|---|---|---|")
    for name in given.names or ATTACKS:
        topics = {"t": 45_000} | ({"big": 50_000} if name in ("large", "changing") else {})
        gc.unfreeze()
        waits = measure(ATTACKS[name], given.heartbeats, topics)
        figures = " | ".join(f"{at(waits, share) * 1e3:,.1f}" for share in (0.5, 0.99, 0.999, 1.0))
        print(f"| {ATTACKS[name].what} | {len(waits):,} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
