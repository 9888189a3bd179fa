"""Committed offsets of one group."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """``offset``: the next to read. ``leader_epoch`` -1 if the client did not say.

    ``at``: when it was committed; ``expires``: when it goes, if the client said so. Seconds.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    at: float = 0.0
    expires: float | None = None


@dataclass(slots=True)
class Offsets:
    """By topic name and partition."""

    committed: dict[tuple[str, int], Committed] = field(default_factory=dict)

    def store(self, topic: str, partition: int, committed: Committed) -> None:
        self.committed[topic, partition] = committed

    def get(self, topic: str, partition: int) -> Committed | None:
        return self.committed.get((topic, partition))

    def forget(self, topic: str, partition: int) -> None:
        """Drop one, if it is there."""
        self.committed.pop((topic, partition), None)

    def forget_topic(self, topic: str) -> None:
        """Drop all of a topic."""
        for key in [key for key in self.committed if key[0] == topic]:
            del self.committed[key]

    def by_topic(self) -> dict[str, dict[int, Committed]]:
        """Everything, topics and partitions in the order they were first committed."""
        found: dict[str, dict[int, Committed]] = {}
        for (topic, partition), committed in self.committed.items():
            found.setdefault(topic, {})[partition] = committed
        return found
