"""The server on real loopback sockets: order, invalid input, slow and vanished peers, and a clean shutdown."""

from __future__ import annotations

import errno
import logging
import socket
import struct
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing
from open_files import open_files, opened_since
from tools.served_broker import PATIENCE, Peer, serving

from kwire import ErrorCode as E
from kwire import encode_request
from kwire.frames import pack
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.base.release import TELEMETRY
from mockbroker.broker.handlers import HANDLERS
from mockbroker.broker.handlers.handler import Handler
from mockbroker.net.bound_listeners import BACK_OFF
from mockbroker.net.pump import WRITE_AHEAD
from mockbroker.net.sockets import CHECK_INTERVAL, FRAME_TIMEOUT, READ_AHEAD, READ_SIZE, SEND_TIMEOUT
from mockbroker.share.sessions import ShareSessions

HELLO = (ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3)
BEAT = (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)
SLOW = {"group.initial.rebalance.delay.ms": 3_000}
JOIN = (
    JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"m")],
    ),
    3,
)


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """Return a clock that jumps when nothing has happened for a moment, so that bytes can cross the loopback."""
    return trio.testing.MockClock(autojump_threshold=0.02)


def fetch(wait: int = 0, limit: int = 10**7) -> tuple[Any, int]:
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=limit)
    topics = [FetchRequest.Topic(topic="t", partitions=[partition])]
    return FetchRequest(max_wait_ms=wait, min_bytes=1, max_bytes=limit, topics=topics), 11


def fill(place: Any, size: int) -> None:
    """Append one record of this size to partition 0 of ``t``."""
    batch = read_batch(build_batch([Record(value=bytes(size))]))
    place.broker.cluster.topics["t"].partitions[0].log.append(batch, 0)


def connection(place: Any) -> Any:
    (found,) = place.server.connections.values()
    return found


# --- order -------------------------------------------------------------------------------------------------------


async def test_thousand_requests_in_one_segment():
    async with serving() as place:
        peer = await place.connect()
        await peer.send(*[BEAT] * 1_000)
        for _ in range(1_000):
            assert (await peer.receive()).error_code == E.UNKNOWN_MEMBER_ID
        assert peer.side.in_flight == 0


async def test_answers_of_different_size_keep_their_order():
    async with serving() as place:
        fill(place, 300_000)
        peer = await place.connect()
        await peer.send(fetch(), BEAT, fetch(), HELLO, fetch())
        kinds = [type(await peer.receive()).__name__ for _ in range(5)]
        assert kinds == ["FetchResponse", "HeartbeatResponse", "FetchResponse", "ApiVersionsResponse", "FetchResponse"]


async def test_pending_join_blocks_its_own_connection_only(clock):
    async with serving(config=SLOW) as place:
        first, second = await place.connect(), await place.connect()
        begin = trio.current_time()
        await first.send(JOIN, BEAT)
        assert await first.silent(1.0)
        await second.ask(*BEAT)
        assert trio.current_time() - begin == pytest.approx(1.0)
        joined, beat = await first.receive(), await first.receive()
        assert (joined.error_code, beat.error_code) == (E.NONE, E.UNKNOWN_MEMBER_ID)
        assert trio.current_time() - begin == pytest.approx(3.0)


async def test_requests_that_arrive_byte_by_byte():
    async with serving() as place:
        peer = await place.connect()
        for byte in peer.side.send(*HELLO) + peer.side.send(*BEAT):
            await peer.stream.send_all(bytes([byte]))
        assert (await peer.receive()).error_code == E.NONE
        assert (await peer.receive()).error_code == E.UNKNOWN_MEMBER_ID


async def test_frames_and_a_half():
    async with serving() as place:
        peer = await place.connect()
        data = b"".join(peer.side.send(*BEAT) for _ in range(3))
        await peer.stream.send_all(data[:-7])
        await peer.receive()
        await peer.receive()
        await peer.stream.send_all(data[-7:])
        await peer.receive()


