"""Connections in the document of the live page."""

from __future__ import annotations

import pytest
from tools.control_api import control_api
from tools.state_slices import refresh

from kwire.messages.api_versions import ApiVersionsRequest
from mockbroker.control.page import connections
from mockbroker.control.page.document import StateDocument


async def test_connections_open_send_requests_and_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS", 2)
    async with control_api() as api:
        state = StateDocument(api.server.control)
        refresh(state)
        clients = [api.cluster.connect(client_id=f"c{number}") for number in range(3)]
        for client in clients:
            await client.ask(ApiVersionsRequest(), 0)
        listed = {str(each["id"]): each for each in (await api.get("/v1/connections"))["items"]}
        first, second, _ = listed
        assert refresh(state)["connections"] == {first: listed[first], second: listed[second]}
        assert state.content["left_out"] == {"connections": 1}
        await clients[1].ask(ApiVersionsRequest(), 0)
        assert refresh(state)["connections"] == {second: {"requests": 2}}
        await api.ask("DELETE", f"/v1/connections/{first}")
        assert refresh(state)["connections"][first] is None
        assert "left_out" in state.content
