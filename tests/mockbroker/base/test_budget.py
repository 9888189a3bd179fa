"""Limits for all clients together: unfinished requests, unread responses, pending member ids, transactional ids."""

from __future__ import annotations

import socket
import struct

import pytest
import trio.testing
from tools.broker_harness import BrokerHarness
from tools.served_broker import Peer, ServedBroker, serving

from kwire import ErrorCode as E
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.base.budget import Budget
from mockbroker.base.settings import NO_LIMIT

HELLO = (ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3)
MIB = 1 << 20


@pytest.fixture
def clock() -> trio.testing.MockClock:
    return trio.testing.MockClock(autojump_threshold=0.02)


# --- the total ---------------------------------------------------------------------------------------------------


def test_total_is_the_sum_of_all_connections():
    budget = Budget("bytes", "a.setting", 100)
    for connection, size in [(1, 60), (2, 40), (1, 70), (3, 10), (2, 0), (3, 10)]:
        budget.hold(connection, size)
    assert (budget.total, budget.exceeded) == (80, False)
    budget.hold(4, 21)
    assert (budget.exceeded, budget.largest()) == (True, 1)
    assert budget.closing_reason(1) == ("it holds the most bytes: 70 of 101 on all connections, above a.setting (100)")


def test_no_limit_is_never_exceeded():
    budget = Budget("bytes", "a.setting", NO_LIMIT)
    budget.hold(1, 10**12)
    assert not budget.exceeded


# --- requests that are not complete ------------------------------------------------------------------------------


def held(place: ServedBroker) -> list[int]:
    return sorted(connection.requests.buffered for connection in place.server.connections.values())


async def begin(place: ServedBroker, size: int) -> Peer:
    """Connect a peer that sends this number of bytes of a request of 100 MB, and then stops."""
    peer = await place.connect()
    await peer.stream.send_all(struct.pack(">i", 100_000_000) + bytes(size - 4))
    return peer


async def test_unfinished_requests_above_the_limit_close_the_largest(clock, caplog):
    async with serving(config={"queued.max.request.bytes": MIB}) as place:
        small = await begin(place, 100_000)
        await place.until(lambda: held(place) == [100_000])
        large = await begin(place, 700_000)
        await place.until(lambda: held(place) == [100_000, 700_000])
        assert caplog.records == []
        last = await begin(place, 300_000)
        assert await large.closed() == b""
        await place.until(lambda: held(place) == [100_000, 300_000])
        (record,) = caplog.records
        assert "the most bytes of unfinished requests: 700000 of 1" in record.getMessage()
        assert record.getMessage().endswith("above queued.max.request.bytes (1048576)")
        assert (await (await place.connect()).ask(*HELLO)).error_code == E.NONE
        small.reset()
        last.reset()
        await place.until(lambda: len(place.server.connections) == 1)
        assert place.server.pump.requests.total == 0


async def test_requests_that_are_complete_count_no_more(clock, caplog):
    async with serving(config={"queued.max.request.bytes": 100_000}) as place:
        peer = await place.connect()
        for _ in range(5):
            await peer.send(*[HELLO] * 2_000)
            for _ in range(2_000):
                await peer.receive()
        assert caplog.records == []
        assert place.server.pump.requests.total == 0


# --- responses that are not read ---------------------------------------------------------------------------------


def fetch() -> tuple[FetchRequest, int]:
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=10**8)
    return FetchRequest(
        min_bytes=1, max_bytes=10**8, topics=[FetchRequest.Topic(topic="t", partitions=[partition])]
    ), 11


def fill(place: ServedBroker) -> None:
    """Append one record of 9 MiB, which is more than the buffers of a connection hold."""
    batch = read_batch(build_batch([Record(value=bytes(9 * MIB))]))
    place.broker.cluster.topics["t"].partitions[0].log.append(batch, 0)


async def reluctant(place: ServedBroker) -> Peer:
    """Connect a peer with a small receive buffer."""
    peer = await place.connect()
    peer.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    return peer


