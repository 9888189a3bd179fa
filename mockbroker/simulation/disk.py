"""A pretend disk under the logs of groups and transactions: what was synced outlives a crash, of the rest a part may.

Logs are cut between two batches: of one that was torn, whoever reads the files again keeps nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from mockbroker.cluster.log import PartitionLog
from mockbroker.cluster.model import INTERNAL, Cluster, Partition
from mockbroker.simulation.dice import Dice

INTERNAL_IN_ORDER = sorted(INTERNAL)
Ends = dict[tuple[str, int], int]


class Disk:
    """``sure``: how much of everything that was written is synced, as a number that only grows; ``ends``: the same by
    partition, as the offset behind the last. ``slowest``: seconds that a sync takes at the most."""

    def __init__(self, dice: Dice, slowest: float) -> None:
        self.sure = 0
        self.ends: Ends = {}
        self.fails = False  # the next sync will
        self._dice = dice
        self._slowest = slowest

    def time(self) -> float:
        """Seconds that the next sync takes."""
        return self._slowest * self._dice.random()

    def written(self, cluster: Cluster) -> int:
        """How much there is, synced or not."""
        return sum(partition.log.end for name in INTERNAL_IN_ORDER for partition in _partitions(cluster, name))

    def all_ends(self, cluster: Cluster) -> Ends:
        return {
            (name, partition.index): partition.log.end
            for name in INTERNAL_IN_ORDER
            for partition in _partitions(cluster, name)
        }

    def synced(self, ends: Ends) -> None:
        self.ends = ends
        self.sure = sum(ends.values())

    def crash(self, cluster: Cluster) -> int:
        """Of what was not synced, a part is gone; how many batches."""
        lost = 0
        for name in INTERNAL_IN_ORDER:
            for partition in _partitions(cluster, name):
                lost += self._cut(partition.log, self.ends.get((name, partition.index), 0))
        self.synced(self.all_ends(cluster))
        return lost

    def _cut(self, log: PartitionLog, sure: int) -> int:
        if log.end == sure:
            return 0
        batches = list(log.batches())
        kept = sum(batch.last_offset < sure for batch in batches)
        kept += self._dice.below(len(batches) - kept + 1)
        lost = len(batches) - kept
        if lost:
            log.replace(batches[:kept])
            log.end = batches[kept].base_offset
        return lost


def _partitions(cluster: Cluster, name: str) -> Sequence[Partition]:
    topic = cluster.topics.get(name)
    return topic.partitions if topic else ()
