"""Seeds of the fuzzers from fixtures/frames and fixtures/blobs, and the inputs that once failed.

The seeds are written when a fuzzer starts. Inputs that failed are kept in fixtures/corpus/TARGET, and
tests/test_fuzzing.py runs all of them.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import targets
from tls_target import FROM_CLIENT, HANDSHAKES, SEALED

from kwire.capture import Segments, read_segments, splits
from kwire.layout import versions_of
from kwire.messages import APIS

ROOT = Path(__file__).parent.parent
FRAMES, BLOBS, CORPUS = (ROOT / "fixtures" / name for name in ("frames", "blobs", "corpus"))
MOST = 2_048  # bytes of a seed
LOG_DIRS = ROOT / "fixtures" / "log_dirs"
CLAIMS = b'{"sub":"user","exp":4000000000,"iat":1600000000}'  # of an unsecured token
CATALOGUE = {  # of a data directory without topics
    "format": 1,
    "cluster_id": "00000000-0000-0000-0000-000000000001",
    "brokers": 1,
    "taken_producer_ids": 0,
    "topics": [],
    "deleted": [],
}
RULES: list[dict[str, Any]] = [
    {
        "name": "loading",
        "match": {"api": "JoinGroup", "group": "g*"},
        "action": {"error": "COORDINATOR_LOAD_IN_PROGRESS"},
    },
    {"match": {"api": ["Fetch", "Produce"], "topic": "t", "partition": 0}, "action": {"delay_ms": 5}},
    {"match": {"on": "connect"}, "action": {"refuse": True}, "occurrence": {"times": "always", "probability": 0.5}},
    {"match": {"api": "Heartbeat"}, "action": {"hold": True}, "occurrence": {"skip": 1, "every": 2, "times": 3}},
]
PER_FILE = 12  # frames of one API and direction, the newest versions first

Line = dict[str, Any]


def failed_inputs(target: str) -> list[Path]:
    """Return the inputs that once failed in a target."""
    return sorted((CORPUS / target).glob("*"))


def seeds(target: str) -> Iterator[bytes]:
    """Yield the seeds of a target, in its input format."""
    match target:
        case "frame_buffer":
            some = list(frames("request"))[::20]
            for size in (0, 3, 255):
                yield bytes([size]) + b"".join(_prefixed(frame) for _, frame in some[size % 5 :: 5])
        case "request":
            yield from (frame for _, frame in frames("request"))
        case "response":
            for line, frame in frames("response"):
                versions = versions_of(APIS[line["api_key"]].versions)
                yield bytes([targets.KEYS.index(line["api_key"]), versions.index(line["api_version"])]) + frame
        case "record_batch":
            for data in records_fields():
                yield from (bytes([flag]) + data for flag in (0, 1))
        case "blob":
            for line in _lines(BLOBS / "captured.jsonl.gz"):
                data = bytes.fromhex(line["hex"])
                yield bytes([targets.NAMES.index(line["type"]), data[1]]) + data[2:]
            for line in _lines(BLOBS / "StickyUserData.jsonl.gz"):
                yield bytes([targets.NAMES.index("StickyUserData"), 1]) + bytes.fromhex(line["user_data_hex"])
            for number in range(len(targets.NAMES)):
                yield from (bytes([number, version]) + bytes(12) for version in range(4))
        case _:
            yield from input_seeds(target)


def input_seeds(target: str) -> Iterator[bytes]:
    """Yield the seeds of a target of input_targets.py."""
    match target:
        case "capture":
            yield from _captures()
        case "tls_hello":
            yield from (_client_hello(name) for name in (b"", b"broker", b"kafka-1.example.com"))
        case "tls_session":
            yield from _tls_sessions()
        case "segment":
            segments = [*sorted((ROOT / "fixtures" / "logs").glob("*.log")), *sorted(LOG_DIRS.glob("*/**/*.log"))]
            for number, path in enumerate(segments):
                if data := path.read_bytes()[:MOST]:
                    yield bytes([number % 256]) + data
        case "data_directory":
            yield from (b"0\n0\n", b"0\n2\nt 0 17\nt 1 4\n")
            yield json.dumps(CATALOGUE).encode()
        case "sasl_token":
            yield b"\0\0user\0secret"
            yield b"\0user\0user\0secret"
            for number in (1, 2):
                first = b"n,,n=user,r=client\nc=biws,r=clientserver,p=AAAA"
                yield from (
                    bytes([number]) + first,
                    bytes([number]) + first.replace(b"r=client\n", b"r=client,tokenauth=true\n"),
                )
            claims = [base64.urlsafe_b64encode(text).rstrip(b"=") for text in (b'{"alg":"none"}', CLAIMS)]
            yield b"\3n,,\1auth=Bearer " + b".".join(claims) + b".\1\1"
        case "http_body":
            yield from (json.dumps(rule).encode() for rule in RULES)
        case "rule_file":
            yield from (b"\1" + json.dumps({"fault": [rule]}).encode() for rule in RULES)
            yield b'\0[[fault]]\nname = "n"\nmatch = { api = "Heartbeat" }\naction = { error = "UNKNOWN_MEMBER_ID" }\n'
            yield b"\2fault:\n- match: {api: [Fetch, Produce]}\n  action: {delay_ms: 5}\n"


def _captures() -> Iterator[bytes]:
    """Yield the first packets of the captures of real clients, and frame logs."""
    for path in sorted((ROOT / "fixtures" / "captures").glob("*.pcap")):
        yield path.read_bytes()[:MOST]
    for path in sorted(FRAMES.glob("*.jsonl.gz"))[:8]:
        with gzip.open(path, "rb") as lines:
            yield lines.readline()[:MOST]
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    interface = struct.pack("<IIHHII", 1, 20, 1, 0, 65_535, 20)
    packet = bytes(range(60))
    yield section + interface + struct.pack("<IIIIIII", 6, 92, 0, 0, 0, 60, 60) + packet + struct.pack("<I", 92)


def _tls_sessions() -> Iterator[bytes]:
    """Yield short connections of each handshake, and the first bytes of captured connections."""
    data = b"\x17\0\0\0\x04\0\0\0\0"
    for number in range(1, len(HANDSHAKES) + 1):
        sealed = [
            struct.pack(">H", len(piece) | SEALED | (FROM_CLIENT if at % 2 == 0 else 0)) + piece
            for at, piece in enumerate((data, data, b"\x15\1\0", data, data))
        ]
        yield bytes([number]) + b"".join(sealed)
        yield bytes([number]) + b"".join(sealed[:2]) + struct.pack(">H", FROM_CLIENT) + b"".join(sealed[2:])
    for path in sorted((ROOT / "fixtures" / "tls").glob("*.pcap")):
        connections: dict[int, bytes] = {}
        for segments in read_segments(splits(str(path))[0]):
            if not isinstance(segments, Segments):
                continue
            for number, flow in enumerate(segments.flow.tolist()):
                if payload := segments.payload(number):
                    low, high = segments.keys[flow][2], segments.keys[flow][5]
                    from_client = bool(segments.upward[number]) == (low > high)
                    piece = struct.pack(">H", len(payload) | (FROM_CLIENT if from_client else 0)) + payload
                    connections[flow] = connections.get(flow, b"") + piece
        yield from (b"\0" + data[: MOST - 1] for data in connections.values())


def _client_hello(name: bytes) -> bytes:
    """Return a TLS record with a ClientHello that names a server."""
    names = b"\0" + struct.pack(">H", len(name)) + name
    extension = struct.pack(">HHH", 0, len(names) + 2, len(names)) + names
    rest = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + struct.pack(">H", len(extension)) + extension
    hello = b"\1" + len(rest).to_bytes(3, "big") + rest
    return b"\x16\3\1" + struct.pack(">H", len(hello)) + hello


def write(target: str, folder: Path) -> int:
    """Write the seeds of a target and the inputs that once failed into a folder; return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    inputs = {*seeds(target), *(path.read_bytes() for path in failed_inputs(target))}
    for number, data in enumerate(sorted(inputs)):
        (folder / f"seed-{number:05d}").write_bytes(data)
    return len(inputs)


def records_fields() -> Iterator[bytes]:
    """Yield the beginnings of the records fields in fixtures/frames."""
    for line in _lines(FRAMES / "produce.jsonl.gz", FRAMES / "fetch.jsonl.gz"):
        yield from (bytes.fromhex(records["hex"] or "")[:MOST] for records in line.get("records", []))


def frames(direction: str) -> Iterator[tuple[Line, bytes]]:
    """Yield short frames of every API, with their lines in fixtures/frames. ``direction``: "request" or "response"."""
    for path in sorted(FRAMES.glob("*.jsonl.gz")):
        lines = [line for line in _lines(path) if line["direction"] == direction and len(line["hex"]) <= 2 * MOST]
        lines.sort(key=lambda line: -line["api_version"])
        yield from ((line, bytes.fromhex(line["hex"])) for line in lines[:: max(1, len(lines) // PER_FILE)])


def _lines(*paths: Path) -> Iterator[Line]:
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _prefixed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame
