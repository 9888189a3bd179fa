"""Bytes that no client should send, and what the broker does: the rows of the table of bad inputs, by number.

Each row is sent to one served broker, on a connection of its own, as raw bytes. Whatever it is, a healthy connection
is served before and after it, and the group that lives there is unharmed. Rows that need time, many connections or a
peer that does not read are tests of their own: ELSEWHERE says where.
"""

from __future__ import annotations

import logging
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import mockbroker
from kwire import ClientSide, decode_response
from kwire import ErrorCode as E
from kwire.frames import MAX_FRAME, pack
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.sync_group import SyncGroupRequest

HERE = Path(__file__).parent
CLOSED, OPEN = "closed", "open"
METADATA, HEARTBEAT, JOIN, API_VERSIONS, PRODUCE, VOTE, LEADER_AND_ISR, FETCH = 3, 12, 11, 18, 0, 52, 4, 1


def header(key: int, version: int, *, client: bytes = b"\0\1c", tags: bytes = b"") -> bytes:
    return struct.pack(">hhi", key, version, 7) + client + tags


def frame(*parts: bytes) -> bytes:
    return pack(b"".join(parts))


def metadata_v1(topics: bytes) -> bytes:
    return frame(header(METADATA, 1), topics)


def metadata_v9(topics: bytes, rest: bytes = b"\1\0\0\0", tags: bytes = b"\0") -> bytes:
    return frame(header(METADATA, 9, tags=tags), topics, rest)


def heartbeat_v4(tags: bytes) -> bytes:
    """A flexible Heartbeat of nobody, with this tagged section."""
    return frame(header(HEARTBEAT, 4, tags=b"\0"), b"\2g", struct.pack(">i", 1), b"\2m", b"\0", tags)


def heartbeat_v0(group: bytes = b"\0\1g", member: bytes = b"\0\1m") -> bytes:
    return frame(header(HEARTBEAT, 0), group, struct.pack(">i", 1), member)


def join_v5(protocols: bytes) -> bytes:
    """A JoinGroup of a new member with these protocols, as bytes."""
    body = b"\0\1g" + struct.pack(">ii", 10_000, 10_000) + b"\0\0" + b"\xff\xff" + b"\0\x08consumer" + protocols
    return frame(header(JOIN, 5), body)


def api_versions_v3(name: bytes) -> bytes:
    return frame(header(API_VERSIONS, 3, tags=b"\0"), name, b"\x041.0\0")


def error(key: int, version: int, code: E):
    """The answer that must come, as a function of its frame."""

    def check(answer: bytes) -> None:
        body = decode_response(answer, key, version).body
        assert body.error_code == code

    return check


def too_new(answer: bytes) -> None:
    decoded = decode_response(answer, API_VERSIONS, 99)
    assert (decoded.version, decoded.body.error_code) == (0, E.UNSUPPORTED_VERSION)
    assert [(one.api_key, one.min_version, one.max_version) for one in decoded.body.api_keys] == [(18, 0, 4)]


def answered(key: int, version: int):
    return lambda answer: decode_response(answer, key, version)


