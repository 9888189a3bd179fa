"""The player against a scripted server: differences that it must report, and differences that it must ignore."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kwire import FrameBuffer, decode_request, encode_response
from kwire.frames import pack
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.sync_group import SyncGroupResponse
from mockbroker.lab.conform import pace, player
from mockbroker.lab.conform.conversation import Conversation, Step
from mockbroker.lab.conform.player import Player

# How the server reacts to the request of a member: it answers with an error code at once, after some seconds, when
# another member sends its request, or never; or it closes the connection.
Answer = int | tuple[str, float] | str


@asynccontextmanager
async def server(script: Mapping[str, Answer]) -> AsyncIterator[tuple[str, int]]:
    requested: dict[str, trio.Event] = {}

    def event(member: str) -> trio.Event:
        return requested.setdefault(member, trio.Event())

    async def serve(stream: trio.SocketStream) -> None:
        frames = FrameBuffer()
        async with stream, trio.open_nursery() as nursery:
            try:
                async for data in stream:
                    frames.feed(bytes(data))
                    while (frame := frames.next_frame()) is not None:
                        nursery.start_soon(answer, stream, frame, nursery)
            except trio.BrokenResourceError:
                pass
            nursery.cancel_scope.cancel()

    async def answer(stream: trio.SocketStream, frame: bytes, nursery: trio.Nursery) -> None:
        request = decode_request(frame)
        member, error = request.body.member_id, 0
        event(member).set()
        match script.get(member, 0):
            case "close":
                nursery.cancel_scope.cancel()
                return
            case "never":
                return
            case ("after", seconds):
                await trio.sleep(seconds)
            case ("with", other):
                await event(str(other)).wait()
            case int(error):
                pass
        kind = SyncGroupResponse if request.api.name == "SyncGroup" else HeartbeatResponse
        body = kind(error_code=error)
        await stream.send_all(pack(encode_response(body, 0, correlation_id=request.header.correlation_id)))

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        yield "127.0.0.1", listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def ask(n: int, member: str, api: str = "Heartbeat", conn: str = "") -> Step:
    fields = {"group_id": "g", "generation_id": 1, "member_id": member}
    key = {"Heartbeat": 12, "SyncGroup": 14}[api]
    conn = conn or member
    return Step(n=n, event="request", api=api, api_key=key, correlation_id=n, fields=fields, conn=conn)


def got(n: int, to: int, member: str, error: int = 0, api: str = "Heartbeat", **how: Any) -> Step:
    fields: dict[str, Any] = {"error_code": error}
    if api == "SyncGroup":
        fields["assignment"] = ""
    return Step(n=n, event="response", api=api, to=to, conn=member, fields=fields, **how)


def seen(n: int, event: str, member: str = "", **how: Any) -> Step:
    return Step(n=n, event=event, conn=member, **how)


async def play(steps: Sequence[Step], script: Mapping[str, Answer], monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.setattr(player, "RESPONSE_TIMEOUT", 0.4)
    monkeypatch.setattr(pace, "PATIENCE", 0.0)
    monkeypatch.setattr(player, "CLOSE_TIMEOUT", 0.3)
    conversation = Conversation(scenario="s", release="x", doc="", config={}, topics={}, names={}, steps=steps)
    async with server(script) as address:
        difference = await Player(conversation, *address).play()
    return str(difference) if difference else None


def sync(member: str) -> tuple[Step, ...]:
    """Return steps in which the SyncGroup of member A is held until ``member`` sends a SyncGroup."""
    return (
        ask(1, "A", "SyncGroup"),
        ask(2, member, "SyncGroup"),
        got(3, 1, "A", api="SyncGroup", held=True, released_by=2, after_ms=150),
    )


def timer(after_ms: float) -> tuple[Step, ...]:
    return (ask(1, "A", "SyncGroup"), got(2, 1, "A", api="SyncGroup", held=True, after_ms=after_ms))


CASES: list[tuple[Sequence[Step], Mapping[str, Answer], str | None]] = [
    ([ask(1, "A"), got(2, 1, "A")], {}, None),
    ([ask(1, "A"), got(2, 1, "A", 25)], {"A": 25}, None),
    ([ask(1, "A"), got(2, 1, "A", 25)], {}, "step 2 Heartbeat v0 on A: error_code: recorded 25, got 0"),
    ([ask(1, "A"), got(2, 1, "A")], {"A": "never"}, "step 2 Heartbeat v0 on A: no response to step 1"),
    ([ask(1, "A"), got(2, 1, "A")], {"A": "close"}, "step 2 Heartbeat v0 on A: the broker closed the connection"),
    ([ask(1, "A"), seen(2, "no answer yet", "A", to=1, ms=100)], {"A": "never"}, None),
    ([ask(1, "A"), seen(2, "no answer yet", "A", to=1, ms=100)], {}, "step 2 on A: recorded no response to step 1, but got one"),
    ([ask(1, "A"), seen(2, "no answer", "A", to=1, ms=100)], {"A": ("after", 0.05)}, "step 2 on A: recorded no response to step 1"),
    ([ask(1, "A"), seen(2, "broker closed the connection", "A")], {"A": "close"}, None),
    ([ask(1, "A"), seen(2, "broker closed the connection", "A")], {}, "step 2 on A: recorded a closed connection, but the broker has not closed it"),
    ([ask(1, "A"), seen(2, "connection still open", "A", ms=100)], {}, None),
    ([ask(1, "A"), seen(2, "connection still open", "A", ms=100)], {"A": "close"}, "step 2 on A: the broker closed the conn"),
    (sync("B"), {"A": ("with", "B")}, None),  # type: ignore[dict-item]
    (sync("B"), {}, "step 3 SyncGroup v0 on A: answered before step 2"),
    (sync("B"), {"A": "never"}, "step 3 SyncGroup v0 on A: no response to step 1"),
    (timer(500), {"A": ("after", 0.5)}, None),
    (timer(500), {"A": ("after", 0.02)}, "step 2 SyncGroup v0 on A: answered after"),
    (timer(100), {"A": ("after", 0.48)}, None),  # late, as on a busy machine
    ([ask(1, "A"), seen(2, "client closes the connection", "A"), ask(3, "B"), got(4, 3, "B")], {}, None),
    ([seen(1, "note"), seen(2, "wait", ms=20), ask(3, "A"), got(4, 3, "A")], {}, None),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "script", "found"), CASES)
async def test_play(
    steps: Sequence[Step], script: Mapping[str, Answer], found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await play(steps, script, monkeypatch)
    assert result is None if found is None else result is not None and result.startswith(found)


async def test_response_without_a_request_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = bytes.fromhex("0000001b000c000000000063ffff0001670000000100014100")  # a Heartbeat request with a wrong length
    steps = [
        Step(n=1, event="raw bytes", conn="A", data=raw),
        Step(n=2, event="unmatched response", conn="A", data=b"\0\0\0\x63\0\0"),
    ]
    assert await play(steps, {}, monkeypatch) == "step 2 on A: no response"
    whole = raw[4:24]
    steps[0] = Step(n=1, event="raw bytes", conn="A", data=pack(whole))
    assert await play(steps, {}, monkeypatch) is None
    steps[1] = Step(n=2, event="unmatched response", conn="A", data=b"\0\0\0\x63\0\7")
    assert await play(steps, {}, monkeypatch) == "step 2 on A: recorded 000000630007, got 000000630000"


async def test_unknown_api_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [Step(n=1, event="request", api="Later", api_key=9999, conn="A")]
    assert await play(steps, {}, monkeypatch) == "step 1 Later v0 on A: API key 9999 is not supported by kwire"
