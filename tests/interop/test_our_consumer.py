"""The results and requests of mockbroker.consumer, on the mock and, with --real, on real brokers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from interop.adapters import ADAPTERS
from interop.ground import Ground
from interop.stage import LIMIT, MARKS
from interop.tapped import RecordedCalls, TappedRequest, Wire
from interop.transformers import TransactionalProducer

from kwire.errorcodes import ErrorCode
from kwire.records import read
from kwire.records.compression import NAMES
from mockbroker import run_cluster
from mockbroker.consumer import (
    AuthorizationFailed,
    Consumer,
    ConsumerError,
    InconsistentGroupProtocol,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    UnknownAssignor,
    Wakeup,
    open_consumer,
)

pytestmark = MARKS

VALUES = [f"value-{number}-{'x' * 50}" for number in range(20)]
QUICK: dict[str, Any] = {  # short intervals and timeouts
    "auto_offset_reset": "earliest",
    "metadata_max_age": 0.5,
    "fetch_max_wait": 0.1,
    "heartbeat_interval": 0.1,
    "session_timeout": 6.0,
}
protocols = pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.since("4.0"))])


@asynccontextmanager
async def consumer_at(where: Ground | str, wire: Wire | None = None, **settings: Any) -> AsyncIterator[Consumer]:
    """Open a consumer with short intervals; the test fails if the block takes too long."""
    bootstrap = where if isinstance(where, str) else where.bootstrap_servers
    how = {"connect": wire.connect} if wire else {}
    with trio.fail_after(2 * LIMIT):
        async with open_consumer(bootstrap, **how, **QUICK | settings) as consumer:
            yield consumer


async def values_of(consumer: Consumer, number: int) -> list[str]:
    """Return the next `number` values; the polls must return no more than that."""
    results: list[str] = []
    while len(results) < number:
        results += [(record.value or b"").decode() for record in await consumer.poll()]
    assert len(results) == number
    return results


async def polls(consumer: Consumer, found: list[str], *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
    """Poll forever, and append the values to ``found``. The task has started when partitions are assigned."""
    started = False
    while True:
        found += [(record.value or b"").decode() for record in await consumer.poll(0.05)]
        if consumer.assignment and not started:
            task_status.started()
            started = True


async def until(holds: Any) -> None:
    """Wait until a condition holds, while other tasks run."""
    while not holds():
        await trio.sleep(0.01)


async def test_fetch_sessions(ground: Ground) -> None:
    """The broker starts a session; later requests and responses list only changes; closing ends the session."""
    topic, wire = ground.name("wide"), Wire()
    ground.create_topic(topic, 20)
    partitions = [(topic, number) for number in range(20)]
    async with consumer_at(ground, wire, partitions=partitions) as consumer:
        for number in range(5):
            ground.produce(topic, [str(number)], partition=number)
            assert await values_of(consumer, 1) == [str(number)]
    first, *rest, last = wire.of("Fetch")
    session = first.answer.session_id
    assert session != 0
    assert (first.body.session_id, first.body.session_epoch, partition_count(first.body.topics)) == (0, 0, 20)
    assert {one.body.session_id for one in [*rest, last]} == {session}
    assert [one.body.session_epoch for one in rest] == list(range(1, len(rest) + 1))
    assert max(partition_count(one.body.topics) for one in rest) == 1, "only the partition whose offset changed"
    assert max(partition_count(one.answer.responses) for one in rest) == 1
    assert last.body.session_epoch == -1


def partition_count(topics: Any) -> int:
    return sum(len(topic.partitions) for topic in topics)


@pytest.mark.parametrize(
    ("family", "codec"),
    [
        ("kafka-python", "gzip"),
        *((who, codec) for who in ("confluent-kafka", "java") for codec in NAMES.values() if codec != "none"),
    ],
)
async def test_records_compressed_by_other_clients(ground: Ground, family: str, codec: str) -> None:
    topic, wire = ground.name("packed"), Wire()
    ground.create_topic(topic)
    write = partial(ADAPTERS[family](ground.bootstrap_servers).produce, topic, {0: VALUES}, compression=codec)
    await trio.to_thread.run_sync(write)
    async with consumer_at(ground, wire, partitions=[(topic, 0)]) as consumer:
        assert await values_of(consumer, len(VALUES)) == VALUES
    lines = [line for one in wire.of("Fetch") for topic in one.answer.responses for line in topic.partitions]
    assert {NAMES[batch.codec] for line in lines if line.records for batch in read(line.records)} == {codec}


async def test_read_committed(ground: Ground) -> None:
    """Aborted records are not read, and an open transaction is not read yet."""
    topic = ground.name("payments")
    ground.create_topic(topic)
    producer = TransactionalProducer(ground.bootstrap_servers, ground.name("payer"))
    for value, end in (("a", "commit"), ("b", "abort"), ("c", "commit")):
        producer.begin(topic, [value, value])
        producer.end(end)
    producer.begin(topic, ["d"])
    at = (topic, 0)
    async with consumer_at(ground, partitions=[at], isolation_level="read_committed") as consumer:
        assert await values_of(consumer, 4) == ["a", "a", "c", "c"]
        assert await consumer.poll(0.3) == []
        assert consumer.position(at) == 9, "after the marker of c"
        assert await consumer.end_offsets(at) == {at: 9}
        producer.end("commit")
        assert await values_of(consumer, 1) == ["d"]
    async with consumer_at(ground, partitions=[at]) as consumer:
        assert await values_of(consumer, 7) == ["a", "a", "b", "b", "c", "c", "d"]


async def test_consumer_follows_the_leader() -> None:
    """The consumer fetches from the new leader and reads each record once. Only the mock has several brokers."""
    wire = Wire()
    with run_cluster(brokers=3, topics={"orders": 1}, config={"default.replication.factor": 3}) as cluster:
        cluster.produce("orders", ["before"])
        async with consumer_at(cluster.bootstrap_servers, wire, partitions=[("orders", 0)]) as consumer:
            assert await values_of(consumer, 1) == ["before"]
            for node in (1, 2, 0, 2):
                cluster.move_leader("orders", 0, node)
                cluster.produce("orders", [f"at {node}"])
                assert await values_of(consumer, 1) == [f"at {node}"]
    assert len({one.port for one in wire.of("Fetch")}) == 3
    epochs = [
        line.current_leader_epoch for one in wire.of("Fetch") for topic in one.body.topics for line in topic.partitions
    ]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) > 3


@protocols
async def test_static_member_restarts_without_a_rebalance(ground: Ground, protocol: str) -> None:
    """Within its session, the member gets its assignment back, without a rebalance for the other member."""
    topic, group, stays = ground.name("orders"), ground.name("group"), RecordedCalls()
    ground.create_topic(topic, 4)
    how: dict[str, Any] = {"group": group, "topics": [topic], "group_protocol": protocol}
    async with (
        consumer_at(ground, **how, group_instance_id="one", listener=stays) as one,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(polls, one, [])
        async with consumer_at(ground, **how, group_instance_id="two") as two, trio.open_nursery() as inner:
            await inner.start(polls, two, [])
            await until(lambda: len(one.assignment) == len(two.assignment) == 2)
            share, before = two.assignment, two.group_metadata
            inner.cancel_scope.cancel()
        calls_before = list(stays.calls)
        async with consumer_at(ground, **how, group_instance_id="two") as two, trio.open_nursery() as inner:
            await inner.start(polls, two, [])
            after = two.group_metadata
            assert two.assignment == share
            inner.cancel_scope.cancel()
        assert after.generation_id == before.generation_id == one.group_metadata.generation_id
        assert (after.member_id != before.member_id, after.group_instance_id) == (True, "two")
        assert stays.calls == calls_before
        nursery.cancel_scope.cancel()


async def test_seek_by_time(ground: Ground) -> None:
    topic, noon = ground.name("timed"), 1_700_000_000_000
    ground.create_topic(topic, 2)
    ground.produce(topic, VALUES, timestamp=noon)
    zero, one = (topic, 0), (topic, 1)
    async with consumer_at(ground, partitions=[zero, one]) as consumer:
        result = await consumer.offsets_for_times({zero: noon + 12, one: noon})
        assert result == {zero: OffsetAndTimestamp(12, noon + 12, 0), one: None}
        consumer.seek_to_time(noon + 12, zero)
        assert await values_of(consumer, 8) == VALUES[12:]
        consumer.seek_to_beginning(zero)
        assert await values_of(consumer, 20) == VALUES
        consumer.seek_to_time(noon + 20, zero)
        ground.produce(topic, ["later"])
        assert await values_of(consumer, 1) == ["later"]


@protocols
async def test_commits_with_metadata(ground: Ground, protocol: str) -> None:
    """Members can commit metadata, and so can a consumer with assigned partitions in a group without members."""
    topic, group = ground.name("orders"), ground.name("group")
    ground.create_topic(topic, 2)
    ground.produce(topic, VALUES)
    zero, one = (topic, 0), (topic, 1)
    mark = OffsetAndMetadata(7, "half of the box")
    how: dict[str, Any] = {"group": group, "group_protocol": protocol, "enable_auto_commit": False}
    async with consumer_at(ground, topics=[topic], **how) as consumer:
        await values_of(consumer, len(VALUES))
        await consumer.commit({zero: mark})
        result = await consumer.committed(zero, one)
        assert result == {zero: OffsetAndMetadata(7, "half of the box", result[zero].leader_epoch), one: None}
    async with consumer_at(ground, topics=[topic], **how) as consumer:
        assert await values_of(consumer, 13) == VALUES[7:]
        await consumer.commit()
        assert (await consumer.committed(zero))[zero].offset == 20
    async with consumer_at(ground, partitions=[zero], **how) as consumer:
        await consumer.commit({zero: mark})
    async with consumer_at(ground, partitions=[zero], **how) as consumer:
        assert await values_of(consumer, 13) == VALUES[7:]


@protocols
async def test_recreated_topic_is_read_from_its_beginning(ground: Ground, protocol: str) -> None:
    """The new topic is read from its beginning, although the position in the old one was higher."""
    topic, group = ground.name("orders"), ground.name("group")
    ground.create_topic(topic, 2)
    ground.produce(topic, VALUES)
    async with (
        consumer_at(
            ground, group=group, topics=[topic], group_protocol=protocol, allow_auto_create_topics=False
        ) as consumer,
        trio.open_nursery() as nursery,
    ):
        results: list[str] = []
        await nursery.start(polls, consumer, results)
        await until(lambda: len(results) == len(VALUES))
        ground.delete_topic(topic)
        await until(lambda: not consumer.assignment)
        ground.create_topic(topic, 3)
        ground.produce(topic, ["new"], partition=2)
        ground.produce(topic, ["also new"])
        await until(lambda: len(results) == len(VALUES) + 2)
        assert sorted(results[len(VALUES) :]) == ["also new", "new"]
        nursery.cancel_scope.cancel()


@protocols
async def test_pattern_subscription_finds_new_topics(ground: Ground, protocol: str) -> None:
    name, group = ground.name("weather"), ground.name("group")
    ground.create_topic(f"{name}-rome")
    ground.produce(f"{name}-rome", ["sun"])
    topics = re.compile(f"{name}-.*")
    async with consumer_at(ground, group=group, topics=topics, group_protocol=protocol) as consumer:
        assert await values_of(consumer, 1) == ["sun"]
        ground.create_topic(f"{name}-oslo", 2)
        ground.produce(f"{name}-oslo", ["snow"], partition=1)
        assert await values_of(consumer, 1) == ["snow"]
        assert len(consumer.assignment) == 3


@protocols
async def test_member_that_exceeds_max_poll_interval_rejoins(ground: Ground, protocol: str) -> None:
    """It leaves after max_poll_interval, and the other member gets all partitions; its next poll calls on_lost."""
    topic, group, notes = ground.name("orders"), ground.name("group"), RecordedCalls()
    ground.create_topic(topic, 2)
    how: dict[str, Any] = {"group": group, "topics": [topic], "group_protocol": protocol}
    async with consumer_at(ground, **how, max_poll_interval=1.0, listener=notes) as slow:
        while not slow.assignment:
            await slow.poll(0.05)
        async with consumer_at(ground, **how) as other, trio.open_nursery() as nursery:
            nursery.start_soon(polls, other, [])
            await until(lambda: len(other.assignment) == 2)
            assert notes.calls == [("assigned", 2)]
            assert len(slow.assignment) == 2, "its listener was not called yet"
            while len(slow.assignment) != 1 or len(other.assignment) != 1:
                await slow.poll(0.05)
            assert notes.calls[1] == ("lost", 2)
            ground.produce(topic, ["zero"], partition=0)
            ground.produce(topic, ["one"], partition=1)
            ((_, mine),) = slow.assignment
            assert await values_of(slow, 1) == [["zero", "one"][mine]]
            nursery.cancel_scope.cancel()


@protocols
async def test_cancelled_consumer_leaves_the_group(ground: Ground, protocol: str) -> None:
    """The consumer leaves at once, so that the group does not have to wait until its session expires."""
    topic, group, wire = ground.name("orders"), ground.name("group"), Wire()
    ground.create_topic(topic, 2)
    how: dict[str, Any] = {"group": group, "topics": [topic], "group_protocol": protocol}
    async with consumer_at(ground, **how) as stays, trio.open_nursery() as nursery:
        await nursery.start(polls, stays, [])
        with trio.CancelScope() as scope:
            async with consumer_at(ground, wire, **how) as goes:
                while len(goes.assignment) != 1 or len(stays.assignment) != 1:
                    await goes.poll(0.05)
                scope.cancel()
                await goes.poll()
        assert scope.cancelled_caught
        if protocol == "classic":
            assert [member.error_code for one in wire.of("LeaveGroup") for member in one.answer.members] == [0]
        else:
            assert (wire.of("ConsumerGroupHeartbeat")[-1].answer.member_epoch) == -1
        await until(lambda: len(stays.assignment) == 2)
        nursery.cancel_scope.cancel()


@protocols
async def test_consumer_survives_a_broker_restart(ground: Ground, protocol: str) -> None:
    """The consumer finds the coordinator again and continues at its position; its commits are still stored."""
    topic, group, wire = ground.name("orders"), ground.name("group"), Wire()
    ground.create_topic(topic, 2)
    ground.produce(topic, VALUES)
    how: dict[str, Any] = {"group": group, "topics": [topic], "group_protocol": protocol, "enable_auto_commit": False}
    async with consumer_at(ground, wire, **how) as consumer:
        assert await values_of(consumer, len(VALUES)) == VALUES
        await consumer.commit()
        results: list[str] = []
        async with trio.open_nursery() as nursery:
            await nursery.start(polls, consumer, results)
            requested = len(wire.of("FindCoordinator"))
            await trio.to_thread.run_sync(ground.restart)
            await trio.to_thread.run_sync(partial(ground.produce, topic, ["after"], partition=1))
            await until(lambda: results)
            nursery.cancel_scope.cancel()
        await consumer.commit()
        assert results == ["after"]
        assert len(wire.of("FindCoordinator")) > requested
        assert {at: stored.offset for at, stored in (await consumer.committed()).items() if stored} == {
            (topic, 0): len(VALUES),
            (topic, 1): 1,
        }


async def test_wakeup_during_join_group(ground: Ground) -> None:
    """While JoinGroup waits for a member that does not poll, wakeup ends the poll; a later poll gets the assignment."""
    topic, group, wire = ground.name("orders"), ground.name("group"), Wire()
    ground.create_topic(topic, 2)
    how: dict[str, Any] = {"group": group, "topics": [topic]}
    async with consumer_at(ground, **how) as busy:
        while not busy.assignment:
            await busy.poll(0.05)
        async with consumer_at(ground, wire, **how) as other, trio.open_nursery() as nursery:

            async def wake() -> None:
                await until(lambda: any(one.api == "JoinGroup" and one.body.member_id for one in wire.requests))
                other.wakeup()

            nursery.start_soon(wake)
            with pytest.raises(Wakeup):
                await other.poll()
            assert not other.assignment
            nursery.start_soon(polls, busy, [])
            while len(other.assignment) != 1:
                await other.poll(0.05)
            joins = wire.of("JoinGroup")
            assert len({one.body.member_id for one in joins if one.body.member_id}) == 1, "it is still the same member"
            nursery.cancel_scope.cancel()


async def test_member_id_required(ground: Ground) -> None:
    """The consumer repeats the JoinGroup at once, with the member id of the response."""
    topic, group, wire = ground.name("orders"), ground.name("group"), Wire()
    ground.create_topic(topic)
    async with consumer_at(ground, wire, group=group, topics=[topic]) as consumer:
        while not consumer.assignment:
            await consumer.poll(0.05)
    first, second = wire.of("JoinGroup")
    assert (first.body.member_id, first.answer.error_code) == ("", ErrorCode.MEMBER_ID_REQUIRED)
    assert (second.body.member_id, second.answer.error_code) == (first.answer.member_id, ErrorCode.NONE)


REFUSED = [  # error of a heartbeat, listener call, whether the consumer rejoins with the same member id
    (ErrorCode.REBALANCE_IN_PROGRESS, "revoked", True),
    (ErrorCode.ILLEGAL_GENERATION, "lost", True),
    (ErrorCode.UNKNOWN_MEMBER_ID, "lost", False),
]


@pytest.mark.parametrize(("code", "what", "same"), REFUSED)
async def test_heartbeat_errors(ground: Ground, code: ErrorCode, what: str, same: bool) -> None:
    """The consumer rejoins and continues at its position; each record is read once."""
    topic, group, notes = ground.name("orders"), ground.name("group"), RecordedCalls()
    ground.create_topic(topic)
    ground.produce(topic, ["before"])
    due: list[ErrorCode] = []

    def forge(request: TappedRequest) -> None:
        if request.api == "Heartbeat" and due:
            request.answer.error_code = due.pop()

    wire = Wire(forge)
    how: dict[str, Any] = {"group": group, "topics": [topic], "assignors": ["range"], "listener": notes}
    how["session_timeout"] = 1.0  # after this time, the broker also removes the member
    async with consumer_at(ground, wire, **how) as consumer:
        assert await values_of(consumer, 1) == ["before"]
        await consumer.commit()
        was = consumer.group_metadata
        due.append(code)
        while notes.calls != [("assigned", 1), (what, 1), ("assigned", 1)]:
            assert await consumer.poll(0.05) == []
        again = next(one for one in wire.of("JoinGroup") if one.answer.generation_id > was.generation_id or not same)
        assert (wire.of("JoinGroup")[-1].body.member_id == was.member_id) == same, again
        ground.produce(topic, ["after"])
        assert await values_of(consumer, 1) == ["after"]


async def test_member_without_a_common_assignor_is_rejected(ground: Ground) -> None:
    topic, group = ground.name("orders"), ground.name("group")
    ground.create_topic(topic)
    how: dict[str, Any] = {"group": group, "topics": [topic]}
    async with consumer_at(ground, **how, assignors=["range"]) as first:
        while not first.assignment:
            await first.poll(0.05)
        async with consumer_at(ground, **how, assignors=["roundrobin"]) as second:
            with pytest.raises(InconsistentGroupProtocol, match="INCONSISTENT_GROUP_PROTOCOL"):
                await second.poll()


async def test_group_authorization_failed(ground: Ground) -> None:
    topic, group = ground.name("orders"), ground.name("group")

    def forge(request: TappedRequest) -> None:
        if request.api == "FindCoordinator":
            request.answer.coordinators[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    async with consumer_at(ground, Wire(forge), group=group, topics=[topic]) as consumer:
        with pytest.raises(
            AuthorizationFailed, match=f"FindCoordinator of group {group} failed: GROUP_AUTHORIZATION_FAILED"
        ):
            await consumer.poll()


async def test_group_chooses_an_unknown_assignor(ground: Ground) -> None:
    topic, group = ground.name("orders"), ground.name("group")
    ground.create_topic(topic)

    def forge(request: TappedRequest) -> None:
        if request.api == "JoinGroup" and not request.answer.error_code:
            request.answer.protocol_name = "weighted"

    async with consumer_at(ground, Wire(forge), group=group, topics=[topic], assignors=["range"]) as consumer:
        with pytest.raises(UnknownAssignor, match="'weighted', but this member supports only range"):
            await consumer.poll()


async def test_find_coordinator_response_with_two_coordinators(ground: Ground) -> None:
    """The poll raises an error, and the next one sends the lookup again."""
    topic, group = ground.name("orders"), ground.name("group")
    ground.create_topic(topic)
    due = [1]

    def forge(request: TappedRequest) -> None:
        if request.api == "FindCoordinator" and due:
            request.answer.coordinators *= 1 + due.pop()

    async with consumer_at(ground, Wire(forge), group=group, topics=[topic]) as consumer:
        with pytest.raises(ConsumerError, match="FindCoordinator returned 2 coordinators"):
            await consumer.poll()
        while not consumer.assignment:
            await consumer.poll(0.05)


async def test_every_broker_finds_the_same_coordinator() -> None:
    """From each bootstrap broker, the consumer finds the same coordinator with one lookup. Only on the mock."""
    with run_cluster(brokers=3, topics={"orders": 1}, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        coordinator = {node.node_id: node.port for node in cluster.nodes}[cluster.coordinator("billing")]
        for node in cluster.nodes:
            wire = Wire()
            async with consumer_at(f"127.0.0.1:{node.port}", wire, group="billing", topics=["orders"]) as consumer:
                while not consumer.assignment:
                    await consumer.poll(0.05)
                await consumer.commit({("orders", 0): 0})
                await consumer.committed(("orders", 0))
                await trio.sleep(3 * QUICK["heartbeat_interval"])
            assert len(wire.of("FindCoordinator")) == 1
            assert {one.port for one in wire.of("JoinGroup") + wire.of("Heartbeat")} == {coordinator}


@pytest.mark.parametrize("busy", range(3))
async def test_lookup_goes_to_the_least_loaded_broker(busy: int) -> None:
    """Of three connected brokers, the consumer asks one of the two without a Fetch in flight."""
    wire, partitions = Wire(), [("orders", number) for number in range(3)]
    with run_cluster(brokers=3, topics={"orders": 3}) as cluster:
        how: dict[str, Any] = {"group": "billing", "partitions": partitions, "fetch_max_wait": 0.5}
        async with consumer_at(cluster.bootstrap_servers, wire, **how) as consumer:
            while len({one.port for one in wire.of("Fetch")}) < 3:
                await consumer.poll(0.05)
            consumer.pause(*(partition for partition in partitions if partition[1] != busy))
            while len(wire.in_flight("Fetch")) != 1:
                await consumer.poll(0.05)
            earlier = wire.in_flight("Fetch")
            while (in_flight := wire.in_flight("Fetch")) in ([], earlier):  # a new Fetch has all of its wait time left
                await consumer.poll(0.01)
            requested = len(wire.requests)
            cluster.move_coordinator("billing", (cluster.coordinator("billing") + 1) % 3)
            await consumer.commit({partitions[0]: 0})
            again = [one for one in wire.requests[requested:] if one.api == "FindCoordinator"]
            assert again
            assert in_flight[0].port not in {one.port for one in again}


async def test_member_removed_during_join_group_rejoins(ground: Ground) -> None:
    """A member that loses its membership during a JoinGroup rejoins, without an error to the user."""
    topic, group = ground.name("orders"), ground.name("group")
    ground.create_topic(topic, 2)
    how: dict[str, Any] = {"group": group, "topics": [topic], "session_timeout": 1.0, "enable_auto_commit": False}
    async with consumer_at(ground, **how) as busy:
        while not busy.assignment:
            await busy.poll(0.05)
        wire = Wire()
        async with consumer_at(ground, wire, **how) as other, trio.open_nursery() as nursery:
            while not any(one.body.member_id for one in wire.requests if one.api == "JoinGroup"):
                await other.poll(0.05)
            other._engine.member.handle_commit_error(ErrorCode.UNKNOWN_MEMBER_ID)  # type: ignore[union-attr]
            nursery.start_soon(polls, busy, [])
            while len(other.assignment) != 1:
                await other.poll(0.05)
            nursery.cancel_scope.cancel()