async def test_produce_with_acks_0_is_not_answered():
    async with serving() as place:
        peer = await place.connect()
        data = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
        silent = ProduceRequest(
            acks=0, timeout_ms=0, topic_data=[ProduceRequest.Topic(name="t", partition_data=[data])]
        )
        unanswered = peer.side.send(silent, 7, answered=False)
        await peer.stream.send_all(unanswered + peer.side.send(*BEAT))
        assert (await peer.receive()).error_code == E.UNKNOWN_MEMBER_ID
        assert place.broker.cluster.topics["t"].partitions[0].log.end == 1


async def test_a_produce_releases_a_fetch_of_another_connection(clock):
    async with serving() as place:
        reader, writer = await place.connect(), await place.connect()
        await reader.send(fetch(wait=10_000), BEAT)
        assert await reader.silent(1.0)
        data = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
        topics = [ProduceRequest.Topic(name="t", partition_data=[data])]
        await writer.ask(ProduceRequest(acks=1, timeout_ms=0, topic_data=topics), 7)
        assert (await reader.receive()).responses[0].partitions[0].high_watermark == 1
        assert (await reader.receive()).error_code == E.UNKNOWN_MEMBER_ID  # the next request is handled
        assert trio.current_time() < 2.0


# --- bad input ---------------------------------------------------------------------------------------------------

