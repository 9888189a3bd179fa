"""The open connections of a cluster, and how an administrator closes them."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
import trio
from tools.served_broker import Peer

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from mockbroker import Cluster, ConnectionClosedError, UnknownConnectionError, open_cluster
from mockbroker.api.connections import selected
from mockbroker.base.texts import LISTED


async def connect(cluster: Cluster, node: int = 0) -> Peer:
    where = cluster.nodes[node]
    peer = Peer(await trio.open_tcp_stream(where.host, where.port))
    await peer.ask(ApiVersionsRequest(), 0)
    return peer


async def test_connections_are_listed_with_their_clients() -> None:
    async with open_cluster(brokers=2) as cluster:
        before = time.time()
        assert cluster.connections() == {}
        peer = await connect(cluster, 1)
        inside = cluster.connect(0, client_id="inside")
        await inside.ask(ApiVersionsRequest())
        await inside.ask(ApiVersionsRequest())
        one, other = cluster.connections().values()
        host, port = peer.stream.socket.getsockname()
        assert (one.address, one.broker, one.listener, one.requests) == (f"{host}:{port}", 1, "PLAINTEXT", 1)
        assert (other.address, other.broker, other.requests) == (f"in-process client {other.connection_id}", 0, 2)
        assert (other.client_id, other.principal) == ("inside", "User:ANONYMOUS")
        assert before - 1 <= one.since_ms / 1000 <= other.since_ms / 1000 <= time.time() + 1
        assert list(cluster.connections()) == [one.connection_id, other.connection_id]
        await peer.stream.aclose()


async def test_principal_after_sasl() -> None:
    async with open_cluster(listeners=["SASL_PLAINTEXT"], users={"alice": "secret"}) as cluster:
        where = cluster.nodes[0]
        peer = Peer(await trio.open_tcp_stream(where.host, where.port))
        await peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        (connection,) = cluster.connections().values()
        assert connection.principal == "User:ANONYMOUS"
        await peer.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 1)
        (connection,) = cluster.connections().values()
        assert (connection.principal, connection.listener) == ("User:alice", "SASL_PLAINTEXT")
        await peer.stream.aclose()


async def test_disconnected_client_reads_the_end_of_the_stream() -> None:
    async with open_cluster() as cluster:
        peer, other = await connect(cluster), await connect(cluster)
        number = next(iter(cluster.connections()))
        assert cluster.disconnect(number) == 1
        assert await peer.stream.receive_some() == b""
        assert list(cluster.connections()) != [number]
        await other.ask(ApiVersionsRequest(), 0)
        with pytest.raises(UnknownConnectionError, match=f"connection {number} is not open"):
            cluster.disconnect(number)
        await peer.stream.aclose()
        await other.stream.aclose()


@pytest.mark.parametrize(
    ("count", "listed"), [(0, "none"), (2, "0, 1"), (LISTED, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"), (LISTED + 1, "8, 9, ...")]
)
def test_error_names_the_first_open_connections(count: int, listed: str) -> None:
    existing: Any = dict.fromkeys(range(count))
    with pytest.raises(UnknownConnectionError, match=f"connection 77 is not open; open connections: (.*, )?{listed}$"):
        selected(existing, 77, None)


async def test_reset_client_gets_an_error() -> None:
    async with open_cluster() as cluster:
        peer = await connect(cluster)
        cluster.disconnect(next(iter(cluster.connections())), reset=True)
        with pytest.raises(trio.BrokenResourceError):
            await peer.stream.receive_some()
        assert peer.stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        await peer.stream.aclose()


async def test_disconnected_by_client_id() -> None:
    async with open_cluster() as cluster:
        clients = {name: cluster.connect(client_id=name) for name in ("billing-1", "billing-2", "audit")}
        for client in clients.values():
            await client.ask(ApiVersionsRequest())
        assert cluster.disconnect(client_id="nobody*") == 0
        assert cluster.disconnect(client_id="billing-*") == 2
        assert [name for name, client in clients.items() if not client.closed] == ["audit"]
        assert clients["billing-1"].closed == "an administrator has closed the connection"
        with pytest.raises(ConnectionClosedError):
            await clients["billing-2"].ask(ApiVersionsRequest())


async def test_pending_join_of_a_disconnected_client_stays() -> None:
    async with open_cluster(config={"group.initial.rebalance.delay.ms": 60_000}, clock="manual") as cluster:
        inside = cluster.connect()
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
        )
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _() -> None:
                with pytest.raises(ConnectionClosedError):
                    await inside.ask(join, 3)

            await cluster.wait_group("g", "PreparingRebalance")
            cluster.disconnect(client_id="inside")
        assert len(cluster.groups()["g"].members) == 1


@pytest.mark.parametrize(("number", "client_id"), [(None, None), (1, "x")])
async def test_disconnect_needs_one_choice(number: int | None, client_id: str | None) -> None:
    async with open_cluster() as cluster:
        with pytest.raises(ValueError, match="pass one of them"):
            cluster.disconnect(number, client_id=client_id)
