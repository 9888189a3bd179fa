"""Access to the control API: every rule, tested on sockets."""

from __future__ import annotations

import re

import httpx
import pytest
from starlette.datastructures import Headers
from tools.control_api import Api, control_api

from mockbroker.control.access import SESSIONS_KEPT, Access, name_of
from mockbroker.control.problems import Refused

TOKEN = "s3cret-token"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def place(api: Api) -> str:
    """Return the host and port of the API, in the form that clients send."""
    return api.server.url.removeprefix("http://")


async def test_known_hosts_are_accepted() -> None:
    async with control_api(names=["Box.Example"]) as api:
        port = place(api).partition(":")[2]
        for host in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]", "box.example"):
            for header in (host, f"{host}:{port}"):
                assert await api.status("GET", "/v1/cluster", headers={"Host": header}) == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.", "", "[::2]", "::1"])
async def test_a_foreign_host_is_misdirected(host: str) -> None:
    """After DNS rebinding, a page of evil.example reaches the loopback address, but its requests contain its own host
    name."""
    async with control_api() as api:
        for path in ("/v1/health", "/v1/cluster", "/nowhere"):
            assert await api.status("GET", path, headers={"Host": host}) == 421


async def test_two_hosts_are_misdirected() -> None:
    access = Access("127.0.0.1", 1, None, (), str)
    with pytest.raises(Refused, match="Host") as caught:
        access.check("GET", Headers(raw=[(b"host", b"localhost"), (b"host", b"localhost")]), is_open=True)
    assert caught.value.status == 421


async def test_a_token_allows_any_host() -> None:
    async with control_api(token=TOKEN) as api:
        assert await api.status("GET", "/v1/cluster", headers={"Host": "broker.example", **BEARER}) == 200


WRONG = [{}, {"Authorization": TOKEN}, {"Authorization": "Bearer"}, {"Authorization": "Bearer x"}, {"Cookie": "a=b"}]
WRONG += [{"Authorization": f"Basic {TOKEN}"}, {"Authorization": f"Bearer {TOKEN}x"}]


@pytest.mark.parametrize("headers", WRONG, ids=[str(each) for each in WRONG])
async def test_a_missing_or_wrong_token_is_unauthorized(headers: dict[str, str]) -> None:
    async with control_api(token=TOKEN) as api:
        for method, path in (("GET", "/v1/cluster"), ("POST", "/v1/reset"), ("GET", "/nowhere")):
            response = await api.ask(method, path, headers=headers)
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == 'Bearer realm="mockbroker"'


async def test_the_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda given, wanted: compared.append((given, wanted)) or False)
    async with control_api(token=TOKEN) as api:
        assert await api.status("GET", "/v1/cluster", headers={"Authorization": "Bearer x"}) == 401
    assert [len(given) == len(wanted) for given, wanted in compared] == [True]


async def test_health_needs_no_token() -> None:
    async with control_api(token=TOKEN) as api:
        assert (await api.get("/v1/health"))["status"] == "ok"


async def test_a_session_cookie_replaces_the_token() -> None:
    async with control_api(token=TOKEN) as api:
        assert await api.status("POST", "/v1/session", {"token": "x"}) == 401
        response = await api.ask("POST", "/v1/session", {"token": TOKEN})
        cookie = response.headers["set-cookie"]
        assert re.fullmatch(r"mockbroker_session_\d+=[\w-]{40,}; HttpOnly; SameSite=Strict; Path=/", cookie)
        assert await api.status("GET", "/v1/cluster") == 200  # httpx keeps the cookie
        assert await api.status("DELETE", "/v1/session") == 204
        api.client.cookies.clear()
        assert await api.status("GET", "/v1/cluster", headers={"Cookie": cookie.partition(";")[0]}) == 401


async def test_without_a_token_there_are_no_sessions() -> None:
    async with control_api() as api:
        assert await api.status("POST", "/v1/session", {"token": "x"}) == 409


def test_the_number_of_sessions_is_limited() -> None:
    numbers = iter(range(SESSIONS_KEPT + 1))
    access = Access("127.0.0.1", 1, TOKEN, (), lambda: str(next(numbers)))
    cookies = [access.log_in(TOKEN).partition(";")[0] for _ in range(SESSIONS_KEPT + 1)]
    with pytest.raises(Refused):
        access.check("GET", Headers({"cookie": cookies[0]}), is_open=False)
    access.check("GET", Headers({"cookie": cookies[1]}), is_open=False)


@pytest.mark.parametrize("token", [None, TOKEN])
async def test_a_foreign_origin_is_forbidden(token: str | None) -> None:
    async with control_api(token=token) as api:
        here = place(api)
        foreign = ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1", f"http://{here}.evil"]
        for origin in foreign:
            for method, path in (("GET", "/v1/cluster"), ("POST", "/v1/reset"), ("POST", "/v1/session")):
                assert await api.status(method, path, headers={"Origin": origin, **BEARER}) == 403, origin
        assert await api.status("POST", "/v1/reset", headers={"Origin": f"http://{here}", **BEARER}) == 200


async def test_a_cross_site_post_changes_nothing() -> None:
    """When a form of another site is submitted, the browser sends Origin, or at least Sec-Fetch-Site, and a content
    type that is possible for forms."""
    async with control_api() as api:
        api.cluster.create_topic("mine")
        form = {"Content-Type": "text/plain", "Origin": "http://evil.example"}
        assert await api.status("POST", "/v1/reset", content="{}", headers=form) == 403
        form = {"Content-Type": "text/plain", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert await api.status("POST", "/v1/reset", content="{}", headers=form) == 403
        assert await api.status("POST", "/v1/reset", content="{}", headers={"Content-Type": "text/plain"}) == 415
        assert api.cluster.records("mine") == []


async def test_an_image_of_a_foreign_page_gets_nothing() -> None:
    async with control_api() as api:
        site = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}
        assert await api.status("GET", "/v1/events/stream", headers=site) == 403
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert await api.status("GET", "/v1/cluster", headers=link) == 200


async def test_no_cors_headers() -> None:
    async with control_api() as api:
        preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        for method in ("OPTIONS", "GET"):
            response = await api.ask(method, "/v1/cluster", headers=preflight)
            assert response.status_code == 403
            assert not [name for name in response.headers if name.startswith("access-control")]


async def test_http_2_is_checked_too() -> None:
    """hypercorn also serves HTTP/2 without TLS, where the host name is in a pseudo-header."""
    async with control_api() as api, httpx.AsyncClient(http1=False, http2=True, trust_env=False) as client:
        for host, status in (("evil.example", 421), ("localhost", 200)):
            response = await client.get(f"{api.server.url}/v1/cluster", headers={"Host": host})
            assert (response.http_version, response.status_code) == ("HTTP/2", status)


@pytest.mark.parametrize(
    ("header", "name"), [("A.b:1", "a.b"), ("a", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("::1", "")]
)
def test_name_in_a_host_header(header: str, name: str) -> None:
    assert name_of(header) == name
