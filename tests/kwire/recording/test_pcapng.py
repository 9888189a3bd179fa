"""Recordings as packets: kwire reads them back, and their checksums are right."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import pytest

from kwire import encode_request, encode_response
from kwire.capture import Call, Connection, read
from kwire.frames import pack
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.produce import ProduceRequest
from kwire.recording import WRITERS, RecordingWriter
from kwire.recording.packets import SEGMENT, TcpConnection, endpoint_of
from kwire.recording.pcapng import SMALL, PcapngFile

US = 1_700_000_000_000_000


def heartbeat(number: int) -> tuple[bytes, bytes]:
    request = encode_request(HeartbeatRequest(group_id="g", generation_id=number), 4, correlation_id=number)
    return request, encode_response(HeartbeatResponse(throttle_time_ms=number), 4, correlation_id=number)


def recorded(writer: RecordingWriter, ends: list[tuple[str, str]]) -> list[bytes]:
    """Return a recording of one heartbeat on each of several connections at the same time."""
    parts = [writer.begin()]
    parts += [writer.opened(at, *end, US + at) for at, end in enumerate(ends)]
    for at in range(len(ends)):
        request, response = heartbeat(at)
        parts += [writer.frame(at, True, request, US + 100 + at), writer.frame(at, False, response, US + 200 + at)]
    return parts + [writer.closed(at, US + 300) for at in range(len(ends))]


def recorded_together(writer: RecordingWriter, ends: list[tuple[str, str]]) -> list[bytes | memoryview]:
    """A large record and a heartbeat on each of several connections; the requests arrive together, in two pieces."""
    large = encode_request(ProduceRequest(transactional_id="x", acks=-1), 9, correlation_id=100, client_id="c" * 30_000)
    parts: list[bytes | memoryview] = [writer.begin()]
    for number, end in enumerate(ends):
        parts.append(writer.opened(number, *end, US + number))
        request, response = heartbeat(number)
        sent = pack(request) + pack(large) * 5
        parts += writer.frames(number, True, [sent[:40], sent[40:]], US + 100 + number)
        parts += writer.frames(number, False, [pack(response)], US + 200 + number)
        parts.append(writer.closed(number, US + 300))
    return parts


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("ends", [[("10.0.0.1:50000", "10.0.0.2:9092"), ("[2001:db8::1]:50000", "[2001:db8::2]:9092")]])
def test_frames_that_arrive_together_are_read_back(suffix: str, ends: list[tuple[str, str]], tmp_path: Path) -> None:
    path = tmp_path / f"recording{suffix}"
    path.write_bytes(b"".join(recorded_together(WRITERS[suffix](), ends)))
    calls = [item for item in read(path) if isinstance(item, Call)]
    heartbeats = [call for call in calls if call.api_key == 12]
    assert [call.request.generation_id for call in heartbeats] == [0, 1]
    assert [call.response.throttle_time_ms for call in heartbeats] == [0, 1]
    assert [(call.request_us, call.response_us) for call in heartbeats] == [(US + 100, US + 200), (US + 101, US + 201)]
    produced = [call for call in calls if call.api_key == 0]
    assert [(call.client_id, call.request_us) for call in produced] == [
        ("c" * 30_000, US + 100 + number) for number in (0, 1) for _ in range(5)
    ]


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize(
    "ends",
    [
        [("10.0.0.1:50000", "10.0.0.2:9092"), ("[2001:db8::1]:50000", "[2001:db8::2]:9092")],
        [("10.0.0.1:50000", "[2001:db8::2]:9092"), ("localhost:50000", "broker:9092")],
        [("10.0.0.1:50000", "10.0.0.2:9092"), ("10.0.0.1:50000", "10.0.0.2:9092")],
    ],
    ids=["both families", "mixed families and names", "the same endpoints"],
)
def test_recordings_are_read_back(suffix: str, ends: list[tuple[str, str]], tmp_path: Path) -> None:
    path = tmp_path / f"recording{suffix}"
    path.write_bytes(b"".join(recorded(WRITERS[suffix](), ends)))
    items = list(read(path))
    calls = sorted((item for item in items if isinstance(item, Call)), key=lambda call: call.correlation_id or 0)
    assert (
        [call.request.generation_id for call in calls] == [call.response.throttle_time_ms for call in calls] == [0, 1]
    )
    assert [(call.request_us, call.response_us) for call in calls] == [(US + 100, US + 200), (US + 101, US + 201)]
    assert len({call.connection for call in calls}) == 2
    connections = [item for item in items if isinstance(item, Connection)]
    assert len(items) == len(calls) + len(connections)
    if suffix == ".pcapng":
        assert {(connection.closed, connection.syn_seen) for connection in connections} == {("fin", True)}


ENDS = pytest.mark.parametrize(("client", "broker"), [("10.0.0.1:5", "10.0.0.2:6"), ("[2001:db8::1]:5", "[::1]:6")])


@ENDS
@pytest.mark.parametrize("seed", range(5))
def test_received_bytes_get_the_packets_of_copied_bytes(client: str, broker: str, seed: int) -> None:
    random, copied, received = Random(seed), PcapngFile(), PcapngFile()
    for writer in (copied, received):
        writer.opened(0, client, broker, US)
    for _ in range(50):
        memory = memoryview(bytearray(random.choice([0, 4_000, 8_000, 4 * random.randrange(100_000)])))
        to_broker, most = random.random() < 0.5, random.choice([1, 20_000, 1_000_000])
        spaces = received.spaces(0, memory, most)
        if not spaces:
            assert len(memory) < SMALL + 100
            continue
        data = random.randbytes(random.choice([1, sum(map(len, spaces)), random.randint(1, sum(map(len, spaces)))]))
        pieces, rest = [], data
        for space in spaces:
            pieces.append(rest[: len(space)])
            space[: len(pieces[-1])] = pieces[-1]
            rest = rest[len(space) :]
        assert not rest
        size = received.complete(0, to_broker, memory, spaces, len(data), US)
        assert bytes(memory[:size]) == b"".join(copied.frames(0, to_broker, [each for each in pieces if each], US))


def test_received_bytes_fill_the_memory() -> None:
    writer = PcapngFile()
    writer.opened(0, "10.0.0.1:5", "10.0.0.2:6", US)
    for size in range(4_200, 66_000, 4):
        memory = memoryview(bytearray(size))
        spaces = writer.spaces(0, memory, 1_000_000)
        assert writer.complete(0, True, memory, spaces, sum(map(len, spaces)), US) == (min(65568, size))


def test_large_frames_are_divided_into_segments(tmp_path: Path) -> None:
    request = ProduceRequest(transactional_id="t" * 30_000, acks=0)
    writer = WRITERS[".pcapng"]()
    parts = [writer.begin(), writer.opened(0, "10.0.0.1:5", "10.0.0.2:9092", US)]
    parts += [writer.frame(0, True, encode_request(request, 3, correlation_id=1), US)]
    path = tmp_path / "recording.pcapng"
    path.write_bytes(b"".join(parts))
    (call,) = (item for item in read(path) if isinstance(item, Call))
    assert call.request == request
    assert call.request_size is not None
    assert call.request_size > SEGMENT


@pytest.mark.parametrize(("client", "broker"), [("10.0.0.1:5", "10.0.0.2:6"), ("[2001:db8::1]:5", "[::1]:6")])
@pytest.mark.parametrize("data", [b"", b"odd", b"even", bytes(range(256)) * 3 + b"x", b"\xff" * 40])
def test_checksums_are_those_of_tcp_and_ip(client: str, broker: str, data: bytes) -> None:
    connection = TcpConnection(endpoint_of(client), endpoint_of(broker), 7)
    for packet in [*connection.handshake(), *connection.data(True, data), *connection.end()]:
        if packet[0] >> 4 == 4:
            head, addresses, tcp = packet[:20], packet[12:20], packet[20:]
            assert folded(head) == 0xFFFF
            assert struct.unpack_from(">H", packet, 2)[0] == len(packet)
        else:
            addresses, tcp = packet[8:40], packet[40:]
        assert folded(addresses + struct.pack(">HH", 6, len(tcp)) + tcp) == 0xFFFF


def folded(data: bytes) -> int:
    """Return the sum of 16-bit words in one's complement (RFC 1071)."""
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total
