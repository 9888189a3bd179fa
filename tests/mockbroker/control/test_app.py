"""Checks of a request that apply to every route, and their status codes."""

from __future__ import annotations

import httpx
import pytest
import trio
from tools.control_api import Api, control_api

from mockbroker.control import app
from mockbroker.control.resources import server

JSON = {"Content-Type": "application/json"}
MALFORMED = [
    '{"mode":',
    "{'mode': 1}",
    "",
    b"\xff",
    '{"mode": NaN}',
    '{"advance_ms": Infinity}',
    "[" * 200_000,
    "1" * 5_000,
]


@pytest.mark.parametrize("content", [each for each in MALFORMED if each], ids=lambda each: repr(each[:12]))
async def test_malformed_json_is_a_bad_request(content: str | bytes) -> None:
    async with control_api() as api:
        assert await api.status("POST", "/v1/clock", content=content, headers=JSON) == 400


async def test_deep_json_that_can_be_parsed_is_refused_by_its_shape() -> None:
    async with control_api() as api:
        assert (
            await api.status("POST", "/v1/clock", content='{"mode":' + "[" * 500 + "]" * 500 + "}", headers=JSON) == 422
        )


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "a/b", ""])
async def test_other_bodies_than_json_are_unsupported(kind: str) -> None:
    async with control_api() as api:
        headers = {"Content-Type": kind} if kind else {}
        assert await api.status("POST", "/v1/clock", content='{"mode": "real"}', headers=headers) == 415
        headers = {"Content-Type": "Application/JSON; charset=utf-8"}
        assert await api.status("POST", "/v1/clock", content='{"mode": "real"}', headers=headers) == 200


POST = b"POST /v1/clock HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


async def test_a_body_over_a_mebibyte_is_too_large() -> None:
    async with control_api() as api:
        assert b" 413 " in await raw(api, POST + b"Content-Length: %d\r\n\r\n" % (app.MAX_BODY + 1))
        chunk = b"%x\r\n%s\r\n" % (65_536, b" " * 65_536)
        assert b" 413 " in await raw(api, POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 17)
        assert await api.status("POST", "/v1/clock", content=b" " * app.MAX_BODY, headers=JSON) == 400


async def test_a_body_that_does_not_arrive_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "BODY_TIMEOUT", 0.05)
    async with control_api() as api:
        port = int(api.server.url.rpartition(":")[2])
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(
                b"POST /v1/clock HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
            )
            with trio.fail_after(30):
                assert (await stream.receive_some(100)).startswith(b"HTTP/1.1 408")


IMPOSSIBLE = [  # path and query, body, errors
    ("/v1/clock", {"mode": "fast"}, [("mode", ["real", "manual"])]),
    ("/v1/clock", {"mod": "real"}, [("mod", ["mode", "advance_ms"])]),
    ("/v1/clock", {"advance_ms": -1}, [("advance_ms", ["0 to 315360000000"])]),
    ("/v1/clock", {"advance_ms": True}, [("advance_ms", [])]),
    ("/v1/clock", {}, [("", ["mode", "advance_ms"])]),
    ("/v1/clock", {"mode": "real", "advance_ms": 1}, [("", ["mode", "advance_ms"])]),
    ("/v1/clock", [], [("", [])]),
    ("/v1/reset", {"hard": True}, [("hard", [])]),
    ("/v1/reset?now=1", None, [("now", [])]),
]


@pytest.mark.parametrize(("path", "body", "errors"), IMPOSSIBLE)
async def test_valid_json_that_cannot_be(path: str, body: object, errors: list[tuple[str, list[str]]]) -> None:
    async with control_api() as api:
        response = await api.ask("POST", path, body)
        assert response.status_code == 422
        assert [(error["path"], error["possible"]) for error in response.json()["errors"]] == errors
        assert all(error["detail"] for error in response.json()["errors"])


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "after=-1", "limit=1&limit=2", "kind=nothing", "a=b"]
)
async def test_an_impossible_parameter(query: str) -> None:
    async with control_api() as api:
        assert await api.status("GET", f"/v1/events?{query}") == 422
        many = "&".join(f"p{number}=1" for number in range(101))
        assert await api.status("GET", f"/v1/events?{many}") == 400


