"""The HTML page itself, and its access rules."""

from __future__ import annotations

import httpx
import pytest
from tools.control_api import Api, control_api
from tools.page_html import Page

from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.sync_group import SyncGroupRequest

TOKEN = "s3cret-token"
HOSTILE = "</script><script>alert(1)</script>\x1b[2J\u202e"
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"


async def join(api: Api, group: str, client_id: str) -> None:
    """Join a group whose protocol type is not consumer, so that its assignment can be any bytes."""
    connection = api.cluster.connect(client_id=client_id)
    protocols = [JoinGroupRequest.Protocol(name=client_id, metadata=b"\xff")]
    timeouts = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}
    request = JoinGroupRequest(group_id=group, protocol_type="consumer", protocols=protocols, **timeouts)
    joined = await connection.ask(request, 3)
    assignments = [SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=b"\0\0\xff")]
    await connection.ask(
        SyncGroupRequest(group_id=group, generation_id=1, member_id=joined.member_id, assignments=assignments), 3
    )


async def get(api: Api, headers: dict[str, str] | None = None, query: str = "") -> httpx.Response:
    response = await api.ask("GET", f"/{query}", headers=headers or {})
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["cache-control"] == "no-store"
    return response


@pytest.mark.parametrize("query", ["", "?group=g&at=5", "?x&x&%00"])
async def test_the_page_shows_groups_without_javascript(query: str) -> None:
    async with control_api() as api:
        await join(api, "payments", "client-1")
        texts = Page((await get(api, query=query)).text).texts
    assert {"payments", "client-1", "t"} <= set(texts)


async def test_hostile_names_of_clients_stay_text() -> None:
    async with control_api() as api:
        await api.post(
            "/v1/faults", {"match": {"api": "Heartbeat", "group": HOSTILE}, "action": {"disconnect": "after"}}
        )
        await join(api, HOSTILE, HOSTILE)
        html = (await get(api)).text
    page = Page(html)
    assert [attributes for name, attributes in page.elements if name == "script"] == [
        {"type": "module", "src": "/page/app.js"}
    ]
    assert html.count("alert(1)") >= 4
    assert html.replace("\n", "").isprintable()


async def test_a_browser_without_session_gets_the_login_form() -> None:
    async with control_api(token=TOKEN) as api:
        await join(api, "payments", "c")
        response = await get(api)
        assert response.status_code == 200
        page = Page(response.text)
        assert ("form", {"id": "login", "method": "post", "action": "/v1/session"}) in page.elements
        assert "payments" not in response.text
        assert await api.status("POST", "/v1/session", {"token": "wrong"}) == 401
        cookie = (await api.ask("POST", "/v1/session", {"token": TOKEN})).headers["set-cookie"].partition(";")[0]
        assert "payments" in (await get(api, {"Cookie": cookie})).text
        assert "payments" in (await get(api, {"Authorization": f"Bearer {TOKEN}"})).text


async def test_a_foreign_host_gets_no_page() -> None:
    async with control_api() as api:
        for path in ("/", "/page/app.js"):
            assert await api.status("GET", path, headers={"Host": "evil.example"}) == 421


async def test_a_link_on_another_site_opens_the_page() -> None:
    navigation = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    async with control_api() as api:
        assert (await get(api, navigation)).status_code == 200
        assert await api.status("GET", "/", headers={**navigation, "Sec-Fetch-Mode": "no-cors"}) == 403
