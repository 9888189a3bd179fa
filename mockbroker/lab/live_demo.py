"""The demo of ``mockbroker serve --demo``: a producer, and a group of three consumers whose members leave, crash and
return.

The consumers use ``mockbroker.consumer`` on real sockets, in the trio run of the brokers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from itertools import count, cycle

import trio

from kwire.lazy_dataclass import dataclass
from mockbroker.api.cluster import Cluster
from mockbroker.base.errors import ConflictError, NotFoundError
from mockbroker.consumer import open_consumer

TOPIC, PARTITIONS = "orders", 6
GROUP, MEMBERS = "demo", 3
ITEMS = ("tea", "milk", "bread", "honey")
RECORDS_KEPT = 1_000  # of each partition; the demo may run for weeks
RETRY = 1.0  # seconds until a consumer that has failed starts again
log = logging.getLogger("mockbroker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The durations of a demo, in seconds.

    Attributes:
        period: time between two changes of the membership. Each change causes a rebalance.
        produce: time between two records.
        slow: time that the slow consumer needs for a record.
        session_timeout: session timeout of the members: a member that has crashed is evicted after this time.
    """

    period: float = 20.0
    produce: float = 0.1
    slow: float = 0.5
    session_timeout: float = 6.0


async def run_demo(cluster: Cluster, servers: str, partitions: int = PARTITIONS, pace: Pace | None = None) -> None:
    """Produce records and consume them until the task is cancelled. The consumers end immediately on cancellation.

    The demo alternates between two events, one every ``pace.period``:

    - A member crashes, is evicted by its session timeout, and returns.
    - The slow member leaves, so that the other two members can read the remaining records, and returns.

    Args:
        cluster: the cluster.
        servers: the ``bootstrap.servers`` of a listener without TLS and SASL.
        partitions: number of partitions of TOPIC.
        pace: the durations; None for the default.
    """
    pace = pace or Pace()
    first, second = (_Member(f"demo-{number}", servers, pace, 0.0) for number in (1, 2))
    slow = _Member("demo-slow", servers, pace, pace.slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_produce, cluster, partitions, pace.produce)
        for member in (first, second, slow):
            nursery.start_soon(member.run)
        for change in cycle((second.crash, second.start, slow.leave, slow.start)):
            await trio.sleep(pace.period)
            change()


class _Network:
    """The connections of one consumer. The method ``cut`` closes all of them, and prevents new ones."""

    def __init__(self) -> None:
        self._is_up = True
        self._streams: list[trio.SocketStream] = []

    async def connect(self, host: str, port: int) -> trio.SocketStream:
        stream = await trio.open_tcp_stream(host, port)
        if not self._is_up:
            await stream.aclose()
            raise OSError("the network is down")
        self._streams = [*(each for each in self._streams if each.socket.fileno() != -1), stream]
        return stream

    def cut(self) -> None:
        self._is_up = False
        for stream in self._streams:
            stream.socket.close()


class _Member:
    """A consumer of the demo, which can crash, leave and return.

    Args:
        name: name of the consumer in the output.
        servers: bootstrap servers.
        pace: the durations of the demo.
        delay: seconds that the consumer needs for each record.
    """

    def __init__(self, name: str, servers: str, pace: Pace, delay: float) -> None:
        self._name = name
        self._servers = servers
        self._pace = pace
        self._delay = delay  # seconds for each record
        self._is_wanted = True
        self._changed = trio.Event()
        self._end: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Let the consumer join the group, for the first time or again."""
        self._is_wanted = True
        self._changed.set()

    def leave(self) -> None:
        """Commit and leave the group, after the record in progress."""
        self._is_wanted = False

    def crash(self) -> None:
        """End the consumer without leaving the group, like a killed process."""
        self._is_wanted = False
        self._end()

    async def run(self) -> None:
        """Consume from each call of ``start`` until the next call of ``leave`` or ``crash``.

        If the task is cancelled, end immediately.
        """
        while True:
            if self._is_wanted:
                await self._consume_until_cut()
            else:
                self._changed = trio.Event()
                await self._changed.wait()

    async def _consume_until_cut(self) -> None:
        """Consume until the member leaves, crashes or fails, or the task is cancelled.

        A cancelled consumer would wait for the response to its LeaveGroup, which a fault rule may hold. So it is
        shielded from cancellation, and its connections are cut instead.
        """
        network = _Network()
        async with trio.open_nursery() as nursery:
            with trio.CancelScope(shield=True) as consuming:
                self._end = partial(_end, network, consuming)
                nursery.start_soon(_call_when_cancelled, self._end)
                try:
                    await self._consume(network)
                except Exception:
                    log.warning("demo: consumer %s failed and restarts", self._name, exc_info=True)
                    await trio.sleep(RETRY)
            nursery.cancel_scope.cancel()

    async def _consume(self, network: _Network) -> None:
        async with open_consumer(
            self._servers,
            group=GROUP,
            topics=[TOPIC],
            connect=network.connect,
            client_id=self._name,
            auto_offset_reset="earliest",
            session_timeout=self._pace.session_timeout,
            heartbeat_interval=self._pace.session_timeout / 6,
            auto_commit_interval=1.0,
            max_poll_records=5,
        ) as consumer:
            while self._is_wanted:
                for _ in await consumer.poll(RETRY):
                    await trio.sleep(self._delay)


def _end(network: _Network, consuming: trio.CancelScope) -> None:
    network.cut()
    consuming.cancel()


async def _call_when_cancelled(function: Callable[[], None]) -> None:
    try:
        await trio.sleep_forever()
    finally:
        function()


async def _produce(cluster: Cluster, partitions: int, pause: float) -> None:
    """Append orders to the partitions in turn, and delete old records, until cancelled.

    Args:
        cluster: the cluster.
        partitions: number of partitions.
        pause: seconds between two records.
    """
    for number in count():
        partition, item = number % partitions, ITEMS[number % len(ITEMS)]
        order = {"order": number, "item": item, "quantity": number % 5 + 1}
        try:
            (offset,) = cluster.produce(TOPIC, [json.dumps(order)], partition=partition, key=item.encode())
            if (offset + 1) % RECORDS_KEPT == 0:
                cluster.delete_records(TOPIC, partition, max(offset + 1 - RECORDS_KEPT, 0))
        except (NotFoundError, ConflictError):  # the topic was deleted
            await trio.sleep(RETRY)
        await trio.sleep(pause)
