"""The broker's clock alone, and clusters whose clock is stopped, advanced and resumed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from math import inf
from typing import Any

import pytest
import trio
from plain_client import PlainClient
from tools.served_broker import Peer

from kwire import ErrorCode as E
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker import SettingsError, open_cluster, run_cluster
from mockbroker.net.clock import BrokerTime

DAY = 86_400.0
QUICK = {"group.initial.rebalance.delay.ms": 0}
LIMIT = 30.0  # seconds until a test fails


# --- the clock alone ---------------------------------------------------------------------------------------------


async def test_untouched_clock_is_trios(mock_clock):
    clock = BrokerTime()
    assert clock.read is trio.current_time
    assert clock.real
    assert clock.running
    assert (clock.when(7.0), clock.client_time(7.0)) == (7.0, 7.0)


async def test_stopped_clock_resumes_where_it_stopped(mock_clock):
    clock = BrokerTime()
    mock_clock.jump(10)
    clock.stop()
    mock_clock.jump(5)
    assert (clock.read(), clock.running) == (10.0, False)
    assert [clock.when(at) for at in (9.0, 10.0, 10.1)] == [-inf, -inf, inf]
    assert clock.client_time(10.0) == 15.0
    clock.stop()  # a second call has no effect
    clock.resume()
    mock_clock.jump(1)
    assert (clock.read(), clock.when(12.0), clock.running) == (11.0, 17.0, True)
    clock.resume()
    assert clock.read() == 11.0


async def test_stopped_or_running_clock_is_moved(mock_clock):
    clock = BrokerTime(stopped=True)
    clock.move_to(45.0)
    mock_clock.jump(1)
    assert clock.read() == 45.0
    clock.resume()
    clock.move_to(100.0)
    mock_clock.jump(1)
    assert (clock.read(), clock.when(101.0)) == (101.0, 2.0)
    clock.restart(stopped=False)
    assert clock.read is trio.current_time


# --- the clock of a cluster ------------------------------------------------------------------------------------


def join(group: str = "g", member_id: str = "", session: float = 45.0, rebalance: float = 60.0) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=round(session * 1000),
        rebalance_timeout_ms=round(rebalance * 1000),
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
    )


@pytest.fixture
async def connect() -> AsyncIterator[Any]:
    """Return a function that connects to a cluster; its connections are closed at the end."""
    peers = []

    async def connected(cluster: Any) -> Peer:
        peers.append(Peer(await trio.open_tcp_stream("127.0.0.1", cluster.nodes[0].port)))
        return peers[-1]

    yield connected
    for peer in peers:
        peer.stream.socket.close()


def event_times(events: Any) -> list[Any]:
    return [(event.time_ms / 1000, event.event, event.group) for event in events]


async def test_session_expires_at_its_deadline_of_a_manual_clock(connect):
    async with open_cluster(clock="manual", config=QUICK) as cluster:
        peer = await connect(cluster)
        answer = await peer.ask(join(), 3)
        assert not cluster.clock.running
        assert (cluster.clock.now(), cluster.groups()["g"].state) == (0.0, "CompletingRebalance")
        assert await cluster.clock.advance(44.0) == []
        beat = HeartbeatRequest(group_id="g", member_id=answer.member_id, generation_id=1)
        assert (await peer.ask(beat, 3)).error_code == E.NONE  # at 44 s
        assert event_times(await cluster.clock.advance(45.0)) == [
            (60.0, "expire", "g"),  # the member never sent SyncGroup
            (60.0, "rebalance", "g"),
            (60.0, "empty", "g"),
        ]
        assert cluster.clock.now() == 89.0
        assert (await peer.ask(beat, 3)).error_code == E.UNKNOWN_MEMBER_ID


async def test_one_advance_runs_deadlines_set_by_deadlines():
    """The initial delay ends at 3 s and is extended to 6 s. Members that do not sync are removed 60 s later. Requests
    sent before the step are handled first, also those of connections that are not accepted yet."""
    async with open_cluster(clock="manual") as cluster:
        with PlainClient(cluster.bootstrap_servers) as one, PlainClient(cluster.bootstrap_servers) as other:
            one.send(join(session=100.0), 3)
            other.send(join(session=100.0), 3)
            assert cluster.events() == []
            events = await cluster.clock.advance(100.0)
            assert [each[:2] for each in event_times(events)] == [
                (0.0, "join"),
                (0.0, "rebalance"),
                (0.0, "join"),
                (6.0, "generation"),
                (66.0, "expire"),
                (66.0, "expire"),
                (66.0, "rebalance"),
                (66.0, "empty"),
            ]
            assert {one.answer().error_code, other.answer().error_code} == {E.NONE}


async def test_stopped_clock_does_not_delay_a_join(connect):
    """The settle time of groups does not use the broker's clock."""
    async with open_cluster(clock="manual", config=QUICK) as cluster:
        peer = await connect(cluster)
        assert (await peer.ask(join(), 3)).generation_id == 1


