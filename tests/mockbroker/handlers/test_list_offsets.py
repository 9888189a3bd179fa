"""ListOffsets: earliest, latest, by time, and questions that a version does not have."""

from __future__ import annotations

import pytest
from tools.desk import Desk

from kwire import ErrorCode as E
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.records.batch import Record, build_batch, read_batch

Topic = ListOffsetsRequest.Topic
VERSIONS = range(1, 12)


@pytest.fixture
def desk():
    desk = Desk(topics={"t": 2})
    log = desk.broker.cluster.topics["t"].partitions[0].log
    for timestamps in ((100, 300), (200,)):
        log.append(read_batch(build_batch([Record(timestamp=each) for each in timestamps])), 0)
    return desk


def ask(desk: Desk, version: int, timestamp: int, name: str = "t", index: int = 0, node: int = 0, epoch: int = -1):
    asked = Topic.Partition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
    answer = desk.ask(
        ListOffsetsRequest(replica_id=-1, topics=[Topic(name=name, partitions=[asked])]), version, node=node
    )
    ((found,),) = [topic.partitions for topic in answer.topics]
    assert found.partition_index == index
    return found.error_code, found.offset, found.timestamp, found.leader_epoch


def epoch(version: int) -> int:
    return 0 if version >= 4 else -1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "offset", "at"),
    [
        pytest.param(-1, 3, -1, id="latest"),
        pytest.param(-2, 0, -1, id="earliest"),
        pytest.param(0, 0, 100, id="before all"),
        pytest.param(100, 0, 100, id="exactly"),
        pytest.param(101, 1, 300, id="the first at or after"),
        pytest.param(300, 1, 300, id="the last"),
    ],
)
def test_found(desk, version, timestamp, offset, at):
    assert ask(desk, version, timestamp) == (E.NONE, offset, at, epoch(version))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("timestamp", "index"), [(301, 0), (2**62, 0), (0, 1)])
def test_nothing_so_late(desk, version, timestamp, index):
    assert ask(desk, version, timestamp, index=index) == (E.NONE, -1, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "since", "offset", "at"),
    [
        pytest.param(-3, 7, 1, 300, id="largest timestamp"),
        pytest.param(-4, 8, 0, -1, id="earliest local"),
        pytest.param(-5, 9, -1, -1, id="latest tiered: nothing is"),
        pytest.param(-6, 11, -1, -1, id="earliest pending upload: nothing is"),
        pytest.param(-7, 99, -1, -1, id="no such question"),
    ],
)
def test_questions_of_later_versions(desk, version, timestamp, since, offset, at):
    found = ask(desk, version, timestamp)
    if version < since:
        assert found == (E.UNSUPPORTED_VERSION, -1, -1, -1)
    else:
        assert found == (E.NONE, offset, at, 0 if offset >= 0 else -1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "index"), [("t", 9), ("t", -1), ("no-such-topic", 0)])
def test_unknown(desk, version, name, index):
    assert ask(desk, version, -1, name, index) == (E.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)


@pytest.mark.parametrize("version", [1, 11])
def test_not_the_leader(version):
    desk = Desk(brokers=2)
    assert ask(desk, version, -1, node=1 - desk.leader("t", 0))[0] == E.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", [4, 11])
@pytest.mark.parametrize(
    ("given", "error"), [(0, E.NONE), (-1, E.NONE), (1, E.UNKNOWN_LEADER_EPOCH), (-2, E.FENCED_LEADER_EPOCH)]
)
def test_leader_epochs(desk, version, given, error):
    assert ask(desk, version, -1, epoch=given)[0] == error


def test_a_batch_that_cannot_be_opened(desk):
    data = bytearray(build_batch([Record(timestamp=5)], codec=0))
    data[22] = 2  # snappy
    batch = read_batch(bytes(data))
    desk.broker.cluster.topics["t"].partitions[1].log.append(batch, 0)
    assert ask(desk, 5, 0, index=1)[0] == E.UNSUPPORTED_COMPRESSION_TYPE