ONE_TOPIC = b"\0\0\0\1\0\1t"
UNKNOWN = E.UNKNOWN_MEMBER_ID
ROWS = [  # row, what, bytes, what the broker does
    (1, "length -1", b"\xff\xff\xff\xff", CLOSED),
    (2, "length 0", b"\0\0\0\0", CLOSED),
    *((3, f"length {size}", frame(bytes(range(size))), CLOSED) for size in range(1, 8)),
    (4, "length 2^31-1", b"\x7f\xff\xff\xff", CLOSED),
    (5, "length max+1", struct.pack(">i", MAX_FRAME + 1), CLOSED),
    (6, "length max and no body", struct.pack(">i", MAX_FRAME), OPEN),
    (18, "TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", CLOSED),
    (20, "HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", CLOSED),
    (21, "SSH", b"SSH-2.0-OpenSSH_9.2\r\n", CLOSED),
    (21, "random bytes", bytes.fromhex("f5b165224a58b791df6af1d8303e61cdc4bb86c3"), CLOSED),
    (21, "zeros", bytes(64), CLOSED),
    (23, "PROXY header", b"PROXY TCP4 1.2.3.4 1.2.3.4 5 6\r\n", CLOSED),
    (26, "key 999", frame(header(999, 0)), CLOSED),
    (26, "key -5", frame(header(-5, 0)), CLOSED),
    (27, "Produce v0", frame(header(PRODUCE, 0), bytes(10)), CLOSED),
    (27, "Fetch v3", frame(header(FETCH, 3), bytes(20)), CLOSED),
    (28, "Metadata v99", frame(header(METADATA, 99, tags=b"\0"), bytes(10)), CLOSED),
    (28, "Metadata v-1", frame(header(METADATA, -1), bytes(10)), CLOSED),
    (29, "ApiVersions v99", frame(header(API_VERSIONS, 99, tags=b"\0"), b"\2a\2b\0"), too_new),
    (29, "ApiVersions v-1", frame(header(API_VERSIONS, -1, tags=b"\0")), too_new),
    (30, "the header of an ApiVersions answer is v0", api_versions_v3(b"\2a"), error(API_VERSIONS, 3, E.NONE)),
    (31, "ApiVersions v3 with a v1 header", frame(header(API_VERSIONS, 3)), CLOSED),
    (32, "client software name with !", api_versions_v3(b"\3a!"), error(API_VERSIONS, 3, E.INVALID_REQUEST)),
    (32, "client software name empty", api_versions_v3(b"\1"), error(API_VERSIONS, 3, E.INVALID_REQUEST)),
    (33, "Vote", frame(header(VOTE, 0, tags=b"\0"), bytes(10)), CLOSED),
    (33, "LeaderAndIsr", frame(header(LEADER_AND_ISR, 0), bytes(30)), CLOSED),
    (34, "client id null", frame(header(METADATA, 1, client=b"\xff\xff"), ONE_TOPIC), answered(METADATA, 1)),
    (35, "client id length -2", frame(header(METADATA, 1, client=b"\xff\xfe"), ONE_TOPIC), answered(METADATA, 1)),
    (36, "client id not UTF-8", frame(header(METADATA, 1, client=b"\0\2\xff\xfe"), ONE_TOPIC), answered(METADATA, 1)),
    (37, "client id of 30000, 1 there", frame(header(METADATA, 1, client=b"\x75\x30c")), CLOSED),
    (39, "2^31-1 topics, none there", metadata_v1(b"\x7f\xff\xff\xff"), CLOSED),
    (40, "10^6 topics in 6 bytes", metadata_v1(struct.pack(">i", 10**6) + b"\0\1t\0\1u"), CLOSED),
    (42, "null array of protocols", join_v5(b"\xff\xff\xff\xff"), CLOSED),
    (43, "array count -2 is null", metadata_v1(b"\xff\xff\xff\xfe"), answered(METADATA, 1)),
    (44, "null topic name", metadata_v1(b"\0\0\0\1\xff\xff"), CLOSED),
    (45, "compact length 0 where null is not allowed", metadata_v9(b"\2\0"), CLOSED),
    (46, "compact length off by one", metadata_v9(b"\2\1t\0"), CLOSED),
    (47, "varint of 5 bytes that goes on", metadata_v9(b"\xff\xff\xff\xff\xff\1"), CLOSED),
    (48, "varint above 2^31-1", metadata_v9(b"\xff\xff\xff\xff\x0f"), CLOSED),
    (49, "overlong zero", heartbeat_v4(b"\x80\x80\0"), error(HEARTBEAT, 4, UNKNOWN)),
    (51, "unknown tag in the header", metadata_v9(b"\1", b"\0\0\0\0", b"\1\x09\2ab"), answered(METADATA, 9)),
    (52, "a tag twice", heartbeat_v4(b"\2\x09\1a\x09\1b"), error(HEARTBEAT, 4, UNKNOWN)),
    (53, "tags out of order", heartbeat_v4(b"\2\x09\1a\x08\1b"), error(HEARTBEAT, 4, UNKNOWN)),
    (54, "tag size past the end", heartbeat_v4(b"\1\x09\x7fa"), CLOSED),
    (55, "tag size ff ff ff ff 0f", heartbeat_v4(b"\1\x09\xff\xff\xff\xff\x0f"), CLOSED),
    (56, "2^31 tags", heartbeat_v4(b"\x80\x80\x80\x80\x08"), CLOSED),
    (
        58,
        "bytes behind the body",
        frame(heartbeat_v0()[4:], b"more"),
        error(HEARTBEAT, 0, UNKNOWN),
    ),
    (60, "a boolean of 2", frame(header(METADATA, 4), b"\0\0\0\0", b"\2"), answered(METADATA, 4)),
    *(
        (59, f"a Heartbeat cut at {size}", frame(heartbeat_v0()[4:][:size]), CLOSED)
        for size in range(len(heartbeat_v0()) - 4)
    ),
    (114, "Heartbeat for the empty group", heartbeat_v0(group=b"\0\0"), error(HEARTBEAT, 0, E.INVALID_GROUP_ID)),
    (115, "group id of 32767 bytes", heartbeat_v0(b"\x7f\xff" + b"g" * 32_767), error(HEARTBEAT, 0, UNKNOWN)),
    (115, "group id with NUL and ../", heartbeat_v0(b"\0\7../\0\n/x"), error(HEARTBEAT, 0, UNKNOWN)),
    (118, "no protocols", join_v5(b"\0\0\0\0"), error(JOIN, 5, E.INCONSISTENT_GROUP_PROTOCOL)),
    (122, "metadata null", join_v5(b"\0\0\0\1\0\5range\xff\xff\xff\xff"), CLOSED),
    (129, "Heartbeat for a group that is not there", heartbeat_v0(), error(HEARTBEAT, 0, UNKNOWN)),
]
ELSEWHERE = {  # rows, where they are
    "test_server.py": [8, 9, 10, 11, 12, 14, 15, 16],
    "test_session.py": [17],
    "test_bad_input.py, below": [7, 13],
    "../kwire/test_connection.py": [24, 25],
    "test_security.py": [19, *range(64, 82)],
    "../kwire, the codec alone": [38, 41, 50, 57, 61, 62],
    "handlers/ and group/": [*range(116, 118), *range(119, 122), *range(123, 129), *range(130, 140)],
}
LATER = {  # rows that need what is not built
    "an HTTP port": [22],
    "a budget of decoded fields": [63],
    "KIP-848 groups": list(range(140, 146)),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[mockbroker.Cluster]:
    config = {"group.initial.rebalance.delay.ms": 0, "connections.max.idle.ms": 3_600_000}
    with mockbroker.run_cluster(topics={"t": 1}, config=config) as found:
        yield found


class Healthy:
    """A member that was there before, and lives on."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.side = ClientSide("healthy")
        self.sock = socket.create_connection(address, timeout=20)
        join = JoinGroupRequest(
            group_id="well",
            session_timeout_ms=600_000,
            rebalance_timeout_ms=600_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"\0\1\xff\xff\xff\xff")],  # nobody reads it
        )
        self.member_id = self.ask(join, 3).member_id
        self.ask(SyncGroupRequest(group_id="well", generation_id=1, member_id=self.member_id), 2)

    def ask(self, request, version: int):
        self.sock.sendall(self.side.send(request, version))
        while (response := self.side.next_response()) is None:
            data = self.sock.recv(65_536)
            assert data
            self.side.receive(data)
        return response.body

    def beats(self) -> bool:
        beat = HeartbeatRequest(group_id="well", generation_id=1, member_id=self.member_id)
        return self.ask(beat, 3).error_code == E.NONE


@pytest.fixture(scope="module")
def address(cluster) -> tuple[str, int]:
    return cluster.nodes[0].host, cluster.nodes[0].port


@pytest.fixture(scope="module")
def healthy(address) -> Iterator[Healthy]:
    found = Healthy(address)
    yield found
    found.sock.close()


def read_frame(sock: socket.socket) -> bytes:
    """One frame, or b"" at the end of the connection."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        try:
            chunk = sock.recv(65_536)
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            assert data == b"", "half a frame"
            return b""
        data += chunk
    return data[4:]


@pytest.mark.parametrize(("row", "what", "data", "does"), ROWS, ids=[f"{row}-{what}" for row, what, _, _ in ROWS])
def test_row(address, healthy, caplog, row, what, data, does):
    caplog.set_level(logging.WARNING, logger="mockbroker")
    with socket.create_connection(address, timeout=20) as sock:
        sock.sendall(data)
        if does == OPEN:
            assert healthy.beats()  # the broker has read the row meanwhile
            sock.setblocking(False)
            with pytest.raises(BlockingIOError):
                sock.recv(1)
        elif does == CLOSED:
            assert read_frame(sock) == b""
        else:
            does(read_frame(sock))
    assert healthy.beats()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (1 if does == CLOSED else 0), lines
    assert all(re.match(r"127\.0\.0\.1:\d+: closed, .", line) for line in lines)
    assert all(record.exc_info is None for record in caplog.records), "a refusal is no failure of ours"


def test_7_a_thousand_promises_of_100_mib(address, healthy):
    """Kafka dies of twelve."""
    before = resident_mib()
    promises = []
    try:
        for _ in range(1_000):
            promise = socket.create_connection(address, timeout=20)
            promise.sendall(struct.pack(">i", MAX_FRAME) + b"\0\3\0\1")
            promises.append(promise)
        assert healthy.beats()
        assert resident_mib() - before < 20 + 10  # ours, and the thousand sockets of the test itself
    finally:
        for promise in promises:
            promise.close()
    assert healthy.beats()


def test_13_many_idle_connections(address, healthy):
    idle = [socket.create_connection(address, timeout=20) for _ in range(500)]
    try:
        assert healthy.beats()
        last = ClientSide("last")
        idle[-1].sendall(last.send(MetadataRequest(topics=[]), 1))
        last.receive(pack(read_frame(idle[-1])))
        assert last.next_response() is not None
    finally:
        for sock in idle:
            sock.close()


def resident_mib() -> float:
    """Memory of this process, which the broker shares."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("no /proc to read memory from")
    (kib,) = re.findall(r"VmRSS:\s+(\d+) kB", status.read_text())
    return int(kib) / 1024


def test_every_row_is_somewhere():
    """Sections 2.1, 2.2, 2.3 and 2.5 of the table: rows 1-81 and 114-145."""
    told = {row for row, *_ in ROWS}
    for rows in (*ELSEWHERE.values(), *LATER.values()):
        told |= set(rows)
    assert set(range(1, 82)) | set(range(114, 146)) == told


@pytest.mark.parametrize("row", [9, 10, 11, 12, 14, 15, 16])
def test_rows_elsewhere_are_there(row):
    assert f"test_{row}_" in (HERE / "test_server.py").read_text()