async def test_stopping_the_clock_ends_the_settle_time(connect):
    async with open_cluster(config=QUICK | {"mockbroker.join.settle.ms": 60_000}) as cluster:
        peer = await connect(cluster)
        await peer.send((join(session=600.0, rebalance=600.0), 3))
        with trio.fail_after(LIMIT):
            while not cluster.groups():
                await trio.sleep(0)
        cluster.clock.stop()
        assert [event.event for event in cluster.events()] == ["join", "rebalance", "generation"]
        assert (await peer.receive()).error_code == E.NONE


async def test_fetch_waits_in_client_time(connect):
    async with open_cluster(clock="manual", topics={"t": 1}) as cluster:
        peer = await connect(cluster)
        wanted = FetchRequest.Topic(
            topic="t", partitions=[FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1_000)]
        )
        fetch = FetchRequest(max_wait_ms=200, min_bytes=1, max_bytes=1_000, topics=[wanted])
        began = trio.current_time()
        answer = await peer.ask(fetch, 12)
        assert 0.2 <= trio.current_time() - began < LIMIT
        assert answer.responses[0].partitions[0].records == b""
        await peer.send((fetch, 12))
        await cluster.clock.advance(3_600.0)
        began = trio.current_time()
        await peer.receive()
        assert cluster.clock.now() == 3_600.0


async def test_running_clock_is_advanced_and_keeps_running(connect):
    async with open_cluster(config=QUICK) as cluster:
        clock = cluster.clock
        peer = await connect(cluster)
        await peer.ask(join(), 3)
        assert [event.event for event in await clock.advance(45.0)] == ["expire", "rebalance", "empty"]
        assert clock.running
        first = clock.now()
        assert first >= 45.0
        await trio.sleep(0.01)
        assert clock.now() > first
        clock.stop()
        stood = clock.now()
        await trio.sleep(0.01)
        assert clock.now() == stood
        clock.resume()
        await trio.sleep(0.01)
        assert stood < clock.now() < stood + LIMIT


async def test_deadline_runs_after_the_clock_resumes(connect):
    async with open_cluster(clock="manual", config=QUICK | {"group.min.session.timeout.ms": 10}) as cluster:
        peer = await connect(cluster)
        await peer.ask(join(session=0.1, rebalance=0.1), 3)
        await cluster.clock.advance(0.05)
        await trio.sleep(0.2)
        assert cluster.groups()["g"].members
        cluster.clock.resume()
        group = await cluster.wait_group("g", state="Empty")
        assert not group.members


async def test_steps_add_up_to_the_deadline(connect):
    """Trio's time may begin at any value, and sums of fractions of a second are rounded."""
    for _ in range(20):
        async with open_cluster(clock="manual", config=QUICK) as cluster:
            peer = await connect(cluster)
            await peer.ask(join(session=6.3, rebalance=600.0), 3)
            happened = [event.event for _ in range(63) for event in await cluster.clock.advance(0.1)]
            assert happened == ["expire", "rebalance", "empty"]
            assert cluster.clock.now() == 6.3


@pytest.mark.parametrize("seconds", [-0.001, inf, float("nan"), 1e12])
async def test_advance_refuses_negative_and_huge_steps(seconds):
    async with open_cluster(clock="manual") as cluster:
        with pytest.raises(ValueError, match=r"cannot advance the clock by .* s: expected 0 to 315360000 s"):
            await cluster.clock.advance(seconds)
        assert cluster.clock.now() == 0.0


