"""Committed offsets of one group."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """``offset``: the next to read. ``leader_epoch`` -1 if the client did not say."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(slots=True)
class Offsets:
    """By topic name and partition."""

    committed: dict[tuple[str, int], Committed] = field(default_factory=dict)

    def store(self, topic: str, partition: int, committed: Committed) -> None:
        self.committed[topic, partition] = committed

    def get(self, topic: str, partition: int) -> Committed | None:
        return self.committed.get((topic, partition))

    def by_topic(self) -> dict[str, dict[int, Committed]]:
        """Everything, topics and partitions in the order they were first committed."""
        found: dict[str, dict[int, Committed]] = {}
        for (topic, partition), committed in self.committed.items():
            found.setdefault(topic, {})[partition] = committed
        return found
