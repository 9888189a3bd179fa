"""Captures for tests: those of fixtures/captures, or all of fixtures/more if it exists."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable
from pathlib import Path

from golden import MORE, ROOT
from tools.pcap import Segment, Talk, pcap, prefixed

import kwire
from kwire.capture import Call, Connection, Problem, read
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

COMMITTED = sorted((ROOT / "fixtures" / "captures").glob("*.pcap"))
CAPTURES = sorted((MORE / "pcap").glob("*.pcap")) or COMMITTED
Found = tuple[list[Call], list[Connection], list[Problem]]


def all_of(*paths: str | Path, **options: object) -> Found:
    """Return the calls, connections and problems of a capture."""
    items = list(read(paths, **options))  # type: ignore[arg-type]
    calls = [item for item in items if isinstance(item, Call)]
    return calls, [c for c in items if isinstance(c, Connection)], [p for p in items if isinstance(p, Problem)]


def heartbeats(talk: Talk, count: int, *, first: int = 1, client_id: str = "billing-7") -> list[Segment]:
    """Return this number of Heartbeat requests and their responses; the generation is the correlation id."""
    made = []
    for number in range(first, first + count):
        request = HeartbeatRequest(group_id="orders", generation_id=number, member_id="m-1")
        made += talk.say(True, prefixed(kwire.encode_request(request, 4, correlation_id=number, client_id=client_id)))
        answer = HeartbeatResponse(throttle_time_ms=number)
        made += talk.say(False, prefixed(kwire.encode_response(answer, 4, correlation_id=number)))
    return made


def greeting(talk: Talk) -> list[Segment]:
    """Return an ApiVersions exchange, with which every client begins."""
    request = ApiVersionsRequest(client_software_name="tester", client_software_version="1")
    made = talk.say(True, prefixed(kwire.encode_request(request, 3, correlation_id=0, client_id="billing-7")))
    return made + talk.say(False, prefixed(kwire.encode_response(ApiVersionsResponse(), 3, correlation_id=0)))


def tls_hello(name: bytes) -> bytes:
    """Return the first record of a TLS client that names this host."""
    sizes = [(len(name) + more).to_bytes(2, "big") for more in (5, 3, 0)]
    extension = b"\0\0" + sizes[0] + sizes[1] + b"\0" + sizes[2] + name
    hello = b"\3\3" + bytes(32) + b"\0\0\2\x13\1\1\0" + len(extension).to_bytes(2, "big") + extension
    hello = b"\1" + len(hello).to_bytes(3, "big") + hello
    return b"\x16\3\1" + len(hello).to_bytes(2, "big") + hello


def generations(calls: Iterable[Call]) -> list[tuple[int | None, int | None]]:
    """Return the generation of each Heartbeat request, and the throttle time of its response."""
    beats = [call for call in calls if call.api_key == 12]
    return [(c.request and c.request.generation_id, c.response and c.response.throttle_time_ms) for c in beats]


def unpacked(path: str | Path) -> bytes:
    """Return the content of a file, decompressed if it is gzip."""
    data = Path(path).read_bytes()
    return gzip.decompress(data) if Path(path).suffix == ".gz" else data


def snapped(path: str | Path, snaplen: int) -> bytes:
    """Return a capture with a snap length: a pcap whose packets have at most this number of bytes."""
    (link,) = struct.unpack_from("<I", unpacked(path), 20)
    return pcap([(time_us, data[:snaplen], size) for time_us, data, size in records(path)], link, snaplen=snaplen)


def records(path: str | Path) -> list[tuple[int, bytes, int]]:
    """Return the packets of a little-endian pcap in microseconds, possibly gzip, read without kwire."""
    data, at, packets = unpacked(path), 24, []
    while at < len(data):
        seconds, us, captured, original = struct.unpack_from("<IIII", data, at)
        packets.append((seconds * 1_000_000 + us, data[at + 16 : at + 16 + captured], original))
        at += 16 + captured
    return packets
