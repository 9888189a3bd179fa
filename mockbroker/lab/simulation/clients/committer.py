"""A consumer in the simulation with manual assignment: it commits offsets for a group without being a member."""

from __future__ import annotations

from mockbroker.lab.simulation.clients.reader import Reader


class Committer(Reader):
    """A consumer with manual assignment. It reads all partitions of its topics, and commits their offsets."""

    def ready(self) -> None:
        everything = [(topic, index) for topic in self.topics for index in range(self.partitions(topic))]
        self.own(frozenset(everything))

    @property
    def identity(self) -> tuple[str, int]:
        return "", -1

    @property
    def may_commit(self) -> bool:
        return self.coordinator is not None