async def commit(peer: Any, group: str = "g", offset: int = 5, topic: str = "t") -> None:
    wanted = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset)
    answer = await peer.ask(
        OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequest.Topic(name=topic, partitions=[wanted])]), 7
    )
    assert answer.topics[0].partitions[0].error_code == E.NONE


async def test_offsets_expire_after_seven_days_of_broker_time(connect):
    async with open_cluster(clock="manual", topics={"t": 1}) as cluster:
        began = cluster.clock.wall()
        peer = await connect(cluster)
        await commit(peer)
        assert await cluster.clock.advance(7 * DAY - 1) == []
        events = await cluster.clock.advance(1)
        assert event_times(events) == [(7 * DAY, "offset_expire", "g"), (7 * DAY, "delete", "g")]
        assert cluster.clock.wall() - began == pytest.approx(7 * DAY)
        cluster.produce("t", ["tea"])
        (record,) = cluster.records("t")
        assert record.timestamp == pytest.approx(round((began + 7 * DAY) * 1000), abs=1)


@pytest.mark.parametrize("every_ms", [1, 777, 600_000])
async def test_long_advance_checks_offsets_only_where_some_expire(every_ms, monkeypatch, connect):
    """Each offset expires at the same check as if no checks had been skipped."""
    config = {"offsets.retention.check.interval.ms": every_ms, "offsets.retention.minutes": 1_000}
    async with open_cluster(clock="manual", topics={"t": 1, "u": 1}, config=config) as cluster:
        peer = await connect(cluster)
        await commit(peer, "one")
        await cluster.clock.advance(10.0)
        await commit(peer, "other")
        groups = cluster._router.broker.groups
        looks, sweep = [], groups.delete_expired_offsets
        monkeypatch.setattr(groups, "delete_expired_offsets", lambda now: looks.append(now) or sweep(now))
        events = await cluster.clock.advance(365 * DAY)
        due = {"one": 60_000.0, "other": 60_010.0}
        every = every_ms / 1000
        for event in events:
            assert due[event.group] <= event.time_ms / 1000 + 0.001
            assert event.time_ms / 1000 < due[event.group] + every + 0.002
        assert [(event.event, event.group) for event in events] == [
            ("offset_expire", "one"),
            ("delete", "one"),
            ("offset_expire", "other"),
            ("delete", "other"),
        ]
        assert {event.group for event in events} == {"one", "other"}
        assert len(looks) < 10


async def test_reset_restarts_the_clock(connect):
    async with open_cluster(clock="manual", config=QUICK) as cluster:
        await cluster.clock.advance(1_000.0)
        cluster.clock.resume()
        cluster.reset()
        assert (cluster.clock.now(), cluster.clock.running) == (0.0, False)
        peer = await connect(cluster)
        await peer.ask(join(), 3)
        assert cluster.events()[0].time_ms == 0
        cluster.start_over({}, {})
        assert cluster.clock.running
        cluster.start_over({}, {}, clock="manual")
        assert not cluster.clock.running


async def test_unknown_clock_is_refused():
    with pytest.raises(SettingsError, match="clock 'sundial' is unknown: expected one of real, manual"):
        async with open_cluster(clock="sundial"):
            pass


def test_clock_of_a_thread_cluster():
    with run_cluster(clock="manual", config=QUICK) as cluster, PlainClient(cluster.bootstrap_servers) as client:
        clock = cluster.clock
        client.join("g")
        assert (clock.now(), clock.running) == (0.0, False)
        began = clock.wall()
        assert [event.event for event in clock.advance(30.0)] == ["expire", "rebalance", "empty"]
        assert clock.wall() - began == pytest.approx(30.0)
        with pytest.raises(ValueError, match=r"cannot advance the clock by .* s: expected 0 to 315360000 s"):
            clock.advance(-1)
        clock.resume()
        assert clock.running
        clock.stop()
        assert clock.now() >= 30.0


@pytest.mark.kafka(clock="manual")
def test_clock_by_the_pytest_mark(kafka_cluster):
    assert not kafka_cluster.clock.running


def test_clock_by_the_cluster_factory(kafka_cluster, kafka_cluster_factory):
    assert kafka_cluster.clock.running
    assert not kafka_cluster_factory(clock="manual").clock.running
