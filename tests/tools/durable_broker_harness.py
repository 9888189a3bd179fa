"""A broker harness with a data directory on a simulated disk, which survives crashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any
from uuid import UUID

from tools.broker_harness import CHECKED_TURNS, QUICK, WALL, BrokerHarness
from tools.group_records_check import check_group_records

from mockbroker.base.settings import Settings
from mockbroker.broker import failover
from mockbroker.broker.broker import Broker
from mockbroker.broker.router import Router
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.simulated_disk import SimulatedDisk, none
from mockbroker.topics.model import Node


class DurableBrokerHarness(BrokerHarness):
    """A broker harness whose broker can be restarted: the next broker has only what is on the disk."""

    def __init__(
        self, *, brokers: int = 1, topics: Mapping[str, int] | None = None, config: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(brokers=brokers, topics={}, config=config)
        self.disk = SimulatedDisk()
        self._ids = count(1)
        self._nodes = [Node(number, "127.0.0.1", 9_000 + number) for number in range(brokers)]
        self._settings = Settings.parse(QUICK | dict(config or {}))
        self._begin()
        cluster = self.broker.cluster
        for name, partitions in ({"t": 2} if topics is None else topics).items():
            cluster.create_topic(name, cluster.place(partitions, 1))

    def restart(self, survives: Callable[[int], int] | None = None, *, flushed: bool = True) -> None:
        """Kill the broker and start another one.

        ``survives``: for a crash of the machine, a function from the number of unsynced bytes of a file to the number
        of those that remain; None for a crash of the process. ``flushed``: whether all changes are flushed before.
        """
        if flushed:
            self.data_dir.flush()
        if survives is not None:
            self.disk.crash(survives)
        for sent in self.sent.values():
            if not sent.done:
                sent.done, sent.closed = True, "the broker has gone"
        self._begin()
        check_group_records(self.broker, WALL)

    def lose_power(self) -> None:
        """Crash the machine and restart the broker: only synced bytes remain."""
        self.restart(none)

    def _begin(self) -> None:
        self.data_dir = DataDir(self.disk, "pretended")
        cluster = self.data_dir.open(self._nodes, self._new_uuid)
        self.broker = Broker(self._nodes, self._settings, self._new_uuid, wall_at_zero=WALL, cluster=cluster)
        self.router = Router(self.broker, self.journal)
        self.watched = CHECKED_TURNS
        self._take(self.router.finish(failover.recover(self.broker, self.now), self.now))

    def _new_uuid(self) -> UUID:
        return UUID(int=next(self._ids))
