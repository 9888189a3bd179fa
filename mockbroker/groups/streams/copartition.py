"""Copartition groups: topics of a subtopology that are joined, and therefore must have the same number of partitions.

Source: Kafka's CopartitionedTopicsEnforcer (4.2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from kwire import ErrorCode
from kwire.java import map_order, utf16
from mockbroker.groups.group_type import Refused
from mockbroker.groups.streams.partition_counts import PartitionCounts, invalid_topology
from mockbroker.groups.streams.status import Status, TopicProblem
from mockbroker.groups.streams.topology import Subtopology

T = TypeVar("T")


def enforce_copartitioning(subtopologies: Sequence[Subtopology], counts: PartitionCounts) -> None:
    """Set the partition counts of repartition topics so that all topics of a copartition group have the same count.

    Args:
        subtopologies: the subtopologies.
        counts: the known partition counts. The new counts are added to ``counts.decided``.

    Raises:
        TopicProblem: Topics with different partition counts are joined.
        Refused: A copartition group is not valid.
    """
    repartition = [topic for each in subtopologies for topic in each.repartition_source_topics]
    fixed = map_order(dict.fromkeys(topic.name for topic in repartition if topic.partitions))
    flexible = {topic.name for topic in repartition if not topic.partitions}
    for subtopology in subtopologies:
        for names in _copartition_groups(subtopology):
            if names:
                counts.decided |= _enforced(names, dict.fromkeys(fixed), flexible, counts)


def _copartition_groups(subtopology: Subtopology) -> list[list[str]]:
    """Return the topic names of each copartition group. Raises: Refused for an index that is out of range."""
    try:
        return [
            list(
                dict.fromkeys(
                    [
                        *(_at(subtopology.source_topics, index) for index in each.source_topics),
                        *(_at(subtopology.repartition_source_topics, n).name for n in each.repartition_source_topics),
                    ]
                )
            )
            for each in subtopology.copartition_groups
        ]
    except IndexError as error:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None) from error


def _at(items: Sequence[T], index: int) -> T:
    """Return the element of a sequence at ``index``.

    Raises: IndexError with Java's message, also for a negative index.
    """
    if not 0 <= index < len(items):
        raise IndexError(f"Index {index} out of bounds for length {len(items)}")
    return items[index]


def _enforced(
    names: Collection[str], fixed: Mapping[str, None], flexible: Collection[str], counts: PartitionCounts
) -> Mapping[str, int]:
    """Return the partition count of each repartition topic in a copartition group, by topic name.

    All repartition topics get the same count: the count of the source topics in the group. Without source topics, they
    get the count of the topics in ``fixed``. If ``fixed`` is empty too, they get the largest count of the topics in
    ``flexible``.

    Args:
        names: Topics of the copartition group.
        fixed: Repartition topics whose partition count the topology sets.
        flexible: Repartition topics whose partition count the topology does not set.
        counts: The known partition counts.

    Raises: TopicProblem if partition counts differ; Refused if a partition count is unknown.
    """
    own = {name: _known(name, counts) for name in names if name in fixed or name in flexible}
    others = {name: _known(name, counts) for name in names if name not in own}
    if others:
        wanted = _same(others)
    elif fixed:
        wanted = _known(next(iter(fixed)), counts)
        if any(_known(name, counts) != wanted for name in fixed):
            raise _different(own)
    else:
        wanted = max(own.values())
        if wanted < 1:
            raise invalid_topology(f"All topics in the copartition group had undefined partition number: {list(own)}")
    for name in map_order(own):
        if name in fixed and own[name] != wanted:
            raise TopicProblem(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{own[name]}] of repartition topic [{name}] doesn't match number of partitions"
                f" [{wanted}] of the source topic.",
            )
    return dict.fromkeys(own, wanted)


def _known(name: str, counts: PartitionCounts) -> int:
    count = counts.get(name)
    if count is None:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    return count


def _same(counts: Mapping[str, int]) -> int:
    if len(set(counts.values())) > 1:
        raise _different(counts)
    return next(iter(counts.values()))


def _different(counts: Mapping[str, int]) -> TopicProblem:
    listed = ", ".join(f"{name}={counts[name]}" for name in sorted(counts, key=utf16))
    text = f"Following topics do not have the same number of partitions: [{{{listed}}}]"
    return TopicProblem(Status.INCORRECTLY_PARTITIONED_TOPICS, text)
