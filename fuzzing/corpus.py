"""Seeds of the fuzzers from fixtures/frames and fixtures/blobs, and the inputs that once failed.

The seeds are written when a fuzzer starts. Inputs that failed are kept in fixtures/corpus/TARGET, and
tests/test_fuzzing.py runs all of them.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import targets

from kwire.layout import versions_of
from kwire.messages import APIS

ROOT = Path(__file__).parent.parent
FRAMES, BLOBS, CORPUS = (ROOT / "fixtures" / name for name in ("frames", "blobs", "corpus"))
MOST = 2_048  # bytes of a seed
PER_FILE = 12  # frames of one API and direction, the newest versions first

Line = dict[str, Any]


def failed_inputs(target: str) -> list[Path]:
    """Return the inputs that once failed in a target."""
    return sorted((CORPUS / target).glob("*"))


def seeds(target: str) -> Iterator[bytes]:
    """Yield the seeds of a target, in its input format."""
    match target:
        case "frame_buffer":
            frames = list(_frames("request"))[::20]
            for size in (0, 3, 255):
                yield bytes([size]) + b"".join(_prefixed(frame) for _, frame in frames[size % 5 :: 5])
        case "request":
            yield from (frame for _, frame in _frames("request"))
        case "response":
            for line, frame in _frames("response"):
                versions = versions_of(APIS[line["api_key"]].versions)
                yield bytes([targets.KEYS.index(line["api_key"]), versions.index(line["api_version"])]) + frame
        case "record_batch":
            for line in _lines(FRAMES / "produce.jsonl.gz", FRAMES / "fetch.jsonl.gz"):
                for records in line.get("records", []):
                    data = bytes.fromhex(records["hex"] or "")[:MOST]
                    yield from (bytes([flag]) + data for flag in (0, 1))
        case "blob":
            for line in _lines(BLOBS / "captured.jsonl.gz"):
                data = bytes.fromhex(line["hex"])
                yield bytes([targets.NAMES.index(line["type"]), data[1]]) + data[2:]
            for line in _lines(BLOBS / "StickyUserData.jsonl.gz"):
                yield bytes([targets.NAMES.index("StickyUserData"), 1]) + bytes.fromhex(line["user_data_hex"])
            for number in range(len(targets.NAMES)):
                yield from (bytes([number, version]) + bytes(12) for version in range(4))


def write(target: str, folder: Path) -> int:
    """Write the seeds of a target and the inputs that once failed into a folder; return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    inputs = {*seeds(target), *(path.read_bytes() for path in failed_inputs(target))}
    for number, data in enumerate(sorted(inputs)):
        (folder / f"seed-{number:05d}").write_bytes(data)
    return len(inputs)


def _frames(direction: str) -> Iterator[tuple[Line, bytes]]:
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
