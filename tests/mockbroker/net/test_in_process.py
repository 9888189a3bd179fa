"""Clients without a socket, and whole rebalances of scripted members in virtual time, exact to the second."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from tools.group_members import ClassicMember, ConsumerMember, Timing
from tools.in_process_members import InProcessTransport

from kwire import EncodeError
from kwire import ErrorCode as E
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.produce import ProduceRequest
from mockbroker import Cluster, open_cluster
from mockbroker.net.in_process import ConnectionClosedError

DAY = 86_400.0
# mockbroker waits for JoinGroups that are on their way, which would lead to times that differ from Kafka's.
EXACT = {"mockbroker.join.settle.ms": 0}


def happened(cluster: Cluster, *events: str) -> list[tuple[float, str]]:
    return [(event.time_ms / 1000, event.event) for event in cluster.events() if event.event in events]


def fetch(wait: float) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=round(wait * 1000),
        min_bytes=1,
        max_bytes=1_000_000,
        topics=[
            FetchRequest.Topic(
                topic="t", partitions=[FetchRequest.Topic.Partition(partition=0, partition_max_bytes=100_000)]
            )
        ],
    )


# --- in-process connections -------------------------------------------------------------------------------------


async def test_in_process_requests_get_responses(autojump_clock):
    async with open_cluster(brokers=2, first_node=3) as cluster:
        line = cluster.connect(4, "me")
        answer = await line.ask(ApiVersionsRequest(client_software_name="me", client_software_version="1"))
        assert answer.error_code == E.NONE
        await line.ask(ListGroupsRequest(), 2)
        seen = [(request.api, request.version, request.client_id, request.node) for request in cluster.requests()]
        assert seen == [("ApiVersions", 4, "me", 4), ("ListGroups", 2, "me", 4)]
        await cluster.connect().ask(ListGroupsRequest())
        assert cluster.requests()[-1].node == 3


async def test_there_is_no_such_broker():
    async with open_cluster() as cluster:
        with pytest.raises(ValueError, match=r"broker 7 does not exist; the broker ids are 0"):
            cluster.connect(7)


@pytest.mark.parametrize("brokers", [1, 2])
async def test_a_stopped_broker_refuses_connections(brokers):
    async with open_cluster(brokers=brokers) as cluster:
        cluster.kill_broker(0)
        with pytest.raises(ConnectionClosedError, match="broker 0 is not running"):
            await cluster.connect(0).ask(ListGroupsRequest())
        cluster.start_broker(0)
        assert (await cluster.connect(0).ask(ListGroupsRequest())).error_code == E.NONE


async def test_a_version_that_is_not_served_hangs_up(autojump_clock):
    async with open_cluster() as cluster:
        line = cluster.connect()
        with pytest.raises(ConnectionClosedError, match="Fetch v3 is not in the ApiVersions response"):
            await line.ask(FetchRequest(), 3)
        with pytest.raises(ConnectionClosedError):
            await line.ask(ListGroupsRequest())


async def test_unencodable_request_is_not_sent(autojump_clock):
    async with open_cluster() as cluster:
        line = cluster.connect()
        with pytest.raises(EncodeError):
            await line.ask(ListGroupsRequest(states_filter=["Stable"]), 1)
        assert (await line.ask(ListGroupsRequest())).error_code == E.NONE


async def test_a_fetch_waits_in_virtual_time_and_wakes_for_records(autojump_clock):
    async with open_cluster(topics={"t": 1}) as cluster, trio.open_nursery() as nursery:
        line = cluster.connect()
        began = trio.current_time()
        await line.ask(fetch(500.0), 12)
        assert trio.current_time() - began == pytest.approx(500.0, abs=1e-6)

        async def write() -> None:
            await trio.sleep(7.0)
            cluster.produce("t", ["tea"])

        nursery.start_soon(write)
        began = trio.current_time()
        answer = await line.ask(fetch(500.0), 12)
        assert answer.responses[0].partitions[0].records
        assert trio.current_time() - began == pytest.approx(7.0, abs=1e-6)


async def test_tasks_take_turns_on_one_line(autojump_clock):
    async with open_cluster(topics={"t": 1}) as cluster:
        line = cluster.connect()
        order = []

        async def ask(name: str, request: Any, version: int) -> None:
            await line.ask(request, version)
            order.append((name, round(cluster.clock.now(), 3)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "fetch", fetch(5.0), 12)
            await trio.sleep(1)
            nursery.start_soon(ask, "list", ListGroupsRequest(), 2)
        assert order == [("fetch", 5.0), ("list", 5.0)]


async def test_whoever_is_cancelled_hangs_up(autojump_clock):
    async with open_cluster(topics={"t": 1}) as cluster:
        line = cluster.connect()
        with trio.move_on_after(1):
            await line.ask(fetch(500.0), 12)
        assert not cluster._router.broker.fetch_purgatory.pending
        with pytest.raises(ConnectionClosedError, match="the client has closed"):
            await line.ask(ListGroupsRequest())


async def test_a_reset_ends_every_line(autojump_clock):
    async with open_cluster(topics={"t": 1}) as cluster, trio.open_nursery() as nursery:
        line = cluster.connect()

        async def reset() -> None:
            await trio.sleep(3)
            cluster.reset()

        nursery.start_soon(reset)
        with pytest.raises(ConnectionClosedError, match="closed or reset"):
            await line.ask(fetch(500.0), 12)
        assert (await cluster.connect().ask(ListGroupsRequest())).error_code == E.NONE


async def test_a_produce_without_answer(autojump_clock):
    async with open_cluster(topics={"t": 1}) as cluster:
        line = cluster.connect()
        assert await line.ask(ProduceRequest(acks=0, timeout_ms=1), 9, answered=False) is None
        assert (await line.ask(ListGroupsRequest())).error_code == E.NONE


# --- whole rebalances -------------------------------------------------------------------------------------------


async def test_three_members_with_default_timeouts(autojump_clock):
    """The initial delay of 3 s is extended once, because other members join in it. Then all get partitions at once."""
    async with open_cluster(topics={"t": 6}, config=EXACT) as cluster, trio.open_nursery() as nursery:
        transport = InProcessTransport(cluster, nursery)
        members = [ClassicMember(transport, name) for name in "abc"]
        for member in members:
            member.start()
        group = await cluster.wait_group("g", members=3)
        assert group.generation == 1
        await trio.sleep(1)
        assert happened(cluster, "rebalance", "generation") == [(0.0, "rebalance"), (6.0, "generation")]
        assert [at for member in members for at, _ in member.assignments] == [6.0, 6.0, 6.0]
        assert sorted(n for member in members for n in member.assignments[0].partitions) == [0, 1, 2, 3, 4, 5]
        await trio.sleep(DAY / 24)  # heartbeats keep the group stable
        assert happened(cluster, "expire", "generation") == [(6.0, "generation")]
        nursery.cancel_scope.cancel()


async def test_a_member_that_falls_silent(autojump_clock):
    """b's session of 45 s begins with its last heartbeat, at 18 s. The next heartbeat of a returns the rebalance."""
    async with open_cluster(topics={"t": 6}, config=EXACT) as cluster, trio.open_nursery() as nursery:
        transport = InProcessTransport(cluster, nursery)
        a, b = ClassicMember(transport, "a"), ClassicMember(transport, "b")
        a.start()
        b.start()
        await trio.sleep(19.5)
        b.stop()
        await trio.sleep(60)
        assert happened(cluster, "expire") == [(18.0 + 45, "expire")]
        ((at, share),) = a.assignments[1:]
        assert at in (63.0, 66.0)  # a also sends a heartbeat at 63 s, before or after the session expires
        assert share == [0, 1, 2, 3, 4, 5]
        nursery.cancel_scope.cancel()


