"""Files of every kind, which have the same records."""

from __future__ import annotations

import gzip
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from captures import all_of, generations, greeting, heartbeats
from tools.pcap import ETHERNET, RAW, Talk, block, enhanced, interface, packets, pcap, pcapng, section

from kwire.capture import Problem
from kwire.capture.files.capture_file import CaptureFile, each, find

TALK = Talk()
SEGMENTS = [*TALK.open(), *greeting(TALK), *heartbeats(TALK, 5), *TALK.close()]
PACKETS = list(packets(SEGMENTS))
EXPECTED = [(n, n) for n in range(1, 6)]


def half(kind: int) -> bytes:
    """Return one of two sections, which differ in byte order, unit of time and link type, with all skippable blocks."""
    first, second = PACKETS[:6], list(packets(SEGMENTS[6:], RAW))
    out = section("<") + block(5, b"statistics") + interface(options=struct.pack("<HH8s", 2, 8, b"loopback"))
    out += interface(RAW, tsresol=9) + block(0x0A, b"\x54\x4c\x53\x4b" + bytes(8))
    out += b"".join(enhanced(t, data, size) for t, data, size in first)
    if kind == 0:
        out += b"".join(enhanced(t * 1_000, data, size, number=1) for t, data, size in second)
        return out
    out += section(">") + interface(RAW, order=">", tsresol=0x80 | 20)
    return out + b"".join(enhanced((t << 20) // 1_000_000 + 1, data, size, order=">") for t, data, size in second)


FILES = {
    "little-endian": pcap(PACKETS),
    "big-endian": pcap(PACKETS, order=">"),
    "nanoseconds": pcap(PACKETS, nano=True),
    "big-endian nanoseconds": pcap(PACKETS, order=">", nano=True),
    "pcapng": pcapng(PACKETS),
    "pcapng big-endian": pcapng(PACKETS, order=">"),
    "pcapng, two interfaces": half(0),
    "pcapng, two sections": half(1),
    "gzip": gzip.compress(pcap(PACKETS)),
    "gzip in two members": gzip.compress(pcap(PACKETS)[:300]) + gzip.compress(pcap(PACKETS)[300:]),
    "gzip of pcapng": gzip.compress(pcapng(PACKETS)),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("size", [64, 4_096])
def test_the_same_records(name: str, size: int, written: Callable[..., str]) -> None:
    path = written(FILES[name])
    file = CaptureFile(path, block=size)
    times = [int(time) for found in file.blocks() for time in found.times]
    assert file.problems == []
    assert times == [time for time, _, _ in PACKETS]
    calls, _, problems = all_of(path)
    assert (generations(calls), problems) == (EXPECTED, [])


def test_packets_without_a_time(written: Callable[..., str]) -> None:
    data = section() + interface(snaplen=0)
    for time_us, packet, size in PACKETS[:5]:
        data += enhanced(time_us, packet, size)
    for _, packet, size in PACKETS[5:]:
        data += block(3, struct.pack("<I", size) + packet)
    assert generations(all_of(written(data))[0]) == EXPECTED


def test_obsolete_packet_blocks(written: Callable[..., str]) -> None:
    data = section() + interface()
    for t, packet, size in PACKETS:
        data += block(2, struct.pack("<HHIIII", 0, 0, t >> 32, t & 0xFFFFFFFF, len(packet), size) + packet)
    assert generations(all_of(written(data))[0]) == EXPECTED


def test_a_frame_log(written: Callable[..., str]) -> None:
    lines = []
    for number, segment in enumerate(s for s in SEGMENTS if s.payload):
        direction = "request" if segment.target == TALK.broker else "response"
        line = {"time_us": number, "connection": "c1", "client": "a:1", "broker": "b:2", "direction": direction}
        lines.append(json.dumps(line | {"hex": segment.payload[4:].hex()}))
    path = written("\n".join(lines).encode(), "frames.jsonl")
    calls, connections, problems = all_of(path)
    assert (generations(calls), problems) == (EXPECTED, [])
    assert (connections[0].client, connections[0].broker, connections[0].software_name) == ("a:1", "b:2", "tester")
    calls, _, problems = all_of(written("\n".join([*lines, '{"time_us": 1}']).encode(), "frames.jsonl"))
    assert generations(calls) == EXPECTED
    assert "direction" in problems[0].reason
    assert problems[0].position == len("\n".join(lines)) + 1


def test_byte_order_mark_of_a_frame_log(written: Callable[..., str]) -> None:
    line = {"time_us": 5, "client": "a:1", "broker": "b:2", "direction": "request", "hex": "00"}
    for mark in (b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n"):
        file = CaptureFile(written(mark + json.dumps(line).encode()))
        assert file.is_log
        assert [frame.time_us for frame in file.frames()] == [5]
        assert file.problems == []


def test_folders_and_files_in_order_of_time(written: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    later, earlier = pcap(PACKETS[8:]), pcap(PACKETS[:8])
    (tmp_path / "sub" / "a.pcap").write_bytes(later)
    (tmp_path / "z.pcap.gz").write_bytes(gzip.compress(earlier))
    (tmp_path / "notes.txt").write_text("not looked at")
    assert [Path(path).name for path in find([tmp_path])] == ["z.pcap.gz", "a.pcap"]
    calls, connections, _ = all_of(tmp_path)
    assert generations(calls) == EXPECTED  # frames and their answers cross the files
    assert len(connections) == 1


def test_a_file_with_several_paths_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a link to its newest file, and a file that is named beside its folder."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.jsonl").touch()
    (tmp_path / "in" / "a.jsonl").symlink_to("b.jsonl")
    (tmp_path / "c.jsonl").symlink_to("in/b.jsonl")
    monkeypatch.chdir(tmp_path)
    assert each(["in", "./in/b.jsonl", str(tmp_path / "in"), "c.jsonl"]) == ["in/b.jsonl"]
    assert each(["c.jsonl", "-", "-"]) == ["c.jsonl", "-"]


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """It would be opened several times: the second time blocks, or misses the bytes that were read before."""
    os.mkfifo(tmp_path / "pipe.pcap")
    with pytest.raises(OSError, match="use - instead of its path"):
        find([tmp_path / "pipe.pcap"])
    assert find([tmp_path]) == []


def test_ends_of_files(written: Callable[..., str]) -> None:
    whole = pcap(PACKETS)
    for size in range(24, len(whole), 7):
        result = all_of(written(whole[:size]))
        begun = [n for n in range(len(PACKETS) + 1) if len(pcap(PACKETS[:n])) <= size][-1]
        cut = len(pcap(PACKETS[:begun]))
        assert [p.position for p in result[2]] == ([cut] if cut != size else [])


def test_a_problem_reads_well() -> None:
    assert str(Problem("a.pcap", 24, "it is cut")) == "a.pcap at byte 24: it is cut"


def test_link_types_stay_with_their_records(written: Callable[..., str]) -> None:
    file = CaptureFile(written(half(0)))
    links = [int(link) for found in file.blocks() for link in found.links]
    assert set(links[:6]) == {ETHERNET}
    assert set(links[6:]) == {RAW}
