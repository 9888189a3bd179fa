"""How the coordinator shares partitions out. Names are known to the broker alone: a new one needs a new broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kwire.assignors import Assignor, RangeAssignor, RoundRobinAssignor, Subscription, without_racks
from mockbroker.lab.history.draft.messages import TopicPartition

STRATEGIES: Mapping[str, Assignor] = {one.name: one for one in (RangeAssignor(), RoundRobinAssignor())}


def assign(
    strategy: str, members: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, tuple[TopicPartition, ...]]:
    """Shares by consumer id. ``members``: topics by consumer id; ``partitions``: how many, by topic, 0 for none."""
    found = STRATEGIES[strategy].assign(
        without_racks({topic: count for topic, count in partitions.items() if count}),
        {consumer_id: Subscription(list(topics)) for consumer_id, topics in members.items()},
    )
    return {consumer_id: tuple(share.partitions) for consumer_id, share in found.items()}
