"""The partition counts of internal topics. Source: Kafka's RepartitionTopics and ChangelogTopics."""

from __future__ import annotations

import pytest

from kwire import ErrorCode as E
from mockbroker.groups.group_type import Refused
from mockbroker.groups.streams.partition_counts import PartitionCounts, decide_changelogs, decide_repartitions
from mockbroker.groups.streams.topology import Subtopology, TopicInfo


class Counts(PartitionCounts):
    """Known partition counts, by topic name."""

    def __init__(self, **known: int) -> None:
        self.decided = {}
        self.known = known

    def get(self, topic: str) -> int | None:
        return self.known.get(topic)


def test_repartition_topic_has_the_largest_count_of_its_sources() -> None:
    writer = Subtopology(subtopology_id="0", source_topics=["a", "b", "new"], repartition_sink_topics=["r"])
    reader = Subtopology(subtopology_id="1", repartition_source_topics=[TopicInfo(name="r")])
    assert decide_repartitions([reader, writer], Counts(a=2, b=5)) == {"r": 5}


def test_repartition_topic_keeps_the_count_of_the_topology() -> None:
    writer = Subtopology(subtopology_id="0", source_topics=["a"], repartition_sink_topics=["r", "s"])
    readers = [
        Subtopology(
            subtopology_id="1",
            repartition_source_topics=[TopicInfo(name="r", partitions=3)],
            repartition_sink_topics=["t"],
        ),
        Subtopology(subtopology_id="2", repartition_source_topics=[TopicInfo(name="s"), TopicInfo(name="t")]),
    ]
    assert decide_repartitions([*readers, writer], Counts(a=7)) == {"r": 3, "s": 7, "t": 3}


def test_changelogs_have_as_many_partitions_as_tasks() -> None:
    each = Subtopology(
        subtopology_id="0", source_topics=["a", "unknown", "b"], state_changelog_topics=[TopicInfo(name="c")]
    )
    assert decide_changelogs([each], Counts(a=2, b=4)) == {"c": 4}
    with pytest.raises(Refused, match="No source topics found for subtopology 1"):
        decide_changelogs([Subtopology(subtopology_id="1")], Counts())


def test_repartition_topics_of_a_loop_have_no_count() -> None:
    loop = [
        Subtopology(
            subtopology_id=name,
            repartition_source_topics=[TopicInfo(name=source)],
            repartition_sink_topics=[sink],
        )
        for name, source, sink in (("0", "r", "s"), ("1", "s", "r"))
    ]
    with pytest.raises(Refused, match="There may be loops in the topology") as refused:
        decide_repartitions(loop, Counts())
    assert refused.value.error is E.STREAMS_INVALID_TOPOLOGY


def test_changelog_of_unknown_topics_has_no_partitions() -> None:
    each = Subtopology(subtopology_id="0", source_topics=["a"], state_changelog_topics=[TopicInfo(name="c")])
    assert decide_changelogs([each], Counts()) == {"c": 0}


def test_repartition_topic_without_a_writer_has_no_count() -> None:
    reader = Subtopology(subtopology_id="0", repartition_source_topics=[TopicInfo(name="r")])
    with pytest.raises(Refused, match="never used as a sink topic") as refused:
        decide_repartitions([reader], Counts())
    assert refused.value.error is E.STREAMS_INVALID_TOPOLOGY


def test_repartition_topics_are_decided_after_their_writers() -> None:
    def step(name: str, source: str, sink: str) -> Subtopology:
        return Subtopology(
            subtopology_id=name, repartition_source_topics=[TopicInfo(name=source)], repartition_sink_topics=[sink]
        )

    first = Subtopology(subtopology_id="0", source_topics=["a"], repartition_sink_topics=["r"])
    last = Subtopology(subtopology_id="3", repartition_source_topics=[TopicInfo(name="t")])
    found = decide_repartitions([last, step("2", "s", "t"), step("1", "r", "s"), first], Counts(a=4))
    assert found == {"r": 4, "s": 4, "t": 4}
