"""Joined topics have the same number of partitions: Kafka's CopartitionedTopicsEnforcer."""

from __future__ import annotations

import pytest

from kwire import ErrorCode as E
from mockbroker.groups.group_type import Refused
from mockbroker.groups.streams.copartition import enforce_copartitioning
from mockbroker.groups.streams.partition_counts import PartitionCounts
from mockbroker.groups.streams.status import Status, TopicProblem
from mockbroker.groups.streams.topology import Subtopology, TopicInfo


class Counts(PartitionCounts):
    """Known partition counts, by topic name."""

    def __init__(self, known: dict[str, int]) -> None:
        self.decided = {}
        self.known = known

    def get(self, topic: str) -> int | None:
        return self.decided.get(topic, self.known.get(topic))


def joined(
    sources: list[str], repartitions: dict[str, int], groups: list[tuple[list[int], list[int]]] | None = None
) -> Subtopology:
    """Return a subtopology that joins source and repartition topics. A count of 0: the topology does not set it."""
    group = Subtopology.CopartitionGroup
    every = [(list(range(len(sources))), list(range(len(repartitions))))]
    return Subtopology(
        subtopology_id="0",
        source_topics=sources,
        repartition_source_topics=[TopicInfo(name=name, partitions=count) for name, count in repartitions.items()],
        copartition_groups=[
            group(source_topics=first, repartition_source_topics=second) for first, second in groups or every
        ],
    )


JOINS = [  # source topics, repartition topics with their counts in the topology, known counts; decided counts
    (["a", "b"], {}, {"a": 3, "b": 3}, {}),
    (["a"], {"r": 0}, {"a": 3, "r": 5}, {"r": 3}),
    (["a"], {"r": 3}, {"a": 3, "r": 3}, {"r": 3}),
    (["a"], {"r": 0, "s": 0}, {"a": 3, "r": 1, "s": 7}, {"r": 3, "s": 3}),
    ([], {"r": 0, "s": 0}, {"r": 2, "s": 7}, {"r": 7, "s": 7}),
    ([], {"r": 4, "s": 0}, {"r": 4, "s": 7}, {"r": 4, "s": 4}),
    ([], {"r": 4, "s": 4}, {"r": 4, "s": 4}, {"r": 4, "s": 4}),
    ([], {"r": 0}, {"r": 1}, {"r": 1}),
]


@pytest.mark.parametrize(("sources", "repartitions", "known", "decided"), JOINS)
def test_repartition_topic_has_the_count_of_its_join(
    sources: list[str], repartitions: dict[str, int], known: dict[str, int], decided: dict[str, int]
) -> None:
    counts = Counts(known)
    enforce_copartitioning([joined(sources, repartitions)], counts)
    assert counts.decided == decided


PROBLEMS = [  # as in JOINS; detail of the problem
    (
        ["b", "a"],
        {},
        {"a": 3, "b": 4},
        "Following topics do not have the same number of partitions: [{a=3, b=4}]",
    ),
    (
        [],
        {"r": 3, "s": 4},
        {"r": 3, "s": 4},
        "Following topics do not have the same number of partitions: [{r=3, s=4}]",
    ),
    (
        ["a"],
        {"r": 4},
        {"a": 3, "r": 4},
        "Number of partitions [4] of repartition topic [r] doesn't match number of partitions [3] of the source topic.",
    ),
]


@pytest.mark.parametrize(("sources", "repartitions", "known", "detail"), PROBLEMS)
def test_join_of_different_counts_is_a_problem(
    sources: list[str], repartitions: dict[str, int], known: dict[str, int], detail: str
) -> None:
    with pytest.raises(TopicProblem) as raised:
        enforce_copartitioning([joined(sources, repartitions)], Counts(known))
    assert (raised.value.status, raised.value.detail) == (Status.INCORRECTLY_PARTITIONED_TOPICS, detail)


@pytest.mark.parametrize(("group", "known"), [(([0], [0]), {"r": 1}), (([0], [0]), {"a": 1})])
def test_topic_of_an_unknown_count_is_refused(group: tuple[list[int], list[int]], known: dict[str, int]) -> None:
    with pytest.raises(Refused) as raised:
        enforce_copartitioning([joined(["a"], {"r": 0}, [group])], Counts(known))
    assert raised.value.error == E.UNKNOWN_SERVER_ERROR


def test_join_without_any_count_is_not_valid() -> None:
    with pytest.raises(Refused) as raised:
        enforce_copartitioning([joined([], {"r": 0, "s": 0})], Counts({"r": 0, "s": 0}))
    assert raised.value.message == "All topics in the copartition group had undefined partition number: ['r', 's']"


@pytest.mark.parametrize("group", [([1], []), ([-1], []), ([], [1]), ([], [-1])])
def test_index_of_a_joined_topic_is_in_range(group: tuple[list[int], list[int]]) -> None:
    with pytest.raises(Refused) as raised:
        enforce_copartitioning([joined(["a"], {"r": 0}, [group])], Counts({"a": 1, "r": 1}))
    assert raised.value.error == E.UNKNOWN_SERVER_ERROR


def test_topics_outside_of_a_join_keep_their_counts() -> None:
    counts = Counts({"a": 3, "b": 4, "r": 5, "s": 6})
    enforce_copartitioning([joined(["a", "b"], {"r": 0, "s": 0}, [([1], [0]), ([], [])])], counts)
    assert counts.decided == {"r": 4}


def test_joins_are_enforced_one_after_the_other() -> None:
    counts = Counts({"a": 3, "r": 5, "s": 6})
    enforce_copartitioning([joined(["a"], {"r": 0, "s": 0}, [([0], [0]), ([], [0, 1])])], counts)
    assert counts.decided == {"r": 6, "s": 6}
