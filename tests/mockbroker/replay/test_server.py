"""A replay on sockets, in the Trio run of the test."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from golden import ROOT
from open_files import open_files, opened_since

from kwire import ErrorCode, decode_response, encode_request
from kwire.apikeys import ApiKey
from kwire.capture import Call, read
from kwire.frames import PREFIX, FrameBuffer, pack
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.schema import ZERO_UUID
from mockbroker.api.cluster import open_cluster
from mockbroker.replay.clock import ReplayClock
from mockbroker.replay.player import Player
from mockbroker.replay.script import Script
from mockbroker.replay.server import Options, Otherwise, Replay, speed_of

RECORDING = ROOT / "fixtures" / "recordings" / "kafka-python__mockbroker.jsonl"
UNKNOWN = HeartbeatRequest(group_id="unknown", generation_id=1, member_id="m")


@asynccontextmanager
async def replaying(options: Options, *, stopped: bool = False) -> AsyncIterator[tuple[Replay, trio.SocketStream]]:
    """Yield a replay, and a connection to its first broker."""
    script = Script.of(item for item in read(RECORDING) if isinstance(item, Call))
    replay = Replay(script, options, "127.0.0.1", 0, "127.0.0.1")
    async with replay.running(ReplayClock(0.0, stopped=stopped)), await connect(replay) as stream:
        yield replay, stream


async def connect(replay: Replay) -> trio.SocketStream:
    """Return a connection to the first broker."""
    host, _, port = replay.bootstrap_servers.split(",")[0].partition(":")
    return await trio.open_tcp_stream(host, int(port))


async def ask(stream: trio.SocketStream, request: Any, version: int, number: int = 7, client_id: str = "reader") -> Any:
    """Return the response to a request; None if the connection is closed."""
    await stream.send_all(pack(encode_request(request, version, correlation_id=number, client_id=client_id)))
    data = b""
    with trio.fail_after(20):
        while len(data) < PREFIX.size or len(data) < PREFIX.size + PREFIX.unpack_from(data)[0]:
            more = await stream.receive_some()
            if not more:
                return None
            data += more
    response = decode_response(data[PREFIX.size :], request.__kafka__.api.key, version)
    assert response.header.correlation_id == number
    return response.body


def orders() -> MetadataRequest:
    topics = [MetadataRequest.Topic(topic_id=ZERO_UUID, name="orders")]
    return MetadataRequest(topics=topics)


async def test_responses_have_the_addresses_of_the_replay() -> None:
    async with replaying(Options(speed=speed_of("max"))) as (replay, stream):
        body = await ask(stream, orders(), 13)
        assert ",".join(f"{each.host}:{each.port}" for each in body.brokers) == replay.bootstrap_servers
        assert [topic.name for topic in body.topics] == ["orders"]
        assert replay.journal.events == []


async def test_unknown_versions_of_api_versions_get_version_0() -> None:
    async with replaying(Options()) as (_, stream):
        frame = ApiKey.API_VERSIONS.to_bytes(2, "big") + bytes.fromhex("0063 00000005 ffff 00")
        await stream.send_all(pack(frame))
        data = await stream.receive_some()
        body = decode_response(bytes(data[4:]), ApiKey.API_VERSIONS, 99).body
        assert body.error_code == 35
        assert [(each.api_key, each.max_version) for each in body.api_keys] == [(ApiKey.API_VERSIONS, 4)]


@pytest.mark.parametrize(("otherwise", "error"), [(Otherwise.ERROR, -1), (Otherwise.MOCK, 25), (Otherwise.CLOSE, None)])
async def test_what_follows_a_departure(
    otherwise: Otherwise, error: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with replaying(Options(otherwise, speed_of("max"))) as (replay, stream):
        body = await ask(stream, UNKNOWN, 4)
        assert (body and body.error_code) == error
        assert caplog.messages == ["client reader has left the recording: Heartbeat v4 is not in the recording"]
        (event,) = replay.journal.events
        assert (event.event, event.group, event.client, event.member_id, event.reason) == (
            "departure", "unknown", "reader", "m", "Heartbeat v4 is not in the recording"
        )  # fmt: skip
        if otherwise is Otherwise.MOCK:
            body = await ask(stream, orders(), 12)
            assert ",".join(f"{each.host}:{each.port}" for each in body.brokers) == replay.bootstrap_servers
            assert [(topic.name, len(topic.partitions)) for topic in body.topics] == [("orders", 2)]


CLIENTS = 20


def close(stream: trio.SocketStream) -> None:
    stream.socket.close()


def reset(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


async def wait_for_tasks(number: int) -> None:
    """Wait until at most this number of tasks remains."""
    with trio.fail_after(20):
        while trio.lowlevel.current_statistics().tasks_living > number:
            await trio.testing.wait_all_tasks_blocked(0.001)


@pytest.mark.parametrize("leave", [close, reset])
@pytest.mark.parametrize("pending", [1, 2], ids=["one request", "a second request"])
async def test_client_that_leaves_during_a_delay_is_forgotten(
    leave: Callable[[trio.SocketStream], None], pending: int
) -> None:
    async with replaying(Options(), stopped=True) as (replay, _):
        await trio.testing.wait_all_tasks_blocked(0.001)
        tasks, files = trio.lowlevel.current_statistics().tasks_living, open_files()
        for _ in range(CLIENTS):
            stream = await connect(replay)
            await stream.send_all(pending * pack(encode_request(orders(), 13, correlation_id=7, client_id="reader")))
            await trio.testing.wait_all_tasks_blocked(0.001)
            leave(stream)
        await wait_for_tasks(tasks)
        assert not opened_since(files)


async def test_half_closed_client_gets_its_responses_at_once() -> None:
    async with replaying(Options(), stopped=True) as (_, stream):
        frame = pack(encode_request(orders(), 13, correlation_id=7, client_id="reader"))
        await stream.send_all(2 * frame)
        await trio.testing.wait_all_tasks_blocked(0.001)
        await stream.send_eof()
        with trio.fail_after(20):
            received = FrameBuffer()
            async for data in stream:
                received.feed(bytes(data))
        bodies = [decode_response(received.next_frame() or b"", ApiKey.METADATA, 13).body for _ in range(2)]
        assert [[topic.name for topic in body.topics] for body in bodies] == [["orders"]] * 2


async def test_client_that_leaves_the_mock_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    mock = partial(open_cluster, config={"group.initial.rebalance.delay.ms": "0"})
    monkeypatch.setattr("mockbroker.replay.server.open_cluster", mock)

    def join(group_id: str) -> JoinGroupRequest:
        protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
        return JoinGroupRequest(
            group_id=group_id, session_timeout_ms=60_000, rebalance_timeout_ms=300_000, member_id="",
            protocol_type="consumer", protocols=[protocol],
        )  # fmt: skip

    async with replaying(Options(Otherwise.MOCK, speed_of("max"))) as (replay, stream):
        group_id = "g"
        while (await ask(stream, join(group_id), 3)).error_code == ErrorCode.NOT_COORDINATOR:  # v3 is not recorded
            group_id += "g"
        await trio.testing.wait_all_tasks_blocked(0.001)
        tasks, files = trio.lowlevel.current_statistics().tasks_living, open_files()
        for _ in range(CLIENTS):
            other = await connect(replay)
            await other.send_all(pack(encode_request(join(group_id), 3, correlation_id=7, client_id="reader")))
            await trio.testing.wait_all_tasks_blocked(0.001)  # the first member does not rejoin
            await other.aclose()
        await wait_for_tasks(tasks)
        assert not opened_since(files)


async def test_number_of_departed_clients_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mockbroker.replay.server.MAX_DEPARTED", 2)
    async with replaying(Options(Otherwise.MOCK, speed_of("max"))) as (replay, stream):
        for client_id in ("a", "b", "c"):
            await ask(stream, UNKNOWN, 4, client_id=client_id)
        departures = [event.client for event in replay.journal.events]
        assert departures == ["a", "b", "c"]
        for client_id in ("b", "c", "a"):
            await ask(stream, UNKNOWN, 4, client_id=client_id)
        assert [event.client for event in replay.journal.events[3:]] == ["a"]


async def test_a_negative_max_wait_ms_does_not_wait() -> None:
    async with replaying(Options()) as (_, stream):
        fetch = FetchRequest(max_wait_ms=-5, session_epoch=-1, topics=[])
        assert (await ask(stream, fetch, 12)).responses == []


async def test_internal_error_ends_one_connection(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replaying(Options(speed=speed_of("max"))) as (replay, stream):
        with monkeypatch.context() as player:
            player.setattr(Player, "answer", lambda *_: 1 / 0)
            assert await ask(stream, orders(), 13) is None
        async with await connect(replay) as other:
            assert (await ask(other, orders(), 13)).brokers
        assert caplog.messages == ["connection closed: internal error"]


@pytest.mark.parametrize(
    ("nodes", "port", "message"),
    [
        ([0, 2**31 - 1], 0, r"broker ids 0 and 2147483647 are too far apart for a mock cluster, .* 500 brokers"),
        ([1, 501], 0, "broker ids 1 and 501 are too far apart"),
        ([1, 2], 65_535, r"port 65535 is out of range \(0-65534 for 2 brokers\)"),
    ],
    ids=["largest id", "ids too far apart", "port"],
)
def test_brokers_that_cannot_be_opened_are_refused(nodes: list[int], port: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Replay(Script(nodes=nodes), Options(Otherwise.MOCK), "127.0.0.1", port, "127.0.0.1")


@pytest.mark.parametrize("text", ["0", "-1", "fast", "nan"])
def test_a_speed_is_a_positive_number(text: str) -> None:
    with pytest.raises(ValueError, match=f"{text} is not a valid speed: use a number above 0, or max"):
        speed_of(text)
