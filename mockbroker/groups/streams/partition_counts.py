"""The partition counts of repartition and changelog topics.

Source: Kafka's RepartitionTopics and ChangelogTopics (4.2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from kwire import ErrorCode
from mockbroker.groups.group_type import Refused
from mockbroker.groups.streams.topology import Subtopology, source_names


class PartitionCounts(ABC):
    """The known partition counts of topics.

    Attributes:
        decided: Planned partition counts of internal topics, by topic name.
    """

    __slots__ = ()
    decided: dict[str, int]

    @abstractmethod
    def get(self, topic: str) -> int | None:
        """Return the partition count of a topic; None if unknown.

        The result is the partition count of an existing topic, or the planned partition count of a new topic.
        """


def decide_repartitions(subtopologies: Sequence[Subtopology], counts: PartitionCounts) -> dict[str, int]:
    """Return the partition count of each repartition topic, by topic name.

    If the topology sets no count for a topic, the count is the largest partition count among the topics that the
    writing subtopology reads.

    Args:
        subtopologies: The subtopologies.
        counts: The known partition counts.

    Raises:
        Refused: The topology has a loop, or no subtopology writes to a repartition topic.
    """
    decided = {
        topic.name: topic.partitions
        for each in subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    pending = [(each, sink) for each in subtopologies for sink in each.repartition_sink_topics]
    while pending:
        remaining: list[tuple[Subtopology, str]] = []
        for each, sink in pending:
            if sink in decided:
                continue
            count = _largest(each, decided, counts)
            if count is None:
                remaining.append((each, sink))
            else:
                decided[sink] = count
        if len(remaining) == len(pending):
            raise invalid_topology(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
        pending = remaining
    if any(topic.name not in decided for each in subtopologies for topic in each.repartition_source_topics):
        raise invalid_topology(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic."
        )
    return decided


def _largest(subtopology: Subtopology, decided: Mapping[str, int], counts: PartitionCounts) -> int | None:
    """Return the largest known partition count of the topics that a subtopology reads, or None if all are unknown.

    Args:
        subtopology: The subtopology.
        decided: Partition counts of repartition topics that are already decided, by topic name.
        counts: The known partition counts of the topics that are not in ``decided``.
    """
    known = [count for topic in subtopology.repartition_source_topics if (count := decided.get(topic.name)) is not None]
    known += [count for name in subtopology.source_topics if (count := counts.get(name)) is not None]
    return max(known, default=None)


def decide_changelogs(subtopologies: Sequence[Subtopology], counts: PartitionCounts) -> dict[str, int]:
    """Return the partition count of each changelog topic, by topic name: the number of tasks of its subtopology.

    Args:
        subtopologies: The subtopologies.
        counts: The known partition counts.

    Raises:
        Refused: A subtopology reads no topic.
    """
    decided: dict[str, int] = {}
    for each in subtopologies:
        names = source_names(each)
        if not names:
            raise invalid_topology(f"No source topics found for subtopology {each.subtopology_id}")
        largest = max(counts.get(name) or 0 for name in names)
        decided |= {topic.name: largest for topic in each.state_changelog_topics}
    return decided


def invalid_topology(text: str) -> Refused:
    """Return the error for a topology that is not valid. ``text``: the error message."""
    return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
