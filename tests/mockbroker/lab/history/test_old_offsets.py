"""Offsets that old clients commit to ZooKeeper and new clients to ``__consumer_offsets``, with the same tests for
both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from kwire import ErrorCode
from kwire.apikeys import ApiKey
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Journal
from mockbroker.lab.history.old_offsets import OldOffsets, offset_of
from mockbroker.lab.history.zookeeper import ZooKeeper
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.disk import Disk
from mockbroker.lab.simulation.network import Link, Wire
from mockbroker.lab.simulation.queue import Queue
from mockbroker.lab.simulation.shell import ObservedRouter, Shell
from mockbroker.lab.simulation.trace import Trace
from mockbroker.lab.simulation.watching import Watchers
from mockbroker.topics.model import OFFSETS_TOPIC, Node

Place = tuple[str, int]
GROUP = "g"
OLD, KAFKA, LATEST = 0, 1, 9


class World:
    """One broker that serves both kinds of requests, and a client."""

    def __init__(self) -> None:
        self.queue = Queue()
        self.zookeeper = ZooKeeper(self.queue, Dice("zookeeper"))
        old = OldOffsets(self.zookeeper, 6.0, self._answer)
        self.broker = Broker([Node(0, "127.0.0.1", 9092)], Settings.parse({}), Dice("ids").uuid)
        self.broker.cluster.create_topic("t", self.broker.cluster.place(3, 1))
        self.broker.cluster.create_topic("u", self.broker.cluster.place(1, 1))
        router = ObservedRouter(self.broker, Journal(0.0), old.handlers)
        self.shell = Shell(self.queue, Trace(), router, Watchers([]), None, self._no_successor)
        self.connection = self.shell.network.connect(self, Link(), 0, "client")
        self.answers: list[Any] = []

    def _answer(self, effects: Any) -> None:
        self.shell.change(effects)

    def _no_successor(self, disk: Disk) -> Broker:
        raise AssertionError(disk)

    def delay(self) -> float:
        return 0.001

    def receive(self, connection: Wire, _: Any, response: Any) -> None:
        connection.waiting.pop(0)
        self.answers.append(response)

    def disconnected(self, _: Wire) -> None:
        raise AssertionError("the broker hangs up")

    def ask(self, api_key: int, version: int, request: object) -> Any:
        self.shell.network.ask(self.connection, api_key, version, request, lambda _: None)
        while not self.answers:
            self.queue.step()
        return self.answers.pop()

    def commit(
        self, version: int, offsets: Mapping[Place, int], metadata: str = "", group: str = GROUP
    ) -> dict[Any, Any]:
        """Commit offsets; return the error of each partition."""
        topics: dict[str, OffsetCommitRequest.Topic] = {}
        for (name, index), offset in offsets.items():
            topic = topics.setdefault(name, OffsetCommitRequest.Topic(name=name))
            line = OffsetCommitRequest.Topic.Partition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            topic.partitions.append(line)
        request = OffsetCommitRequest(group_id=group, topics=list(topics.values()), generation_id_or_member_epoch=-1)
        answer = self.ask(ApiKey.OFFSET_COMMIT, version, request)
        return {(t.name, p.partition_index): ErrorCode(p.error_code) for t in answer.topics for p in t.partitions}

    def fetch(
        self, version: int, places: Iterable[Place], group: str = GROUP
    ) -> dict[Place, tuple[int, str, ErrorCode]]:
        """Fetch offsets; return the offset, metadata and error of each partition."""
        topics: dict[str, list[int]] = {}
        for name, index in places:
            topics.setdefault(name, []).append(index)
        if version < 8:
            lines = [OffsetFetchRequest.Topic(name=name, partition_indexes=result) for name, result in topics.items()]
            result = self.ask(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(group_id=group, topics=lines)).topics
        else:
            kind = OffsetFetchRequest.Group
            named = [kind.Topic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
            (answer,) = self.ask(
                ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(groups=[kind(group_id=group, topics=named)])
            ).groups
            result = answer.topics
        return {
            (t.name, p.partition_index): (p.committed_offset, p.metadata or "", ErrorCode(p.error_code))
            for t in result
            for p in t.partitions
        }


@pytest.mark.parametrize("seed", range(20))
def test_old_and_new_offsets_are_the_same(seed):
    """The same commits and fetches by the old consumer and by newer ones have the same results."""
    dice = Dice("offsets", seed)
    worlds = [(version, World()) for version in (OLD, KAFKA, LATEST)]
    places = [("t", 0), ("t", 1), ("t", 2), ("u", 0)]
    known: dict[tuple[str, Place], int] = {}
    for _ in range(30):
        group = dice.pick(["g", "h"])
        if dice.chance(0.5):
            offsets = {place: dice.below(1_000) for place in dice.some(places)}
            known |= {(group, place): offset for place, offset in offsets.items()}
            errors = [world.commit(version, offsets, group=group) for version, world in worlds]
            assert errors == [dict.fromkeys(offsets, ErrorCode.NONE)] * 3
        else:
            requested = [place for place in dice.some(places) if (group, place) in known]
            expected = {place: (known[group, place], "", ErrorCode.NONE) for place in requested}
            for version, world in worlds:
                assert world.fetch(version, requested, group=group) == expected


def test_paths_of_offsets_in_zookeeper():
    """v0 stores offsets only in ZooKeeper, later versions only in the log; neither reads the other's offsets."""
    world = World()
    world.commit(OLD, {("t", 1): 17})
    world.commit(LATEST, {("t", 1): 42})
    node = world.zookeeper.leader.tree.nodes[offset_of(GROUP, "t", 1)]
    assert (node.data, node.owner) == ("17", 0)
    written = [part for part in world.broker.cluster.topics[OFFSETS_TOPIC].partitions if part.log.end]
    assert [part.log.end for part in written] == [1]
    assert world.fetch(OLD, [("t", 1)])["t", 1][0] == 17
    assert world.fetch(KAFKA, [("t", 1)])["t", 1][0] == 42
    assert world.fetch(LATEST, [("t", 1)])["t", 1][0] == 42