async def test_a_slow_joiner_is_out_at_the_rebalance_timeout(autojump_clock):
    """b learns from a heartbeat that c has left, and rejoins later than the rebalance timeout of 5 minutes allows."""
    async with open_cluster(topics={"t": 6}, config=EXACT) as cluster, trio.open_nursery() as nursery:
        transport = InProcessTransport(cluster, nursery)
        a, c = ClassicMember(transport, "a"), ClassicMember(transport, "c")
        b = ClassicMember(transport, "b", timing=Timing(slow=400.0, session=1_000.0))
        for member in (a, b, c):
            member.start()
        await trio.sleep(20)
        c.leave()
        await trio.sleep(301)
        assert happened(cluster, "leave", "expire", "generation")[1:] == [
            (20.0, "leave"),
            (320.0, "expire"),
            (320.0, "generation"),
        ]
        assert [member.client_id for member in cluster.groups()["g"].members] == ["a"]
        assert a.assignments[-1] == (320.0, [0, 1, 2, 3, 4, 5])
        await cluster.wait_group("g", members=2, timeout=1_000)
        assert b.errors == [
            (21.0, "Heartbeat", "REBALANCE_IN_PROGRESS"),
            (421.0, "JoinGroup", "UNKNOWN_MEMBER_ID"),
        ]
        nursery.cancel_scope.cancel()


