"""The assignment strategies of the draft protocol. They are part of the broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kwire.assignors import Assignor, RangeAssignor, RoundRobinAssignor, Subscription, without_racks
from mockbroker.lab.history.draft.messages import TopicPartition

STRATEGIES: Mapping[str, Assignor] = {one.name: one for one in (RangeAssignor(), RoundRobinAssignor())}


def assign(
    strategy: str, members: Mapping[str, Sequence[str]], partitions: Mapping[str, int]
) -> dict[str, tuple[TopicPartition, ...]]:
    """Assign partitions by a strategy.

    Args:
        strategy: name of the strategy.
        members: consumer id -> subscribed topics.
        partitions: topic -> number of partitions; 0 for a topic that does not exist.

    Returns: consumer id -> assigned partitions.
    """
    shares = STRATEGIES[strategy].assign(
        without_racks({topic: count for topic, count in partitions.items() if count}),
        {consumer_id: Subscription(list(topics)) for consumer_id, topics in members.items()},
    )
    return {consumer_id: tuple(share.partitions) for consumer_id, share in shares.items()}
