"""A simple consumer: it is no member of its group, reads what it likes and commits."""

from __future__ import annotations

from mockbroker.lab.simulation.clients.reader import Reader


class Committer(Reader):
    def ready(self) -> None:
        everything = [(topic, index) for topic in self.topics for index in range(self.partitions(topic))]
        self.own(frozenset(everything))

    @property
    def identity(self) -> tuple[str, int]:
        return "", -1

    @property
    def may_commit(self) -> bool:
        return self.coordinator is not None