async def test_unread_responses_above_the_limit_close_the_largest(clock, caplog):
    limit = 12 * MIB
    async with serving(config={"mockbroker.queued.max.response.bytes": limit}) as place:
        fill(place)
        requested = 0
        while not caplog.records and requested < 50:  # the buffers of the operating system hold a part of each response
            peer = await reluctant(place)
            total = place.server.pump.responses.total
            await peer.send(fetch())
            requested += 1
            await place.until(lambda total=total: caplog.records or place.server.pump.responses.total != total)
        await place.until(lambda: len(place.server.connections) == requested - 1)
        assert 2 < requested < 50
        assert place.server.pump.responses.total <= limit
        (record,) = caplog.records
        assert "it holds the most bytes of unread responses" in record.getMessage()
        assert record.getMessage().endswith("above mockbroker.queued.max.response.bytes (12582912)")
        assert (await (await place.connect()).ask(*HELLO)).error_code == E.NONE


async def test_a_connection_with_unsent_responses_is_not_read(clock):
    async with serving() as place:
        fill(place)
        peer = await reluctant(place)
        await peer.send(fetch())
        await place.until(lambda: any(connection.draining for connection in place.server.connections.values()))
        await peer.send(HELLO, HELLO)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert held(place) == [0]
        assert len((await peer.receive()).responses[0].partitions[0].records) > 9 * MIB
        assert (await peer.receive()).error_code == E.NONE
        assert (await peer.receive()).error_code == E.NONE
        assert place.server.pump.responses.total == 0


# --- member ids and transactional ids ----------------------------------------------------------------------------


def test_pending_member_ids_have_a_limit_over_all_groups():
    harness = BrokerHarness(config={"mockbroker.max.pending.members": 3})
    given = [harness.ask(harness.join(group), 5) for group in ("a", "a", "b")]
    assert {answer.error_code for answer in given} == {E.MEMBER_ID_REQUIRED}
    refused = harness.ask(harness.join("c"), 5)
    assert (refused.error_code, refused.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    assert "c" not in harness.broker.groups


WAYS = ["join", "leave", "expire", "delete the group"]


@pytest.mark.parametrize("way", WAYS)
def test_pending_member_id_counts_until_used_or_expired(way):
    harness = BrokerHarness(config={"mockbroker.max.pending.members": 1})
    member_id = harness.ask(harness.join("a"), 5).member_id
    assert harness.ask(harness.join("a"), 5).error_code == E.GROUP_MAX_SIZE_REACHED
    match way:
        case "join":
            assert harness.ask(harness.join("a", member_id), 5).error_code == E.NONE
        case "leave":
            harness.ask(LeaveGroupRequest(group_id="a", members=[LeaveGroupRequest.Member(member_id=member_id)]), 5)
        case "expire":
            harness.wait(10.0)
        case "delete the group":
            assert harness.ask(DeleteGroupsRequest(groups_names=["a"]), 2).results[0].error_code == E.NONE
    assert harness.broker.groups.context.pending_member_count == 0
    assert harness.ask(harness.join("b"), 5).error_code == E.MEMBER_ID_REQUIRED


def test_static_members_and_old_clients_need_no_pending_id():
    harness = BrokerHarness(config={"mockbroker.max.pending.members": 1})
    harness.ask(harness.join("a"), 5)
    assert harness.ask(harness.join("b", instance_id="i"), 5).error_code == E.NONE
    assert harness.ask(harness.join("c"), 3).error_code == E.NONE


def test_transactional_ids_have_a_limit():
    harness = BrokerHarness(config={"mockbroker.max.transactional.ids": 2})

    def init(name: str) -> int:
        return harness.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1_000), 5).error_code

    assert [init(name) for name in ("a", "b", "c", "a", "c")] == [
        E.NONE,
        E.NONE,
        E.POLICY_VIOLATION,
        E.NONE,
        E.POLICY_VIOLATION,
    ]
