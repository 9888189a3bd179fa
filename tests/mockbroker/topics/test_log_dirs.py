"""Log directories of brokers. The conversation log_dirs_altered has the responses that clients get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import QUICK, BrokerHarness
from tools.durable_broker_harness import DurableBrokerHarness

from kwire import ErrorCode as E
from kwire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kwire.messages.describe_log_dirs import DescribeLogDirsRequest
from mockbroker.base.settings import Settings
from mockbroker.topics.log_dirs import IN_MEMORY, MAX_PREFERRED, VOLUME, LogDirs, Replica, paths_of

TOPIC = UUID(int=1)


def replica(partition: int, node: int = 0) -> Replica:
    return Replica(node, TOPIC, partition)


def described(harness: BrokerHarness) -> dict[str, list[tuple[int, bool]]]:
    """Return for each directory the partitions of topic t, and whether they are future replicas."""
    answer = harness.ask(DescribeLogDirsRequest(topics=None), 4)
    return {
        each.log_dir: [(p.partition_index, p.is_future_key) for t in each.topics if t.name == "t" for p in t.partitions]
        for each in answer.results
    }


def move(harness: BrokerHarness, path: str, *partitions: int, topic: str = "t") -> list[E]:
    kind = AlterReplicaLogDirsRequest.Dir
    wanted = kind(path=path, topics=[kind.Topic(name=topic, partitions=list(partitions))])
    answer: Any = harness.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), 2)
    return [E(each.error_code) for topic in answer.results for each in topic.partitions]


def test_a_replica_moves_in_the_time_of_the_setting():
    harness = BrokerHarness(topics={"t": 1}, config={"log.dirs": "/a,/b"})
    (home,) = [path for path, partitions in described(harness).items() if partitions]
    other = {"/a": "/b", "/b": "/a"}[home]
    assert move(harness, other, 0) == [E.NONE]
    harness.wait(0.199)
    assert described(harness) == {home: [(0, False)], other: [(0, True)]}
    harness.wait(0.001)
    assert described(harness) == {home: [], other: [(0, False)]}


def test_a_move_back_ends_the_move():
    harness = BrokerHarness(topics={"t": 1}, config={"log.dirs": "/a,/b"})
    before = described(harness)
    (home,) = [path for path, partitions in before.items() if partitions]
    move(harness, {"/a": "/b", "/b": "/a"}[home], 0)
    move(harness, home, 0)
    assert described(harness) == before
    harness.wait(1)
    assert described(harness) == before


def test_large_requests_are_handled_in_slices():
    harness = BrokerHarness(topics={"t": 5}, config={"log.dir": "/a"})
    harness.broker.slice_size = 2
    assert move(harness, "/a", 0, 1, 2, 3, 4, 5) == [E.NONE] * 5 + [E.UNKNOWN_TOPIC_OR_PARTITION]
    assert described(harness) == {"/a": [(index, False) for index in range(5)]}


@pytest.mark.parametrize(("partition", "longest"), [(0, 213), (10, 212), (-1, 212)])
def test_the_folder_name_of_a_future_log_is_limited(partition: int, longest: int) -> None:
    harness = BrokerHarness(config={"log.dir": "/a"})
    for path, error in (("/a", E.UNKNOWN_TOPIC_OR_PARTITION), ("/other", E.LOG_DIR_NOT_FOUND)):
        assert move(harness, path, partition, topic="x" * longest) == [error]
        assert move(harness, path, partition, topic="x" * (longest + 1)) == [E.INVALID_TOPIC_EXCEPTION]


def test_directories_have_the_size_of_their_volume():
    harness = BrokerHarness()
    (memory,) = harness.ask(DescribeLogDirsRequest(topics=[]), 4).results
    assert (memory.log_dir, memory.total_bytes) == (IN_MEMORY, VOLUME)
    assert 0 < memory.usable_bytes <= VOLUME


def test_replicas_are_placed_in_the_directory_with_the_fewest():
    dirs = LogDirs(paths_of("/a, /b,/a,"))
    assert dirs.paths == ["/a", "/b"]
    assert [dirs.of(replica(index), "t") for index in range(4)] == ["/a", "/b", "/a", "/b"]
    assert dirs.of(replica(0, node=1), "t") == "/a"


class Replicas(dict[Replica, str]):
    """The directories of replicas, which count how often all replicas are read."""

    reads = 0

    def __iter__(self) -> Iterator[Replica]:
        self.reads += 1
        return super().__iter__()

    def items(self) -> Any:
        self.reads += 1
        return super().items()


def test_a_replica_is_placed_without_reading_all_others() -> None:
    """The cost of DescribeLogDirs and DeleteTopics is linear in the number of replicas."""
    current, future = Replicas(), Replicas()
    dirs = LogDirs(["/a", "/b"], current, future)
    current.reads = future.reads = 0
    homes = [dirs.of(replica(index), "t") for index in range(4)]
    assert dirs.begin_move(replica(0), "t", "/b")
    dirs.complete_move(replica(0))
    assert (homes, dirs.of(replica(4), "t")) == (["/a", "/b", "/a", "/b"], "/a")
    dirs.delete_topic(TOPIC)
    assert (dict.__len__(current), current.reads, future.reads) == (0, 0, 0)


def test_a_restart_continues_the_counts_of_replicas() -> None:
    current = {replica(0): "/a", replica(1): "/a", replica(2): "/b", replica(3): "/gone"}
    dirs = LogDirs(["/a", "/b"], current, {replica(2): "/a", replica(3): "/a"})
    assert [dirs.of(replica(index), "t") for index in (4, 5)] == ["/b", "/a"]
    dirs.delete_topic(TOPIC)
    assert (current, dirs.future) == ({}, {})


def test_a_preferred_directory_is_used_once():
    dirs = LogDirs(["/a", "/b"])
    dirs.prefer(0, "t", 0, "/b")
    assert dirs.of(replica(0), "t") == "/b"
    dirs.delete_topic(TOPIC)
    assert dirs.of(replica(0), "t") == "/a"


def test_the_number_of_preferred_directories_is_limited():
    dirs = LogDirs(["/a", "/b"])
    for index in range(MAX_PREFERRED + 1):
        dirs.prefer(0, "t", index, "/b")
    assert len(dirs._preferred) == MAX_PREFERRED


def test_the_end_of_a_move_that_was_cancelled_changes_nothing():
    dirs = LogDirs(["/a", "/b"])
    dirs.complete_move(replica(0))
    assert dirs.of(replica(0), "t") == "/a"


def test_deleted_topic_leaves_the_replicas_of_others() -> None:
    dirs = LogDirs(["/a", "/b"])
    kept = Replica(0, UUID(int=2), 0)
    homes = {each: dirs.of(each, "t") for each in (replica(0), replica(1), kept)}
    moved = {"/a": "/b", "/b": "/a"}
    for each, home in homes.items():
        assert dirs.begin_move(each, "t", moved[home])
    dirs.delete_topic(TOPIC)
    assert dirs.future == {kept: moved[homes[kept]]}
    assert dirs.of(kept, "u") == homes[kept]
    dirs.complete_move(kept)
    assert (dirs.of(kept, "u"), dirs.future) == (moved[homes[kept]], {})
    dirs.complete_move(kept)
    assert dirs.of(kept, "u") == moved[homes[kept]]


def test_new_replica_is_in_the_directory_with_the_fewest() -> None:
    dirs = LogDirs(["/a", "/b", "/a"])
    assert dirs.paths == ["/a", "/b"]
    assert [dirs.of(replica(partition), "t") for partition in range(3)] == ["/a", "/b", "/a"]
    assert dirs.of(replica(0, node=1), "t") == "/a", "the replicas of another broker do not count"


def test_preferred_directory_is_used_once() -> None:
    dirs = LogDirs(["/a", "/b"])
    dirs.prefer(0, "t", 0, "/b")
    assert [dirs.of(replica(0), "t"), dirs.of(Replica(0, UUID(int=2), 0), "t")] == ["/b", "/a"]
    assert (MAX_PREFERRED, VOLUME) == (10_000, 1 << 40)


def test_directories_are_those_of_the_setting() -> None:
    assert LogDirs(paths_of(" /a, ,/b ")).paths == ["/a", "/b"]
    assert LogDirs(paths_of("")).paths == [IN_MEMORY]


def test_move_to_the_own_directory_ends_a_move() -> None:
    dirs = LogDirs(["/a", "/b"])
    assert dirs.of(replica(0), "t") == "/a"
    assert dirs.begin_move(replica(0), "t", "/b")
    assert not dirs.begin_move(replica(0), "t", "/a")
    assert dirs.future == {}


def away(harness: BrokerHarness) -> tuple[str, str]:
    """Return the directory of partition 0 of topic t, and the other directory."""
    (home,) = [path for path, partitions in described(harness).items() if (0, False) in partitions]
    return home, {"/a": "/b", "/b": "/a"}[home]


def test_moved_replica_stays_in_its_directory_after_a_restart() -> None:
    harness = DurableBrokerHarness(topics={"t": 2}, config={"log.dirs": "/a,/b"})
    home, other = away(harness)
    move(harness, other, 0, 1)
    harness.wait(0.2)
    for _ in range(2):
        harness.lose_power()
        assert described(harness) == {home: [], other: [(0, False), (1, False)]}


@pytest.mark.parametrize("target", ["one", "both"])
def test_a_move_continues_after_a_restart(target: str) -> None:
    harness = DurableBrokerHarness(topics={"t": 2}, config={"log.dirs": "/a,/b"})
    home, other = away(harness)
    move(harness, home, 1)
    harness.wait(0.2)
    move(harness, other, *([0] if target == "one" else [0, 1]))
    harness.lose_power()
    moving = [(0, True)] if target == "one" else [(0, True), (1, True)]
    assert described(harness) == {home: [(0, False), (1, False)], other: moving}
    harness.wait(0.2)
    harness.lose_power()
    assert described(harness)[other] == [(index, False) for index, _ in moving]


def test_each_begin_and_end_of_a_move_is_kept_over_a_restart() -> None:
    harness = DurableBrokerHarness(topics={"t": 1}, config={"log.dirs": "/a,/b"})
    home, other = away(harness)
    for path in (other, home, other):
        move(harness, path, 0)
        harness.lose_power()
        assert described(harness) == {home: [(0, False)], other: [] if path == home else [(0, True)]}


def test_a_replica_in_a_directory_that_is_gone_is_placed_again() -> None:
    harness = DurableBrokerHarness(topics={"t": 1}, config={"log.dirs": "/a,/b"})
    home, other = away(harness)
    move(harness, other, 0)
    harness._settings = Settings.parse({**QUICK, "log.dirs": f"{home},/c"})
    harness.restart()
    assert described(harness) == {home: [(0, False)], "/c": []}
    harness.wait(1)
    assert described(harness) == {home: [(0, False)], "/c": []}
    harness._settings = Settings.parse({**QUICK, "log.dirs": "/c,/d"})
    harness.restart()
    assert sorted(described(harness).values()) == [[], [(0, False)]]


def test_deleted_topic_has_no_directories_after_a_restart() -> None:
    harness = DurableBrokerHarness(topics={"t": 2}, config={"log.dirs": "/a,/b"})
    _, other = away(harness)
    move(harness, other, 0)
    harness.broker.delete_topics([harness.broker.cluster.topics["t"]])
    harness.restart()
    cluster = harness.broker.cluster
    assert cluster.log_dirs
    assert not cluster.future_log_dirs
    assert {each.topic_id for each in cluster.log_dirs} <= cluster.by_id.keys()
