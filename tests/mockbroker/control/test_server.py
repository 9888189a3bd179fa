"""The HTTP server next to the Kafka listeners: its limits, its failures, and how it stops."""

from __future__ import annotations

import pytest
import trio
from tools.control_api import PATIENCE, control_api

from mockbroker.control import server


async def test_the_number_of_connections_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SPARE", 0)
    async with control_api(config={"mockbroker.http.max.waiters": 1, "mockbroker.http.max.streams": 1}) as api:
        port = int(api.server.url.rpartition(":")[2])
        streams = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(3)]
        with trio.fail_after(PATIENCE):
            assert await streams[2].receive_some(1) == b""
        for stream in streams:
            await stream.aclose()
        with trio.fail_after(PATIENCE):
            while api.server.connection_count:
                await trio.sleep(0.001)
        assert await api.status("GET", "/v1/health") == 200


async def test_a_failed_connection_ends_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with control_api() as api:
        assert await api.status("GET", "/v1/health") == 200  # a connection that stays open
        with monkeypatch.context() as patch:

            def broken(*_: object) -> None:
                raise ZeroDivisionError

            patch.setattr(server, "_Connection", broken)
            async with await trio.open_tcp_stream("127.0.0.1", int(api.server.url.rpartition(":")[2])) as stream:
                with trio.fail_after(PATIENCE):
                    assert await stream.receive_some(1) == b""
        assert "ZeroDivisionError" in caplog.text
        assert await api.status("GET", "/v1/health") == 200


async def test_a_failed_listener_is_restarted_and_brokers_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "RESTART_PAUSE", 0.01)
    attempts = []
    serve_listeners = trio.serve_listeners

    async def failing(*arguments: object, **options: object) -> None:
        attempts.append(1)
        if len(attempts) < 3:
            raise OSError("broken")
        await serve_listeners(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(trio, "serve_listeners", failing)
    async with control_api() as api:
        assert await api.status("GET", "/v1/health") == 200
        assert len(attempts) == 3
        assert caplog.text.count("the control API raised an exception (failure") == 2


async def test_after_too_many_failures_only_brokers_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "RESTART_PAUSE", 0.0)

    async def failing(*_: object, **__: object) -> None:
        raise OSError("broken")

    monkeypatch.setattr(trio, "serve_listeners", failing)
    async with control_api() as api:
        with trio.fail_after(PATIENCE):
            while "has stopped after 4 failures" not in caplog.text:
                await trio.sleep(0.001)
        api.cluster.create_topic("alive")


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("0.0.0.0", "127.0.0.1")])
async def test_the_url_can_be_used_on_this_machine(host: str, shown: str) -> None:
    try:
        async with control_api(host=host, token="t" if host == "0.0.0.0" else None) as api:
            assert api.server.url.startswith(f"http://{shown}:")
            assert await api.status("GET", "/v1/health") == 200
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")


async def test_idle_connections_end_at_once_when_the_server_stops() -> None:
    async with control_api() as api:
        assert await api.status("GET", "/v1/health") == 200
        api.server.stop()
        with trio.fail_after(0.5):
            await api.server.stopped.wait()
