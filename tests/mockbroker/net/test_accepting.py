"""New connections that wait or are closed, on sockets. The conversations connections_* test the exact times."""

from __future__ import annotations

from math import nan

import trio
import trio.testing
from tools.served_broker import Peer, ServedBroker, serving

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from mockbroker.quotas.entity import DEFAULT, Entity

HELLO = (ApiVersionsRequest(), 0)
RATE = {"connection_creation_rate": 1.0}
TWO_WINDOWS = {"quota.window.num": 2}


async def connected(served: ServedBroker, number: int) -> list[Peer]:
    """Open connections that are served."""
    peers = [await served.connect() for _ in range(number)]
    for peer in peers:
        await peer.ask(*HELLO)
    return peers


async def waiting(served: ServedBroker) -> Peer:
    """Open a connection that is not served although it has sent a request."""
    peer = await served.connect()
    await peer.send(HELLO)
    for _ in range(3):
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert len(served.server.connections) == len(served.peers) - 1
    return peer


async def test_a_connection_waits_for_a_place():
    async with serving(config={"max.connections": 2}) as served:
        first, _ = await connected(served, 2)
        third = await waiting(served)
        first.reset()
        await third.receive()


async def test_a_connection_waits_until_the_clock_is_advanced():
    async with serving(config={"max.connection.creation.rate": 1, **TWO_WINDOWS}) as served:
        served.server.stop_clock()
        await connected(served, 1)
        second = await waiting(served)
        await served.server.advance(0.999)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(served.server.connections) == 1
        await served.server.advance(0.001)
        await second.receive()


async def test_a_connection_above_a_quota_is_closed_later():
    async with serving(config=TWO_WINDOWS) as served:
        served.broker.quotas.alter(Entity(ip=DEFAULT), RATE, validate_only=False)
        served.server.stop_clock()
        await connected(served, 1)
        second = await waiting(served)
        await served.server.advance(0.9)
        with trio.move_on_after(0.05) as scope:
            await second.closed()
        assert scope.cancelled_caught
        await served.server.advance(0.1)
        assert await second.closed() == b""


async def test_quotas_of_addresses_come_before_the_default():
    async with serving(config=TWO_WINDOWS) as served:
        served.broker.quotas.alter(Entity(ip=DEFAULT), RATE, validate_only=False)
        served.broker.quotas.alter(Entity(ip="127.0.0.1"), {"connection_creation_rate": 9.0}, validate_only=False)
        served.server.stop_clock()
        await connected(served, 9)
        await waiting(served)


async def test_a_quota_of_nan_closes_each_connection_from_the_address():
    async with serving(config=TWO_WINDOWS) as served:
        served.broker.quotas.alter(Entity(ip="127.0.0.1"), {"connection_creation_rate": nan}, validate_only=False)
        served.server.stop_clock()
        peer = await waiting(served)
        await served.server.advance(1)
        assert await peer.closed() == b""


async def test_a_stopped_broker_closes_waiting_connections():
    async with serving(config={"max.connections": 1}) as served:
        await connected(served, 1)
        second = await waiting(served)
        served.server.stop_broker(0, abruptly=False)
        assert await second.closed() == b""


async def test_a_reset_begins_without_connections():
    async with serving(config={"max.connections": 1, "max.connection.creation.rate": 9}) as served:
        await connected(served, 1)
        second = await waiting(served)
        served.server.restart(served.broker)
        await second.receive()
        assert len(served.server.connections) == 1


async def test_the_end_of_the_server_closes_waiting_connections():
    async with serving(config={"max.connections": 1}) as served:
        await connected(served, 1)
        second = await waiting(served)
        peers = served.peers[:]
        served.peers.clear()
    assert await second.closed() == b""
    for peer in peers:
        await peer.stream.aclose()


async def test_an_address_with_too_many_connections_is_logged(caplog):
    async with serving(config={"max.connections.per.ip": 1}) as served:
        await connected(served, 1)
        assert await (await served.connect()).closed() == b""
        assert "connection from 127.0.0.1 closed: the limit max.connections.per.ip of 1 is reached" in caplog.text


async def test_altered_limits_apply_to_waiting_connections():
    async with serving(config={"max.connections": 1}) as served:
        (first,) = await connected(served, 1)
        second = await waiting(served)
        config = IncrementalAlterConfigsRequest.Resource.Config(name="max.connections", value="2")
        brokers = IncrementalAlterConfigsRequest.Resource(resource_type=4, resource_name="", configs=[config])
        await first.ask(IncrementalAlterConfigsRequest(resources=[brokers]), 1)
        await second.receive()
        await waiting(served)
