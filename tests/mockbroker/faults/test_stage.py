"""The effect of each action on a request, its response, its connection, and the following requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from kwire import ErrorCode as E
from kwire import encode
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.create_acls import CreateAclsRequest
from kwire.messages.describe_producers import DescribeProducersRequest
from kwire.messages.elect_leaders import ElectLeadersRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.records import Record, build_batch
from kwire.records.batch import batches
from mockbroker import Cluster, ConnectionClosedError, InProcessConnection, open_cluster
from mockbroker.base.timers import StageDue

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@asynccontextmanager
async def opened(brokers: int = 1, **config: object) -> AsyncIterator[Cluster]:
    """Open a cluster whose clock is stopped."""
    settings = {"mockbroker.join.settle.ms": 0, "group.initial.rebalance.delay.ms": 0, **config}
    async with open_cluster(brokers=brokers, topics={"t": 2, "u": 1}, clock="manual", config=settings) as cluster:
        yield cluster


class Asked:
    """A request in a separate task.

    Attributes:
        response: the response, when it has arrived.
        error: the error if the connection was closed.
    """

    def __init__(
        self, nursery: trio.Nursery, connection: InProcessConnection, request: Any, version: Any = None
    ) -> None:
        self.response: Any = None
        self.error = ""
        nursery.start_soon(self._ask, connection, request, version)

    async def _ask(self, connection: InProcessConnection, request: Any, version: Any) -> None:
        try:
            self.response = await connection.ask(request, version)
        except ConnectionClosedError as error:
            self.error = str(error)


def commit(*partitions: tuple[str, int]) -> OffsetCommitRequest:
    """Return a commit without a group membership, like that of a simple consumer."""
    topics: dict[str, list[OffsetCommitRequest.Topic.Partition]] = {}
    for topic, index in partitions:
        partition = OffsetCommitRequest.Topic.Partition(partition_index=index, committed_offset=5)
        topics.setdefault(topic, []).append(partition)
    return OffsetCommitRequest(
        group_id="g",
        topics=[OffsetCommitRequest.Topic(name=name, partitions=each) for name, each in topics.items()],
    )


async def test_error_is_answered_and_the_request_not_processed() -> None:
    async with opened() as cluster:
        fault = cluster.faults.error("OffsetCommit", "REBALANCE_IN_PROGRESS")
        connection = cluster.connect()
        first = await connection.ask(commit(("t", 0)), 8)
        assert first.topics[0].partitions[0].error_code == E.REBALANCE_IN_PROGRESS
        assert cluster.committed("g") == {}
        second = await connection.ask(commit(("t", 0)), 8)
        assert second.topics[0].partitions[0].error_code == E.NONE
        assert cluster.committed("g") == {("t", 0): 5}
        assert (fault.matched, fault.applied, fault.exhausted) == (2, 1, True)


async def test_error_for_one_partition_leaves_the_others() -> None:
    async with opened() as cluster:
        cluster.faults.error("OffsetCommit", "COORDINATOR_NOT_AVAILABLE", topic="t", partition=1)
        response = await cluster.connect().ask(commit(("t", 0), ("t", 1), ("u", 0)), 8)
        codes = {(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}
        assert codes == {("t", 0): 0, ("t", 1): E.COORDINATOR_NOT_AVAILABLE, ("u", 0): 0}
        assert cluster.committed("g") == {("t", 0): 5, ("u", 0): 5}


async def test_error_for_a_partition_of_a_fetch_session() -> None:
    async with opened() as cluster:
        cluster.produce("t", ["a"], partition=1)
        topic_id = next(
            t.topic_id for t in (await cluster.connect().ask(MetadataRequest(topics=None))).topics if t.name == "t"
        )
        connection = cluster.connect()
        partitions = [FetchRequest.Topic.Partition(partition=index, partition_max_bytes=1000) for index in (0, 1)]
        request = FetchRequest(
            session_epoch=0, max_bytes=1000, topics=[FetchRequest.Topic(topic_id=topic_id, partitions=partitions)]
        )
        first = await connection.ask(request, 13)
        assert first.session_id
        cluster.faults.error("Fetch", "OFFSET_OUT_OF_RANGE", topic="t", partition=0)
        rest = FetchRequest(session_id=first.session_id, session_epoch=1, max_wait_ms=10_000, max_bytes=1000)
        second = await connection.ask(rest, 13)
        errors = {p.partition_index: p.error_code for t in second.responses for p in t.partitions}
        assert errors[0] == E.OFFSET_OUT_OF_RANGE


class ShareMember:
    """A member of the share group ``s`` that reads the partitions of the topic ``t``."""

    MEMBER_ID = "00000000-0000-0000-0000-000000000001"

    def __init__(self, cluster: Cluster) -> None:
        self._connection = cluster.connect()
        self._topics: list[ShareFetchRequest.Topic] = []
        self._epoch = 0

    async def join(self) -> dict[int, tuple[int, list[int]]]:
        """Join the group, and open a share session with both partitions. Return the result of ``fetch``."""
        response = await self._connection.ask(MetadataRequest(topics=None))
        topic_id = next(topic.topic_id for topic in response.topics if topic.name == "t")
        request = ShareGroupHeartbeatRequest(group_id="s", member_id=self.MEMBER_ID, subscribed_topic_names=["t"])
        await self._connection.ask(request, 1)
        await trio.testing.wait_all_tasks_blocked()
        self._topics = [
            ShareFetchRequest.Topic(
                topic_id=topic_id,
                partitions=[ShareFetchRequest.Topic.Partition(partition_index=index) for index in (0, 1)],
            )
        ]
        return await self.fetch()

    async def fetch(self) -> dict[int, tuple[int, list[int]]]:
        """Return the error of each partition in the next response, and the delivery counts of its acquired records."""
        request = ShareFetchRequest(
            group_id="s",
            member_id=self.MEMBER_ID,
            share_session_epoch=self._epoch,
            max_records=10,
            batch_size=10,
            topics=self._topics if self._epoch == 0 else [],
        )
        self._epoch += 1
        response = await self._connection.ask(request, 1)
        return {
            each.partition_index: (each.error_code, [acquired.delivery_count for acquired in each.acquired_records])
            for topic in response.responses
            for each in topic.partitions
        }


async def test_error_for_a_partition_of_a_share_session() -> None:
    async with opened() as cluster:
        member = ShareMember(cluster)
        assert await member.join() == {0: (E.NONE, []), 1: (E.NONE, [])}
        for index in (0, 1):
            cluster.produce("t", ["a"], partition=index)
        fault = cluster.faults.error("ShareFetch", "NOT_LEADER_OR_FOLLOWER", group="s", topic="t", partition=0)
        other = cluster.faults.error("ShareFetch", "NOT_LEADER_OR_FOLLOWER", group="other", topic="t", optional=True)
        assert await member.fetch() == {0: (E.NOT_LEADER_OR_FOLLOWER, []), 1: (E.NONE, [1])}
        assert await member.fetch() == {0: (E.NONE, [1])}  # still in the session; not acquired before
        assert (fault.applied, other.matched) == (1, 0)


async def test_error_in_the_first_request_of_a_share_session() -> None:
    async with opened() as cluster:
        await ShareMember(cluster).join()
        member = ShareMember(cluster)
        cluster.faults.error("ShareFetch", "NOT_LEADER_OR_FOLLOWER", topic="t", partition=0)
        assert await member.join() == {0: (E.NOT_LEADER_OR_FOLLOWER, []), 1: (E.NONE, [])}
        cluster.produce("t", ["a"], partition=0)
        assert await member.fetch() == {0: (E.NONE, [1])}


NOTHING_TO_INJECT = [
    pytest.param(
        "OffsetFetch",
        "UNSTABLE_OFFSET_COMMIT",
        "orders",
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequest.Group(
                    group_id="g", topics=[OffsetFetchRequest.Group.Topic(name="orders", partition_indexes=[])]
                )
            ]
        ),
        8,
        id="topic without partitions",
    ),
    pytest.param(
        "ElectLeaders",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "t",
        ElectLeadersRequest(topic_partitions=None),
        2,
        id="no partition needs an election",
    ),
    pytest.param(
        "DescribeProducers",
        "NOT_LEADER_OR_FOLLOWER",
        "t",
        DescribeProducersRequest(topics=[DescribeProducersRequest.Topic(name="t", partition_indexes=[])]),
        0,
        id="no partitions",
    ),
    pytest.param("CreateAcls", "INVALID_REQUEST", None, CreateAclsRequest(creations=[]), 3, id="no creations"),
]


@pytest.mark.parametrize(("api", "error", "topic", "request_", "version"), NOTHING_TO_INJECT)
async def test_error_without_an_element_is_not_applied(
    api: str, error: str, topic: str | None, request_: Any, version: int
) -> None:
    async with opened() as cluster:
        expected = await cluster.connect().ask(request_, version)
        fault = cluster.faults.error(api, error, **({} if topic is None else {"topic": topic}))
        assert await cluster.connect().ask(request_, version) == expected
        assert (fault.matched, fault.applied, fault.exhausted) == (1, 0, False)
        assert not [event for event in cluster.events() if event.fault]


async def test_error_of_an_element_of_the_response_alone_is_applied() -> None:
    async with opened() as cluster:
        connection = cluster.connect()
        await connection.ask(commit(("t", 0)), 8)
        fault = cluster.faults.error("OffsetFetch", "UNSTABLE_OFFSET_COMMIT", topic="t")
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g", topics=None)])
        response = await connection.ask(fetch, 8)
        assert response.groups[0].topics[0].partitions[0].error_code == E.UNSTABLE_OFFSET_COMMIT
        assert fault.applied == 1
        assert [event.fault for event in cluster.events() if event.fault] == ["fault-1"]


async def test_error_of_produce_without_acks_closes_the_connection() -> None:
    """Kafka closes the connection of a producer that wants no response, so that it notices the error."""
    async with opened() as cluster:
        cluster.faults.error("Produce", "CORRUPT_MESSAGE", topic="u")
        connection = cluster.connect()
        partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
        topics = [ProduceRequest.Topic(name=name, partition_data=[partition]) for name in ("t", "u")]
        produce = ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics)
        with pytest.raises(ConnectionClosedError):
            await connection.ask(produce, 7, answered=False)
        assert [record.value for record in cluster.records("t")] == [b"v"]
        assert cluster.records("u") == []


@pytest.mark.parametrize(
    "action",
    [
        {"disconnect": "after"},
        {"disconnect": "mid-response", "bytes": 4},
        {"bytes_per_second": 1_000_000, "of": "response"},
        {"throttle_ms": 1},
        {"delay_ms": 0, "when": "after"},
    ],
    ids=lambda action: " ".join(map(str, action.values())),
)
async def test_actions_after_a_produce(action: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """The handler encodes the response to a Produce with one partition itself."""
    async with opened() as cluster:
        fault = cluster.faults.add(api="Produce", **action)
        partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
        produce = ProduceRequest(acks=-1, topic_data=[ProduceRequest.Topic(name="t", partition_data=[partition])])
        async with trio.open_nursery() as nursery:
            asked = Asked(nursery, cluster.connect(), produce, 9)
            await trio.testing.wait_all_tasks_blocked()
            await cluster.clock.advance(1)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert fault.applied == 1
        assert [record.value for record in cluster.records("t")] == [b"v"]
        assert asked.response is not None or fault.name in asked.error
    assert not [record for record in caplog.records if record.exc_info]


async def test_respond_to_produce_without_acks_sends_nothing() -> None:
    async with opened() as cluster:
        fault = cluster.faults.add(api="Produce", respond={"responses": []})
        partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
        topics = [ProduceRequest.Topic(name="t", partition_data=[partition])]
        connection = cluster.connect()
        await connection.ask(ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics), 7, answered=False)
        assert (await connection.ask(HEARTBEAT, 4)).error_code == E.UNKNOWN_MEMBER_ID
        assert fault.applied == 1
        assert cluster.records("t") == []


async def test_error_of_a_whole_produce_without_acks_closes_it() -> None:
    async with opened() as cluster:
        cluster.faults.error("Produce", "NOT_ENOUGH_REPLICAS")
        connection = cluster.connect()
        partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
        produce = ProduceRequest(
            acks=0, timeout_ms=1000, topic_data=[ProduceRequest.Topic(name="t", partition_data=[partition])]
        )
        with pytest.raises(ConnectionClosedError):
            await connection.ask(produce, 7, answered=False)
        assert cluster.records("t") == []


async def test_disconnect_mid_response_closes_produce_without_acks() -> None:
    async with opened() as cluster:
        cluster.faults.disconnect("Produce", "mid-response")
        connection = cluster.connect()
        partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
        topics = [ProduceRequest.Topic(name="t", partition_data=[partition])]
        with pytest.raises(ConnectionClosedError):
            await connection.ask(ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics), 7, answered=False)
        assert len(cluster.records("t")) == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_disconnect_before_processing_is_delayed(when: str) -> None:
    """Both values of ``when`` delay the disconnection, because there is no response to delay."""
    async with opened() as cluster, trio.open_nursery() as nursery:
        cluster.faults.add(api="OffsetCommit", disconnect="before", delay_ms=500, when=when)  # type: ignore[typeddict-item]
        asked = Asked(nursery, cluster.connect(), commit(("t", 0)), 8)
        await cluster.clock.advance(0.499)
        assert asked.error == ""
        await cluster.clock.advance(0.001)
        await trio.testing.wait_all_tasks_blocked()
        assert "disconnect before processing" in asked.error
        assert cluster.committed("g") == {}


async def test_delay_follows_the_brokers_clock() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        cluster.faults.delay("OffsetCommit", 2_000)
        asked = Asked(nursery, cluster.connect(), commit(("t", 0)), 8)
        await cluster.clock.advance(1.999)
        assert (asked.response, cluster.committed("g")) == (None, {})
        await cluster.clock.advance(0.001)
        assert cluster.committed("g") == {("t", 0): 5}


async def test_delay_after_processes_the_request_first() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        cluster.faults.delay("OffsetCommit", 2_000, when="after")
        asked = Asked(nursery, cluster.connect(), commit(("t", 0)), 8)
        await cluster.clock.advance(1.0)
        assert (asked.response, cluster.committed("g")) == (None, {("t", 0): 5})
        await cluster.clock.advance(1.0)
        await trio.testing.wait_all_tasks_blocked()
        assert asked.response is not None


@pytest.mark.parametrize("when", ["before", "after"])
async def test_hold_until_release(when: Any) -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.hold("OffsetCommit", when=when, times="always")
        connection = cluster.connect()
        first = Asked(nursery, connection, commit(("t", 0)), 8)
        await fault.wait_holding()
        following = Asked(nursery, connection, HEARTBEAT)
        other = Asked(nursery, cluster.connect(), HEARTBEAT)
        await trio.testing.wait_all_tasks_blocked()
        assert (first.response, following.response) == (None, None)
        assert other.response is not None
        assert cluster.committed("g") == ({} if when == "before" else {("t", 0): 5})
        assert fault.release() == 1
        await trio.testing.wait_all_tasks_blocked()
        assert first.response.topics[0].partitions[0].error_code == E.NONE
        assert following.response is not None
        assert fault.release() == 0
        again = Asked(nursery, connection, commit(("t", 1)), 8)
        await fault.wait_holding()
        fault.remove()
        await trio.testing.wait_all_tasks_blocked()
        assert again.response is not None


async def test_release_of_some_begins_with_the_longest_held() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.hold("Heartbeat", times="always")
        asked = []
        for number in range(3):
            asked.append(Asked(nursery, cluster.connect(), HEARTBEAT))
            await fault.wait_holding(count=number + 1)
        assert fault.release(2) == 2
        await trio.testing.wait_all_tasks_blocked()
        assert [each.response is not None for each in asked] == [True, True, False]
        assert fault.holding == 1
        cluster.reset()


async def test_held_join_group_waits_in_the_broker_not_in_the_group() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"")]
        join = JoinGroupRequest(
            group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="x", protocols=protocols
        )
        fault = cluster.faults.hold("JoinGroup")
        asked = Asked(nursery, cluster.connect(), join, 3)
        await fault.wait_holding()
        assert cluster.groups() == {}
        fault.release()
        await trio.testing.wait_all_tasks_blocked()
        assert asked.response.error_code == E.NONE


async def test_held_request_survives_a_client_that_disconnects() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.hold("OffsetCommit")
        connection = cluster.connect()
        Asked(nursery, connection, commit(("t", 0)), 8)
        await fault.wait_holding()
        connection.close()
        assert fault.holding == 1
        fault.release()
        assert cluster.committed("g") == {("t", 0): 5}


@pytest.mark.parametrize(("when", "committed"), [("before", {}), ("after", {("t", 0): 5})])
async def test_broker_that_stops_drops_what_is_held(when: Any, committed: dict[tuple[str, int], int]) -> None:
    async with opened(brokers=2, **{"offsets.topic.replication.factor": 2}) as cluster, trio.open_nursery() as nursery:
        node = cluster.coordinator("g")
        fault = cluster.faults.hold("OffsetCommit", when=when)
        asked = Asked(nursery, cluster.connect(node), commit(("t", 0)), 8)
        await fault.wait_holding()
        cluster.stop_broker(node)
        await trio.testing.wait_all_tasks_blocked()
        assert "stopped" in asked.error
        assert fault.holding == 0
        assert fault.release() == 0
        assert cluster.committed("g") == committed


async def test_hold_above_the_limit_closes_the_connection() -> None:
    async with opened(**{"mockbroker.faults.max.held.requests": 1}) as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.hold("Heartbeat", times="always")
        Asked(nursery, cluster.connect(), HEARTBEAT)
        await fault.wait_holding()
        with pytest.raises(ConnectionClosedError, match=r"mockbroker\.faults\.max\.held\.requests \(1\)"):
            await cluster.connect().ask(HEARTBEAT)
        fault.remove()


@pytest.mark.parametrize(
    ("how", "committed"), [("before", {}), ("after", {("t", 0): 5}), ("mid-response", {("t", 0): 5})]
)
async def test_disconnect(how: Any, committed: dict[tuple[str, int], int]) -> None:
    async with opened() as cluster:
        fault = cluster.faults.disconnect("OffsetCommit", how)
        with pytest.raises(ConnectionClosedError, match=f"fault rule {fault.name}: disconnect {how}"):
            await cluster.connect().ask(commit(("t", 0)), 8)
        assert cluster.committed("g") == committed


@pytest.mark.parametrize(("when", "committed"), [("before", {}), ("after", {("t", 0): 5})])
async def test_no_response(when: Any, committed: dict[tuple[str, int], int]) -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        cluster.faults.add(api="OffsetCommit", no_response=True, when=when)
        connection = cluster.connect()
        asked = [Asked(nursery, connection, commit(("t", 0)), 8)]
        await trio.testing.wait_all_tasks_blocked()
        asked.append(Asked(nursery, connection, HEARTBEAT))
        await cluster.clock.advance(3_600)
        await trio.testing.wait_all_tasks_blocked()
        assert [each.response for each in asked] == [None, None]
        assert cluster.committed("g") == committed
        connection.close()


async def test_throttle_answers_at_once_and_mutes_the_connection() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        cluster.faults.add(api="Heartbeat", throttle_ms=1_000)
        connection = cluster.connect()
        assert (await connection.ask(HEARTBEAT)).throttle_time_ms == 1_000
        following = Asked(nursery, connection, HEARTBEAT)
        await cluster.clock.advance(0.999)
        await trio.testing.wait_all_tasks_blocked()
        assert following.response is None
        await cluster.clock.advance(0.001)
        await trio.testing.wait_all_tasks_blocked()
        assert following.response.throttle_time_ms == 0


async def test_respond_answers_with_the_given_body() -> None:
    async with opened() as cluster:
        cluster.faults.add(api="OffsetCommit", respond={"topics": [{"name": "t", "partitions": []}]})
        response = await cluster.connect().ask(commit(("t", 0)), 8)
        assert (response.topics[0].name, response.topics[0].partitions) == ("t", [])
        assert cluster.committed("g") == {}


UNSUPPORTED: dict[str, dict[str, Any]] = {
    "error": {"error": "UNSUPPORTED_VERSION"},
    "respond": {"respond": {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}},
}


@pytest.mark.parametrize("action", UNSUPPORTED.values(), ids=UNSUPPORTED)
async def test_unsupported_api_versions_is_answered_in_version_0(action: dict[str, Any]) -> None:
    async with opened() as cluster:
        cluster.faults.add(api="ApiVersions", version="4+", **action)  # type: ignore[typeddict-item]
        connection = cluster.connect()
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        response = await connection.ask(request, 4)
        assert response.error_code == E.UNSUPPORTED_VERSION
        assert [(each.api_key, each.max_version) for each in response.api_keys] == [(18, 3)]
        (logged,) = cluster._router.requests.entries(0)
        assert (logged.response or b"")[8:] == encode(response, 0)
        assert (await connection.ask(request, 3)).error_code == E.NONE


@pytest.mark.parametrize("of", ["request", "response"])
async def test_bytes_per_second(of: Any) -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        cluster.faults.add(api="Metadata", bytes_per_second=10, of=of)
        asked = Asked(nursery, cluster.connect(), MetadataRequest(topics=None))
        await cluster.clock.advance(1.0)
        assert asked.response is None
        await cluster.clock.advance(600.0)
        await trio.testing.wait_all_tasks_blocked()
        assert {topic.name for topic in asked.response.topics} >= {"t", "u"}


async def test_slow_response_of_a_closed_connection_is_forgotten() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        cluster.faults.add(api="Metadata", bytes_per_second=1)
        connection = cluster.connect()
        Asked(nursery, connection, MetadataRequest(topics=None))
        await cluster.clock.advance(1.0)
        connection.close()
        await cluster.clock.advance(1.0)
        assert not [key for key in cluster._router.broker.deadlines if isinstance(key, StageDue)]


@pytest.mark.parametrize("action", [{"bytes_per_second": 1}, {"throttle_ms": 1_000}])
async def test_request_without_response_is_not_slowed(action: dict[str, Any]) -> None:
    async with opened() as cluster:
        cluster.faults.add(api="Produce", **action)  # type: ignore[typeddict-item]
        connection = cluster.connect()
        partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
        topics = [ProduceRequest.Topic(name="t", partition_data=[partition])]
        await connection.ask(ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics), 7, answered=False)
        assert (await connection.ask(HEARTBEAT)).error_code == E.UNKNOWN_MEMBER_ID
        assert not [key for key in cluster._router.broker.deadlines if isinstance(key, StageDue)]


async def test_evict_removes_the_member_that_asked() -> None:
    async with opened() as cluster:
        connection = cluster.connect()
        member_id = await joined(connection, "g")
        cluster.faults.add(api="Heartbeat", evict=True)
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
        assert (await connection.ask(beat)).error_code == E.UNKNOWN_MEMBER_ID
        assert cluster.groups()["g"].members == ()


async def joined(connection: InProcessConnection, group_id: str) -> str:
    """Join a classic group as its only member, which need not be Stable, and return the member id."""
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"")]
    join = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="x",
        protocols=protocols,
    )
    return str((await connection.ask(join, 3)).member_id)


async def test_evict_of_no_member_is_not_applied() -> None:
    async with opened() as cluster:
        fault = cluster.faults.add(api="JoinGroup", evict=True)
        await joined(cluster.connect(), "g")
        assert (fault.matched, fault.applied, fault.exhausted) == (1, 0, False)
        assert not [event for event in cluster.events() if event.fault]


async def test_evict_removes_the_member_that_leaves() -> None:
    async with opened() as cluster:
        connection = cluster.connect()
        leaving = LeaveGroupRequest.Member(member_id=await joined(connection, "g"))
        cluster.faults.add(api="LeaveGroup", evict=True)
        response = await connection.ask(LeaveGroupRequest(group_id="g", members=[leaving]), 5)
        assert response.members[0].error_code == E.UNKNOWN_MEMBER_ID


async def test_evict_removes_members_of_matching_groups_only() -> None:
    async with opened() as cluster:
        connection = cluster.connect()
        groups = [
            OffsetFetchRequest.Group(group_id=group_id, member_id=await joined(connection, group_id), member_epoch=1)
            for group_id in ("g", "h", "other")
        ]
        cluster.faults.add(api="OffsetFetch", group="?", evict=True)
        await connection.ask(OffsetFetchRequest(groups=groups), 9)
        assert [len(cluster.groups()[group_id].members) for group_id in ("g", "h", "other")] == [0, 0, 1]


async def test_events_and_requests_name_the_rule() -> None:
    async with opened() as cluster:
        cluster.faults.error("Heartbeat", "REBALANCE_IN_PROGRESS", name="busy")
        connection = cluster.connect(client_id="app")
        await connection.ask(HEARTBEAT)
        await connection.ask(HEARTBEAT)
        (event,) = cluster.events()
        assert (event.event, event.fault, event.group, event.client) == ("fault", "busy", "g", "app")
        assert event.reason == "Heartbeat: error REBALANCE_IN_PROGRESS"
        first, second = cluster.requests("Heartbeat")
        assert (first.fault, first.error_code, first.latency_ms) == ("busy", E.REBALANCE_IN_PROGRESS, 0)
        assert isinstance(first.response, HeartbeatResponse)
        assert (second.fault, second.error_code) == (None, E.UNKNOWN_MEMBER_ID)


async def test_malformed_records_count_when_a_response_has_records() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.malform("Fetch", "crc")
        empty, full = (
            FetchRequest(
                max_wait_ms=1_000,
                min_bytes=1,
                max_bytes=1_000,
                session_epoch=-1,
                topics=[
                    FetchRequest.Topic(
                        topic=topic, partitions=[FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1_000)]
                    )
                ],
            )
            for topic in ("t", "u")
        )
        Asked(nursery, cluster.connect(), empty, 11)
        await trio.testing.wait_all_tasks_blocked()
        assert (fault.matched, fault.applied, fault.exhausted) == (1, 0, False)
        cluster.produce("u", ["a"])
        await cluster.connect().ask(full, 11)
        assert (fault.matched, fault.applied, fault.exhausted) == (2, 1, True)
        cluster.produce("t", ["a"], partition=0)  # the rule is exhausted before this response
        await trio.testing.wait_all_tasks_blocked()
        assert fault.applied == 1


HOLDS: dict[str, dict[str, Any]] = {
    "before": {"api": "Heartbeat", "delay_ms": 1_000},
    "after": {"api": "Heartbeat", "delay_ms": 1_000, "when": "after"},
    "connection": {"on": "connect", "delay_ms": 1_000},
}


@pytest.mark.parametrize("rule", HOLDS.values(), ids=HOLDS)
@pytest.mark.parametrize("end", ["removed", "replaced"])
async def test_rule_holds_nothing_after_its_end(rule: Any, end: str) -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.add(name="h", hold=True, **rule)
        asked = Asked(nursery, cluster.connect(), HEARTBEAT)
        await fault.wait_applied()
        if end == "removed":
            fault.remove()
        else:
            cluster.faults.put_rule("h", {"match": {"api": "Fetch"}, "action": {"hold": True}})
        await cluster.clock.advance(1)
        await trio.testing.wait_all_tasks_blocked()
        assert asked.response is not None


WAITS: dict[str, dict[str, Any]] = {
    "delay before": {"api": "Metadata", "delay_ms": 60_000},
    "delay after": {"api": "Metadata", "delay_ms": 60_000, "when": "after"},
    "slow request": {"api": "Metadata", "bytes_per_second": 1, "of": "request"},
    "delay, then slow request": {"api": "Metadata", "bytes_per_second": 1, "of": "request", "delay_ms": 60_000},
    "slow response": {"api": "Metadata", "bytes_per_second": 1},
    "delay, then slow response": {"api": "Metadata", "bytes_per_second": 1, "delay_ms": 60_000, "when": "after"},
    "throttled": {"api": "Metadata", "throttle_ms": 60_000},
    "delay of a connection": {"on": "connect", "delay_ms": 60_000},
}


@pytest.mark.parametrize("rule", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("end", ["removed", "replaced"])
async def test_end_of_a_rule_ends_the_waits_that_have_begun(rule: Any, end: str) -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.add(name="w", **rule)
        connection = cluster.connect()
        first = Asked(nursery, connection, MetadataRequest(topics=None))
        await fault.wait_applied()
        await cluster.clock.advance(0.1)
        following = Asked(nursery, connection, HEARTBEAT)
        await trio.testing.wait_all_tasks_blocked()
        assert following.response is None
        if end == "removed":
            fault.remove()
        else:
            cluster.faults.put_rule("w", {"match": {"api": "Fetch"}, "action": {"hold": True}})
        await trio.testing.wait_all_tasks_blocked()
        assert {topic.name for topic in first.response.topics} >= {"t", "u"}
        assert following.response.error_code == E.UNKNOWN_MEMBER_ID
        assert [(each.event, each.reason) for each in cluster.events()][1:] == [("release", "1 released")]
        assert not [key for key in cluster._router.broker.deadlines if isinstance(key, StageDue)]


async def test_removed_rule_gives_delayed_requests_its_error_at_once() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.add(api="Heartbeat", error="NOT_COORDINATOR", delay_ms=60_000)
        asked = Asked(nursery, cluster.connect(), HEARTBEAT)
        await trio.testing.wait_all_tasks_blocked()
        fault.remove()
        await trio.testing.wait_all_tasks_blocked()
        assert asked.response.error_code == E.NOT_COORDINATOR


@pytest.mark.parametrize(
    "action", [{"delay_ms": 60_000, "when": "after"}, {"throttle_ms": 60_000}, {"bytes_per_second": 1}]
)
async def test_removed_rule_delays_no_response_that_comes_later(action: dict[str, Any]) -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.add(api="Fetch", **action)  # type: ignore[typeddict-item]
        connection = cluster.connect()
        partition = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=10_000)
        topics = [FetchRequest.Topic(topic="t", partitions=[partition])]
        waiting = FetchRequest(max_wait_ms=1_000, min_bytes=1, max_bytes=10_000, session_epoch=-1, topics=topics)
        first = Asked(nursery, connection, waiting, 12)
        following = Asked(nursery, connection, HEARTBEAT)
        await fault.wait_applied()
        fault.remove()
        cluster.produce("t", ["a"], partition=0)
        await trio.testing.wait_all_tasks_blocked()
        assert (first.response.throttle_time_ms, following.response.error_code) == (0, E.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize(
    ("groups", "condition", "named"),
    [(["g"], {}, "g"), (["g", "h"], {"group": "h"}, "h"), (["g", "h"], {}, "")],
    ids=["one group", "one matching group", "two groups"],
)
async def test_event_names_the_group_of_a_batched_request(groups: list[str], condition: Any, named: str) -> None:
    async with opened() as cluster:
        cluster.faults.error("OffsetFetch", "NOT_COORDINATOR", **condition)
        asked = [OffsetFetchRequest.Group(group_id=group, topics=None) for group in groups]
        await cluster.connect().ask(OffsetFetchRequest(groups=asked), 8)
        (event,) = cluster.events()
        assert event.group == named


NEW_CONNECTIONS: dict[str, tuple[dict[str, Any], Callable[[ConnectionClosedError], bool]]] = {
    "closed": ({"disconnect": "before"}, lambda error: "close" in str(error)),
    "reset": ({"disconnect": "before", "reset": True}, lambda error: "reset" in str(error)),
    "TLS handshake broken off": ({"fail_tls": True}, lambda error: "fail_tls" in str(error)),
}


@pytest.mark.parametrize(("action", "fits"), NEW_CONNECTIONS.values(), ids=NEW_CONNECTIONS)
async def test_new_connection_is_refused(action: dict[str, Any], fits: Callable[[ConnectionClosedError], bool]) -> None:
    async with opened() as cluster:
        fault = cluster.faults.add(on="connect", **action)  # type: ignore[typeddict-item]
        with pytest.raises(ConnectionClosedError) as raised:
            await cluster.connect().ask(HEARTBEAT)
        assert fits(raised.value)
        assert (await cluster.connect().ask(HEARTBEAT)).error_code == E.UNKNOWN_MEMBER_ID
        assert fault.exhausted


async def test_new_connection_is_held_until_release() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.add(on="connect", hold=True)
        asked = Asked(nursery, cluster.connect(), HEARTBEAT)
        await fault.wait_holding()
        await trio.testing.wait_all_tasks_blocked()
        assert asked.response is None
        fault.release()
        await trio.testing.wait_all_tasks_blocked()
        assert asked.response is not None


async def test_new_connection_is_served_after_a_delay() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        cluster.faults.add(on="connect", delay_ms=1_000)
        asked = Asked(nursery, cluster.connect(), HEARTBEAT)
        await cluster.clock.advance(0.999)
        assert asked.response is None
        await cluster.clock.advance(0.001)
        await trio.testing.wait_all_tasks_blocked()
        assert asked.response is not None


async def test_malformed_records_count_only_with_records() -> None:
    async with opened() as cluster:
        fault = cluster.faults.malform("Fetch", "corrupt_values", topic="t")
        connection = cluster.connect()

        async def values(topic: str) -> list[bytes | None]:
            partition = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=10_000)
            topics = [FetchRequest.Topic(topic=topic, partitions=[partition])]
            response = await connection.ask(FetchRequest(max_bytes=10_000, session_epoch=-1, topics=topics), 12)
            records = response.responses[0].partitions[0].records
            return [record.value for batch in batches(records or b"") for record in batch.records()]

        assert await values("t") == []
        assert (fault.matched, fault.applied) == (1, 0)
        cluster.produce("t", ["value"], partition=0)
        cluster.produce("u", ["value"], partition=0)
        assert await values("u") == [b"value"]
        (changed,) = await values("t")
        assert (changed != b"value", len(changed or b"")) == (True, 5)
        assert (fault.applied, [event.event for event in cluster.events()]) == (1, ["fault"])


async def test_others_are_served_while_a_response_is_malformed() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        cluster.faults.malform("Fetch", "corrupt_values", topic="t")
        cluster.produce("t", [str(number) for number in range(10_000)], partition=0)
        partition = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_bytes=1 << 20, session_epoch=-1, topics=[FetchRequest.Topic(topic="t", partitions=[partition])]
        )
        fetching, other, served = cluster.connect(), cluster.connect(), 0
        asked = Asked(nursery, fetching, request, 12)
        await trio.lowlevel.checkpoint()  # the Fetch is sent before the Heartbeat
        after = Asked(nursery, fetching, HEARTBEAT)
        while asked.response is None:
            if after.response is not None:
                await trio.lowlevel.checkpoint()  # trio runs tasks that wake up at the same time in random order
                assert asked.response is not None, "the connection keeps the order of its responses"
                break
            await other.ask(HEARTBEAT)
            served += 1
        batch = next(iter(batches(asked.response.responses[0].partitions[0].records)))
        assert next(batch.records()).value == b"\xcf"  # "0" with all bits inverted
        assert served >= 5


async def test_malformed_response_of_a_closed_connection_is_dropped() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.malform("Metadata", "null_array", field="topics", times=1)
        cluster.create_topic("large", partitions=3_000)
        closed, other = cluster.connect(), cluster.connect()
        asked = Asked(nursery, closed, MetadataRequest(topics=None))
        while not fault.applied:
            await trio.lowlevel.checkpoint()
        closed.close()
        response = await other.ask(MetadataRequest(topics=None))
        assert (asked.response, "large" in [topic.name for topic in response.topics]) == (None, True)


async def test_reset_removes_rules_and_drops_what_they_hold() -> None:
    async with opened() as cluster, trio.open_nursery() as nursery:
        fault = cluster.faults.hold("OffsetCommit")
        Asked(nursery, cluster.connect(), commit(("t", 0)), 8)
        await fault.wait_holding()
        cluster.reset()
        assert cluster.faults.states() == []
        assert cluster.committed("g") == {}


async def test_without_rules_the_router_has_no_stage() -> None:
    async with opened() as cluster:
        stages = cluster._router.outer_stages
        with cluster.faults.error("Heartbeat", "REBALANCE_IN_PROGRESS"):
            assert cluster._router.outer_stages != stages
        assert cluster._router.outer_stages == stages