async def test_a_static_member_bounces(autojump_clock):
    """The member is away for 44 s of its session of 45 s, and no rebalance begins."""
    async with open_cluster(topics={"t": 6}, config=EXACT) as cluster, trio.open_nursery() as nursery:
        transport = InProcessTransport(cluster, nursery)
        a, b = ClassicMember(transport, "a"), ClassicMember(transport, "b", instance="b1")
        a.start()
        b.start()
        await trio.sleep(19.5)  # b's last heartbeat was at 18 s
        b.stop()
        await trio.sleep(18 + 44 - 19.5)
        back = ClassicMember(transport, "b", instance="b1")
        back.start()
        await trio.sleep(100)
        assert back.assignments == [(62.0, b.assignments[0].partitions)]
        assert happened(cluster, "generation", "expire") == [(6.0, "generation")]
        nursery.cancel_scope.cancel()


async def test_a_static_member_that_stays_away_longer(autojump_clock):
    async with open_cluster(topics={"t": 6}, config=EXACT) as cluster, trio.open_nursery() as nursery:
        b = ClassicMember(InProcessTransport(cluster, nursery), "b", instance="b1")
        b.start()
        await trio.sleep(7.5)
        b.stop()
        await cluster.wait_group("g", state="Empty", timeout=100)
        assert happened(cluster, "expire") == [(pytest.approx(6.0 + 45, abs=3.0), "expire")]
        nursery.cancel_scope.cancel()


async def test_a_group_of_the_consumer_protocol_revokes(autojump_clock):
    """a revokes half of its partitions only after 20 s. b gets them with its next heartbeat after that."""
    async with open_cluster(topics={"t": 4}) as cluster, trio.open_nursery() as nursery:
        transport = InProcessTransport(cluster, nursery)
        a, b = ConsumerMember(transport, "a", timing=Timing(slow=20.0)), ConsumerMember(transport, "b")
        a.start()
        await trio.sleep(1)
        assert a.assignments == [(0.0, [0, 1, 2, 3])]
        b.start()
        await trio.sleep(100)
        assert a.assignments[1:] == [(25.0, [0, 1])]  # the heartbeat at 5 s returned this target
        assert [owned for _, owned in b.assignments][-1] == [2, 3]
        assert b.assignments[-1][0] == 26.0  # b sends heartbeats at 1, 6, ... 26 s
        nursery.cancel_scope.cancel()


async def test_offsets_are_kept_for_seven_days(autojump_clock):
    """The retention time begins when the group is empty. The broker checks every 10 minutes."""
    async with open_cluster(topics={"t": 1}, config=EXACT) as cluster, trio.open_nursery() as nursery:
        transport = InProcessTransport(cluster, nursery)
        a = ClassicMember(transport, "a")
        a.start()
        await trio.sleep(100)
        assert await transport.commit(a, 5) == E.NONE
        a.stop()
        await trio.sleep(DAY)
        emptied = happened(cluster, "empty")[0][0]
        await trio.sleep(6 * DAY + 60)
        assert cluster.committed("g") == {("t", 0): 5}
        await trio.sleep(600)
        assert cluster.committed("g") == {}
        assert emptied == 100.0 + 45  # a commit renews the session
        assert happened(cluster, "offset_expire", "delete") == [
            (7 * DAY + 600, "offset_expire"),
            (7 * DAY + 600, "delete"),
        ]
