"""Topologies of streams groups and the internal topics that they need: Kafka's InternalTopicManager."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kwire import ErrorCode as E
from mockbroker.groups.group_type import Refused
from mockbroker.groups.streams import configured
from mockbroker.groups.streams.configured import configure
from mockbroker.groups.streams.status import Status
from mockbroker.groups.streams.topology import Subtopology, TopicInfo, topology_of
from mockbroker.topics.model import ClusterState, Node


def cluster_of(**partitions: int) -> ClusterState:
    ids = iter(UUID(int=number) for number in range(1, 100))
    cluster = ClusterState([Node(0, "a", 1)], lambda: next(ids))
    for name, count in partitions.items():
        cluster.create_topic(name, [[0]] * count)
    return cluster


def part(name: str, *sources: str, **more: Any) -> Subtopology:
    return Subtopology(subtopology_id=name, source_topics=list(sources), **more)


CONFIGS = [TopicInfo.Config(key="cleanup.policy", value="compact")]
WRITER = part("0", "t", repartition_sink_topics=["r"])
READER = part(
    "1",
    repartition_source_topics=[TopicInfo(name="r", replication_factor=2)],
    state_changelog_topics=[TopicInfo(name="log", topic_configs=CONFIGS)],
)


def test_missing_internal_topics_are_planned() -> None:
    result = configure(topology_of(0, [READER, WRITER]), cluster_of(t=3))
    assert result.subtopologies is not None
    assert {name: each.task_count for name, each in result.subtopologies.items()} == {"0": 3, "1": 3}
    assert list(result.subtopologies) == ["0", "1"]
    planned = {each.name: (each.partitions, each.replication_factor, each.configs) for each in result.missing_topics}
    assert planned == {"r": (3, 2, {}), "log": (3, 0, {"cleanup.policy": "compact"})}
    assert result.problem is not None
    assert (result.is_ready, result.problem[0]) == (False, Status.MISSING_INTERNAL_TOPICS)
    assert result.problem[1].startswith("Internal topics are missing: ")


def test_existing_internal_topics_make_it_ready() -> None:
    result = configure(topology_of(0, [WRITER, READER]), cluster_of(t=3, r=3, log=3))
    assert (result.is_ready, result.problem, result.missing_topics) == (True, None, ())
    result = configure(topology_of(0, [WRITER, READER]), cluster_of(t=3, r=3))
    assert [each.name for each in result.missing_topics] == ["log"]
    assert result.problem == (Status.MISSING_INTERNAL_TOPICS, "Internal topics are missing: log")


@pytest.mark.parametrize(("name", "counts"), [("r", {"r": 2, "log": 2}), ("log", {"r": 3, "log": 4})])
def test_internal_topic_has_the_planned_partitions(name: str, counts: dict[str, int]) -> None:
    given = [WRITER, READER]
    if name == "r":
        reader = part("1", repartition_source_topics=[TopicInfo(name="r", partitions=3)])
        given = [WRITER, reader]
    result = configure(topology_of(0, given), cluster_of(t=3, **counts))
    assert result.subtopologies is None
    assert result.problem == (
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        f"Existing topic {name} has different number of partitions: expected 3, found {counts[name]}",
    )


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (1, "x0"),
        (3, "x0, x1, x2"),
        (4, "x0, x1, x2 and 1 additional topics"),
        (9, "x0, x1, x2 and 6 additional topics"),
    ],
)
def test_missing_source_topics_are_named(count: int, named: str) -> None:
    topics = [f"x{number}" for number in reversed(range(count))]
    result = configure(topology_of(0, [part("0", *topics, "t")]), cluster_of(t=1))
    assert (result.subtopologies, result.missing_topics) == (None, ())
    assert result.problem == (Status.MISSING_SOURCE_TOPICS, f"Source topics {named} are missing.")


@pytest.mark.parametrize(("most", "valid"), [(5, True), (4, False)])
def test_number_of_tasks_is_limited(most: int, valid: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configured, "MAX_TASKS", most)
    topology = topology_of(0, [part("0", "t"), part("1", "u", "v")])
    if valid:
        assert configure(topology, cluster_of(t=3, u=2, v=1)).is_ready
    else:
        with pytest.raises(Refused, match=r"The topology has 5 tasks, the maximum is 4: use fewer partitions\."):
            configure(topology, cluster_of(t=3, u=2, v=1))


def test_topology_knows_the_reader_of_each_topic() -> None:
    topology = topology_of(4, [WRITER, READER])
    assert topology.epoch == 4
    assert topology.subtopology_of == {"t": "0", "r": "1"}
    assert topology.required_topics == {"t", "r", "log"}
    assert [each.subtopology_id for each in topology.value.subtopologies] == ["0", "1"]


def test_topology_that_is_not_valid() -> None:
    with pytest.raises(ValueError, match="Topology epoch must be non-negative"):
        topology_of(-1, [])
    with pytest.raises(ValueError, match="Duplicate key 0"):
        topology_of(0, [WRITER, WRITER])
    assert topology_of(0, []).subtopologies == {}


def test_internal_topics_may_have_one_partition() -> None:
    result = configure(topology_of(0, [WRITER, READER]), cluster_of(t=1))
    assert {each.name: each.partitions for each in result.missing_topics} == {"r": 1, "log": 1}


@pytest.mark.parametrize(("partitions", "planned"), [(0, 3), (1, 1), (2, 2)])
def test_changelog_may_have_its_own_number_of_partitions(partitions: int, planned: int) -> None:
    log = TopicInfo(name="log", partitions=partitions)
    result = configure(topology_of(0, [part("0", "t", state_changelog_topics=[log])]), cluster_of(t=3))
    assert [(each.name, each.partitions) for each in result.missing_topics] == [("log", planned)]


def test_internal_topic_has_at_least_one_partition() -> None:
    log = TopicInfo(name="log", partitions=-1)
    with pytest.raises(Refused) as refused:
        configure(topology_of(0, [part("0", "t", state_changelog_topics=[log])]), cluster_of(t=3))
    assert refused.value.error is E.UNKNOWN_SERVER_ERROR


def test_topics_that_are_joined_have_the_same_partitions() -> None:
    group = Subtopology.CopartitionGroup(source_topics=[0, 1])
    topology = topology_of(0, [part("0", "t", "u", copartition_groups=[group])])
    assert configure(topology, cluster_of(t=3, u=3)).is_ready
    result = configure(topology, cluster_of(t=3, u=2))
    assert result.problem is not None
    assert (result.subtopologies, result.problem[0]) == (None, Status.INCORRECTLY_PARTITIONED_TOPICS)


def test_a_group_has_at_most_10000_tasks() -> None:
    topology = topology_of(0, [part("0", "t")])
    assert configure(topology, cluster_of(t=10_000)).is_ready
    with pytest.raises(Refused, match="The topology has 10001 tasks, the maximum is 10000"):
        configure(topology, cluster_of(t=10_001))