@pytest.mark.parametrize("path", ["/x", "/v1", "/v1/", "/v1/cluster/", "/v1/nothing", "//v1/cluster", "/v1%2Fcluster"])
async def test_an_unknown_path_is_not_found(path: str) -> None:
    async with control_api() as api:
        assert await api.status("GET", path) == 404


async def test_another_method_is_not_allowed() -> None:
    async with control_api() as api:
        response = await api.ask("PUT", "/v1/clock")
        assert (response.status_code, response.headers["allow"]) == (405, "GET, POST")
        assert (await api.client.head("/v1/clock")).status_code == 200
        assert (await api.client.head("/v1/groups/g/wait")).status_code == 405
        with trio.fail_after(5):  # the response of a stream would not end
            assert (await api.client.head("/v1/events/stream")).status_code == 405
        assert await api.status("OPTIONS", "/v1/clock") == 405


async def test_what_this_server_cannot_do_is_a_conflict() -> None:
    async with control_api() as api:
        api.server.control.capabilities = ("events",)
        assert await api.status("POST", "/v1/reset") == 409
        assert (await api.get("/v1/health"))["capabilities"] == ["events"]


async def test_requests_while_stopping_are_unavailable() -> None:
    async with control_api() as api:
        assert await api.status("GET", "/v1/health") == 200  # the connection stays open
        api.server.control.stopping.set()
        response = await api.ask("GET", "/v1/health")
        assert (response.status_code, response.headers["connection"]) == (503, "close")


async def test_a_bug_is_an_answer_and_not_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async with control_api() as api:
        monkeypatch.setattr(server, "brokers", broken)
        response = await api.client.get("/v1/cluster")
        assert response.status_code == 500
        assert response.json()["detail"] == "the control API has a bug: see the log of mockbroker"
        assert "ZeroDivisionError" in caplog.text
        assert await api.status("GET", "/v1/health") == 200


async def test_errors_are_problem_details() -> None:
    async with control_api() as api:
        response = await api.ask("GET", "/v1/groups/none")
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json() == {
            "type": "about:blank",
            "title": "Not Found",
            "status": 404,
            "detail": "group 'none' does not exist; existing groups: none",
        }


async def test_web_sockets_are_refused() -> None:
    async with control_api() as api:
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        response = await api.client.get(
            "/v1/health", headers={**upgrade, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        )
        assert response.status_code == 403


async def test_responses_are_data_for_browsers() -> None:
    async with control_api() as api:
        for path in ("/v1/cluster", "/nowhere"):
            headers = (await api.ask("GET", path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert headers["cache-control"] == "no-store"


async def raw(api: Api, request: bytes) -> bytes:
    """Send bytes, and return the first bytes of the response."""
    async with await trio.open_tcp_stream("127.0.0.1", int(api.server.url.rpartition(":")[2])) as stream:
        await stream.send_all(request)
        with trio.fail_after(30):
            return bytes(await stream.receive_some(1_000))


@pytest.mark.parametrize(
    "request_line", [b"GET http://evil/v1/health HTTP/1.1", b"GET /v1/\xff HTTP/1.1", b"GET * HTTP/1.1"]
)
async def test_strange_request_lines_are_errors(request_line: bytes) -> None:
    async with control_api() as api:
        answer = await raw(api, request_line + b"\r\nHost: localhost\r\n\r\n")
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 404"))
        assert await api.status("GET", "/v1/health") == 200


async def test_a_request_without_host_is_misdirected() -> None:
    async with control_api() as api:
        assert b" 421 " in await raw(api, b"GET /v1/health HTTP/1.0\r\n\r\n")


async def test_garbage_ends_only_its_connection() -> None:
    async with control_api() as api:
        for garbage in (
            b"\x16\x03\x01\x02\x00\x01\x00",
            b"\x00" * 100 + b"\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff" * 9,
        ):
            with pytest.raises((trio.TooSlowError, httpx.HTTPError, AssertionError, OSError, trio.BrokenResourceError)):
                with trio.fail_after(0.3):
                    assert (await raw(api, garbage)).startswith(b"HTTP/1.1 2")
        assert await api.status("GET", "/v1/health") == 200