BAD = [  # bytes, expected text of the only log line
    pytest.param(struct.pack(">i", -1) + b"\0" * 8, "frame length -1 is negative", id="negative length"),
    pytest.param(struct.pack(">i", 2**31 - 1), "is above the limit of 104857600", id="length 2^31-1"),
    pytest.param(struct.pack(">i", 104_857_601), "is above the limit of 104857600", id="length one above the limit"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", "this looks like an HTTP request", id="HTTP request"),
    pytest.param(
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "this looks like a TLS handshake", id="TLS handshake"
    ),
    pytest.param(b"SSH-2.0-OpenSSH_9.9\r\n", "this looks like an SSH client", id="SSH client"),
    pytest.param(b"PROXY TCP4 127.0.0.1 ", "this looks like a PROXY protocol header", id="PROXY protocol header"),
    pytest.param(pack(b""), "expected 4 bytes of API key and version, found 0", id="empty frame"),
    pytest.param(pack(b"\0" * 3), "expected 4 bytes of API key and version, found 3", id="frame of 3 bytes"),
    pytest.param(pack(struct.pack(">hhih", 999, 0, 1, -1)), "unknown API key 999", id="unknown API key"),
    pytest.param(
        pack(struct.pack(">hhih", 3, 99, 1, -1)),
        "Metadata has no version 99: its versions are 0-13",
        id="unknown version",
    ),
    pytest.param(
        pack(struct.pack(">hhih", 0, 1, 1, -1)),
        "Produce v1 is not in the ApiVersions response of this broker: use a supported version",
        id="removed version",
    ),
    pytest.param(
        pack(encode_request(*JOIN, correlation_id=1)[:-3]),
        "JoinGroupRequest v3 at byte 44, protocols[0].metadata",
        id="truncated body",
    ),
    pytest.param(
        pack(struct.pack(">hhihh", 12, 0, 1, -1, -1) + b"\0\0\0\1\0\1m"),
        "HeartbeatRequest v0 at byte 10, group_id",
        id="null in a non-nullable field",
    ),
]


@pytest.mark.parametrize(("data", "text"), BAD)
async def test_closed_with_one_line(caplog, data, text):
    caplog.set_level(logging.INFO, "mockbroker")
    async with serving() as place:
        bad, good = await place.connect(), await place.connect()
        await bad.stream.send_all(data)
        assert await bad.closed() == b""
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert text in caplog.text
        assert "closed" in caplog.text
        assert (await good.ask(*HELLO)).error_code == E.NONE
        assert place.broker.groups == {}
        assert len(place.server.connections) == 1


async def test_requests_before_a_malformed_frame_are_answered():
    async with serving() as place:
        peer = await place.connect()
        await peer.stream.send_all(peer.side.send(*BEAT) + b"GET / HTTP/1.1\r\n")
        assert (await peer.receive()).error_code == E.UNKNOWN_MEMBER_ID
        assert await peer.closed() == b""


async def test_unserved_api_versions_then_a_served_one():
    async with serving() as place:
        peer = await place.connect()
        await peer.stream.send_all(pack(struct.pack(">hhihb", 18, 127, 1, -1, 0)))
        with trio.fail_after(PATIENCE):
            data = await peer.stream.receive_some(100)
        assert data == bytes.fromhex("00000010 00000001 0023 00000001 0012 0000 0004")
        assert len((await peer.ask(ApiVersionsRequest(), 0)).api_keys) == len(HANDLERS.keys() - TELEMETRY)


async def test_announced_frame_of_100_mib_is_not_allocated():
    async with serving() as place:
        tracemalloc.start()
        try:
            for _ in range(200):
                peer = await place.connect()
                await peer.stream.send_all(struct.pack(">i", 104_857_600) + bytes(1_000))
            await place.until(
                lambda: sum(c.requests.buffered for c in place.server.connections.values()) == 200 * 1_004
            )
            assert tracemalloc.get_traced_memory()[1] < 20_000_000
        finally:
            tracemalloc.stop()
        assert (await (await place.connect()).ask(*HELLO)).error_code == E.NONE


# --- handlers that fail ------------------------------------------------------------------------------------------


def broken(broker: Any, call: Any, now: Any) -> None:
    raise RuntimeError("planted")


async def test_a_handler_that_raises_closes_its_own_connection_only(caplog):
    async with serving(handlers={**HANDLERS, 12: Handler(HANDLERS[12].versions, broken)}) as place:
        bad, good = await place.connect(), await place.connect()
        await bad.send(HELLO, BEAT, HELLO)
        assert (await bad.receive()).error_code == E.NONE
        assert await bad.closed() == b""
        assert "planted" in caplog.text
        assert (await good.ask(*HELLO)).error_code == E.NONE


async def test_answer_that_cannot_be_encoded_closes_its_connection(caplog):
    async with serving(
        handlers={**HANDLERS, 12: Handler(HANDLERS[12].versions, HANDLERS[12].handle, lambda *_: object())}
    ) as place:
        bad, good = await place.connect(), await place.connect()
        await bad.send(BEAT)
        assert await bad.closed() == b""
        assert "internal error while encoding a response" in caplog.text
        assert (await good.ask(*HELLO)).error_code == E.NONE


async def test_answers_before_a_failed_produce_with_acks_0_arrive():
    async with serving() as place:
        peer = await place.connect()
        data = ProduceRequest.Topic.Partition(index=9, records=build_batch([Record(value=b"v")]))
        topics = [ProduceRequest.Topic(name="t", partition_data=[data])]
        failing = ProduceRequest(acks=0, timeout_ms=0, topic_data=topics), 7
        await peer.send(HELLO, failing, HELLO)
        assert (await peer.receive()).error_code == E.NONE
        assert await peer.closed() == b""


async def test_a_deadline_that_fails_leaves_the_timer_running(clock, caplog, monkeypatch):
    async with serving(config=SLOW) as place:
        real = place.router.tick
        failures = [RuntimeError("planted")]

        def tick(now: Any, outside: Any) -> Any:
            outcomes = real(now, outside)
            if failures:
                raise failures.pop()
            return outcomes

        monkeypatch.setattr(place.router, "tick", tick)
        peer, other = await place.connect(), await place.connect()
        await peer.send(fetch(wait=500))
        assert await peer.silent(1.0)
        assert "planted" in caplog.text
        await other.ask(*fetch(wait=500))


# --- slow peers, and peers that disappear ------------------------------------------------------------------------


async def flood(peer: Peer, message: Any, version: int) -> int:
    """Send requests and read nothing until the peer's own socket is full. Return the number of bytes sent."""
    sock, sent = peer.stream.socket, 0
    data = b"".join(peer.side.send(message, version) for _ in range(500))
    with trio.move_on_after(1.0):
        while True:
            sent += await sock.send(data)
    return sent


async def test_slow_request_is_closed_at_its_deadline(clock, caplog):
    async with serving() as place:
        slow, good = await place.connect(), await place.connect()
        frame = pack(encode_request(*HELLO, correlation_id=1))
        begin = trio.current_time()
        with trio.move_on_after(FRAME_TIMEOUT + 2 * CHECK_INTERVAL), suppress(trio.BrokenResourceError):
            for byte in frame + frame:
                await slow.stream.send_all(bytes([byte]))
                await trio.sleep(2.0)
        assert trio.current_time() - begin > FRAME_TIMEOUT
        assert await slow.closed() == b""
        assert "a request took more than 30 s to arrive" in caplog.text
        assert (await good.ask(*HELLO)).error_code == E.NONE


async def test_requests_that_always_end_in_the_next_read(clock):
    """Each read ends within a request, but never within the same one."""
    async with serving() as place:
        peer = await place.connect()
        data = b"".join(peer.side.send(*HELLO) for _ in range(40))
        size = len(data) // 40
        await peer.stream.send_all(data[: size + 3])
        for number in range(1, 40):
            await peer.receive()
            await trio.sleep(3.0)
            await peer.stream.send_all(data[number * size + 3 : (number + 1) * size + 3])
        assert (await peer.receive()).error_code == E.NONE


async def test_an_idle_connection_is_closed_and_one_that_waits_is_not(clock, caplog):
    async with serving(config={**SLOW, "connections.max.idle.ms": 2_000}) as place:
        idle, waiting, busy = await place.connect(), await place.connect(), await place.connect()
        await idle.ask(*HELLO)
        await waiting.send(JOIN)
        for _ in range(5):
            await busy.ask(*BEAT)
            await trio.sleep(1.0)
        assert await idle.closed() == b""
        assert (await waiting.receive()).generation_id == 1
        assert len(place.server.connections) == 2
        assert caplog.records == []


async def test_a_share_session_ends_with_its_idle_connection(clock, monkeypatch):
    """The timer handles the deadline that the closed connection sets, without another request."""
    async with serving(config={"connections.max.idle.ms": 2_000}) as place:
        place.server.router.broker.share_sessions(0)
        monkeypatch.setattr(ShareSessions, "is_of", lambda *_: True)
        idle = await place.connect()
        await idle.ask(*HELLO)
        assert await idle.closed() == b""
        await trio.sleep(0.1)
        assert place.server.router.broker.client_deadlines.earliest > trio.current_time()


async def disconnect(place: Any) -> None:
    peer = await place.connect()
    await peer.ask(*HELLO)
    place.server.disconnect(connection(place).number, reset=True)


async def stop_broker(place: Any) -> None:
    peer = await place.connect()
    await peer.ask(*HELLO)
    place.server.stop_broker(0, abruptly=True)


async def close_in_process(place: Any) -> None:
    place.server.connect(0, "c").close()


@pytest.mark.parametrize("how", [disconnect, stop_broker, close_in_process])
async def test_a_share_session_ends_with_a_closed_connection(how, clock, monkeypatch):
    """The timer handles the deadline that the closed connection sets, without another request."""
    async with serving() as place:
        place.server.router.broker.share_sessions(0)
        monkeypatch.setattr(ShareSessions, "is_of", lambda *_: True)
        await trio.sleep(0.1)
        await how(place)
        await trio.sleep(0.1)
        assert place.server.router.broker.client_deadlines.earliest > trio.current_time()


async def test_peer_that_never_reads_is_closed(clock, caplog):
    async with serving() as place:
        fill(place, 300_000)
        slow, good = await place.connect(), await place.connect()
        await good.ask(*HELLO)
        begin = trio.current_time()
        assert await flood(slow, *fetch()) > 0
        stuck = next(c for c in place.server.connections.values() if c.draining)
        assert len(stuck.out) <= WRITE_AHEAD + 400_000
        assert stuck.requests.buffered <= READ_AHEAD + READ_SIZE
        for _ in range(20):
            assert (await good.ask(*HELLO)).error_code == E.NONE
        await trio.sleep_until(begin + SEND_TIMEOUT + 0.5)
        await place.until(lambda: len(place.server.connections) == 1)
        assert "the client read no responses for 30 s" in caplog.text
        assert (await good.ask(*HELLO)).error_code == E.NONE


async def test_peer_that_reads_late_gets_every_answer(clock):
    async with serving() as place:
        fill(place, 300_000)
        peer = await place.connect()
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(peer.send, *[fetch()] * 40)
                await trio.sleep(SEND_TIMEOUT / 2)
                for _ in range(40):
                    assert len((await peer.receive()).responses[0].partitions[0].records) > 300_000


class Hesitant:
    """A socket that is reported as writable, but whose first send has no room."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.refused = False

    def send(self, data: Any) -> int:
        if not self.refused:
            self.refused = True
            raise BlockingIOError(errno.EAGAIN, "planted")
        return self.sock.send(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sock, name)


async def test_a_send_that_has_no_room_after_all_is_tried_again():
    async with serving() as place:
        fill(place, 20_000_000)
        peer = await place.connect()
        await peer.send(fetch(limit=10**9))
        await place.until(lambda: connection(place).draining)
        slow = connection(place).sock = Hesitant(connection(place).sock)
        assert len((await peer.receive()).responses[0].partitions[0].records) > 20_000_000
        assert slow.refused


async def test_half_close_after_a_request_is_answered():
    async with serving() as place:
        fill(place, 2_000_000)
        peer = await place.connect()
        await peer.send(fetch(), BEAT, fetch())
        await peer.stream.send_eof()
        assert len((await peer.receive()).responses[0].partitions[0].records) > 2_000_000
        await peer.receive()
        await peer.receive()
        assert await peer.closed() == b""
        await place.until(lambda: not place.server.connections)


async def test_half_close_inside_a_frame_is_quiet(caplog):
    caplog.set_level(logging.DEBUG, "mockbroker")
    async with serving() as place:
        peer = await place.connect()
        await peer.stream.send_all(peer.side.send(*BEAT)[:-3])
        await peer.stream.send_eof()
        assert await peer.closed() == b""
        assert caplog.records == []


async def test_reset_while_an_answer_is_written():
    async with serving() as place:
        fill(place, 20_000_000)
        peer, good = await place.connect(), await place.connect()
        await peer.send(fetch(limit=10**9))
        await place.until(lambda: any(c.draining for c in place.server.connections.values()))
        peer.reset()
        await place.until(lambda: len(place.server.connections) == 1)
        assert (await good.ask(*HELLO)).error_code == E.NONE


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_member_outlives_the_connection_of_its_pending_join(clock, how):
    async with serving(config=SLOW) as place:
        peer = await place.connect()
        await peer.send(JOIN)
        await place.until(lambda: "g" in place.broker.groups)
        if how == "reset":
            peer.reset()
        else:
            await peer.stream.aclose()
        await place.until(lambda: not place.server.connections)
        (member,) = place.broker.groups["g"].members.values()
        assert member.pending_join is not None
        await trio.sleep(4.0)
        assert place.broker.groups["g"].generation == 1
        assert list(place.broker.groups["g"].members) == [member.member_id]


async def test_waiting_fetches_end_with_their_connection(clock):
    async with serving() as place:
        for _ in range(50):
            peer = await place.connect()
            await peer.send(fetch(wait=86_400_000))
            await place.until(lambda: place.broker.fetch_purgatory.pending)
            await peer.stream.aclose()
            await place.until(lambda: not place.server.connections)
            assert not place.broker.fetch_purgatory.pending
        purgatory = place.broker.fetch_purgatory
        assert (purgatory.watchers, purgatory.watched, len(place.broker.deadlines)) == ({}, {}, 0)


async def test_fetch_with_a_repeated_partition_is_served(clock):
    async with serving() as place:
        twice = fetch(wait=86_400_000)
        twice[0].topics[0].partitions *= 2
        reader, gone, writer = [await place.connect() for _ in range(3)]
        await reader.send(twice)
        await gone.send(twice)
        await place.until(lambda: len(place.broker.fetch_purgatory.pending) == 2)
        await gone.stream.aclose()
        await place.until(lambda: len(place.broker.fetch_purgatory.pending) == 1)
        data = ProduceRequest.Topic.Partition(index=0, records=build_batch([Record(value=b"v")]))
        topics = [ProduceRequest.Topic(name="t", partition_data=[data])]
        await writer.ask(ProduceRequest(acks=1, timeout_ms=0, topic_data=topics), 7)
        assert len((await reader.receive()).responses[0].partitions) == 1


async def test_bytes_after_a_pending_join_are_read_up_to_a_limit(clock):
    async with serving(config={"group.initial.rebalance.delay.ms": 60_000}) as place:
        peer = await place.connect()
        await peer.send(JOIN)
        await flood(peer, *BEAT)
        assert connection(place).requests.buffered <= READ_AHEAD + READ_SIZE


# --- accepting and stopping --------------------------------------------------------------------------------------


async def test_too_many_open_files_backs_off_and_recovers(clock, caplog, monkeypatch):
    async with serving() as place:
        real, refusals = socket.socket.accept, [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED]

        def accept(sock: Any) -> Any:
            if refusals:
                raise OSError(refusals.pop(0), "planted")
            return real(sock)

        monkeypatch.setattr(socket.socket, "accept", accept)
        begin = trio.current_time()
        peer = await place.connect()
        assert (await peer.ask(*HELLO)).error_code == E.NONE
        assert trio.current_time() - begin == pytest.approx(2 * BACK_OFF)
        assert caplog.text.count("cannot accept") == 2


async def test_a_clean_stop_leaves_no_socket(clock):
    before = open_files()
    async with serving(config=SLOW) as place:
        fill(place, 20_000_000)
        peers = [Peer(await trio.open_tcp_stream("127.0.0.1", place.port)) for _ in range(3)]
        await peers[0].send(JOIN)
        await peers[1].send(fetch(limit=10**9))
        await peers[2].ask(*HELLO)
        begin = trio.current_time()
    assert trio.current_time() - begin < 2.0
    assert place.server.connections == {}
    assert [await peer.closed() != b"" for peer in peers] == [False, True, False]
    for peer in peers:
        await peer.stream.aclose()
    assert not opened_since(before)


async def test_the_timer_wakes_earlier_when_a_deadline_moves_closer(clock):
    async with serving() as place:
        late, soon = await place.connect(), await place.connect()
        await late.send(fetch(wait=50_000))
        await place.until(lambda: place.broker.fetch_purgatory.pending)
        begin = trio.current_time()
        await soon.ask(*fetch(wait=500))
        assert trio.current_time() - begin == pytest.approx(0.5)


async def test_metadata_names_where_it_listens():
    async with serving() as place:
        answer = await (await place.connect()).ask(MetadataRequest(topics=None), 9)
        assert [(broker.host, broker.port) for broker in answer.brokers] == [("127.0.0.1", place.port)]