def test_offsets_outlive_the_client_that_committed_them():
    """Offsets belong to the group in both; in ZooKeeper they are not ephemeral nodes."""
    world = World()
    for version in (OLD, KAFKA):
        world.commit(version, {("t", 0): 5})
    world.queue.now += 60.0
    assert {version: world.fetch(version, [("t", 0)])["t", 0][0] for version in (OLD, KAFKA)} == {OLD: 5, KAFKA: 5}


def test_differences_of_old_offsets():
    """A missing offset is an error in v0; v0 stores no metadata, and does not check the member id."""
    world = World()
    assert world.fetch(OLD, [("t", 0)])["t", 0] == (-1, "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert world.fetch(KAFKA, [("t", 0)])["t", 0] == (-1, "", ErrorCode.NONE)
    for version in (OLD, KAFKA):
        world.commit(version, {("t", 0): 1}, metadata="mine")
    assert world.fetch(OLD, [("t", 0)])["t", 0] == (1, "", ErrorCode.NONE)
    assert world.fetch(KAFKA, [("t", 0)])["t", 0] == (1, "mine", ErrorCode.NONE)
    stranger = OffsetCommitRequest(group_id=GROUP, member_id="unknown", generation_id_or_member_epoch=7, topics=[])
    line = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=9, committed_metadata="")
    stranger.topics.append(OffsetCommitRequest.Topic(name="t", partitions=[line]))
    errors = [world.ask(ApiKey.OFFSET_COMMIT, v, stranger).topics[0].partitions[0].error_code for v in (OLD, LATEST)]
    assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.fetch(OLD, [("t", 0)])["t", 0][0] == 9


@pytest.mark.parametrize("version", [OLD, KAFKA, LATEST])
def test_errors_of_old_and_new_offsets(version):
    world = World()
    places = {("t", 0): 1, ("t", 7): 1, ("z", 0): 1}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.commit(version, places) == {("t", 0): ErrorCode.NONE, ("t", 7): unknown, ("z", 0): unknown}
    long = "x" * 4097
    assert world.commit(version, {("t", 0): 2}, metadata=long) == {("t", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert world.fetch(version, [("t", 0)])["t", 0][0] == 1


def test_the_usual_broker_refuses_the_old_way():
    world = World()
    world.shell.router.handlers = ObservedRouter(world.broker, Journal(0.0)).handlers
    assert world.commit(OLD, {("t", 0): 1}) == {("t", 0): ErrorCode.UNSUPPORTED_VERSION}
