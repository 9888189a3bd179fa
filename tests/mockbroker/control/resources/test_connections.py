"""Connections of clients."""

from __future__ import annotations

import trio
from tools.control_api import control_api
from tools.served_broker import Peer

from kwire.messages.api_versions import ApiVersionsRequest


async def test_connections_are_listed_and_closed() -> None:
    async with control_api() as api:
        port = api.cluster.nodes[0].port
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            peer = Peer(stream)
            await peer.ask(ApiVersionsRequest(), 0)
            page = await api.get("/v1/connections")
            (found,) = page["items"]
            assert (found["client_id"], found["requests"], found["broker"]) == ("peer", 1, 0)
            assert (found["listener"], found["principal"]) == ("PLAINTEXT", "User:ANONYMOUS")
            assert await api.status("DELETE", f"/v1/connections/{found['id']}?reset=true") == 204
            assert await peer.closed() == b""
            assert await api.status("DELETE", f"/v1/connections/{found['id']}") == 404
        assert await api.status("DELETE", "/v1/connections/x") == 404
        assert await api.get("/v1/connections") == {"items": [], "next": None}
