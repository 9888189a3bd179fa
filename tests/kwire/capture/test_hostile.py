"""Damaged captures: fixtures/bad_inputs.md, under "Captures".

The data before the damage is read, the damage is reported with its place, and memory is bounded.
"""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from captures import all_of, generations, greeting, heartbeats, tls_hello
from effort import amount
from tools.pcap import (
    ETHERNET,
    LOOP,
    NULL,
    RAW,
    SLL,
    SLL2,
    Segment,
    Talk,
    block,
    enhanced,
    fragments,
    framed,
    interface,
    ip_packet,
    ipv4,
    packets,
    pcap,
    pcapng,
    section,
    shaken,
)

from kwire.capture import Call, Problem, Skipped, Split, read, read_segments, splits
from kwire.capture.files.capture_file import CaptureFile
from kwire.capture.limits import MAX_CONNECTIONS, MAX_DAMAGES
from kwire.capture.tcp.segments import ACK, SYN

TALK = Talk()
PACKETS = list(packets([*TALK.open(), *greeting(TALK), *heartbeats(TALK, 5)]))
GOOD, NEW = pcap(PACKETS), pcapng(PACKETS)
LIMIT = 400  # MiB of a whole process

DAMAGED = {  # file, heartbeats found, byte of the note, what it says
    "empty": (b"", 0, 0, "the file is empty"),
    "three bytes": (b"\xd4\xc3\xb2", 0, 0, "not a capture (pcap, pcapng or frame log): first bytes d4 c3 b2"),
    "bad magic": (b"\xd4\xc3\xb2\xa2" + GOOD[4:], 0, 0, "not a capture"),
    "half a header": (GOOD[:20], 0, 20, "the file has 20 bytes, below the 24 bytes of a pcap header"),
    "two bytes after the header": (GOOD[:26], 0, 24, "ends inside a record"),
    "a record of 2 GiB": (
        GOOD + struct.pack("<IIII", 1, 1, 2**31 - 1, 2**31 - 1),
        5,
        len(GOOD),
        "the record size 2147483647 is above",
    ),
    "a record beyond the snapshot length": (
        GOOD + struct.pack("<IIII", 1, 1, 2_000_000, 0) + bytes(100),
        5,
        len(GOOD),
        "the record size 2000000 is above",
    ),
    "cut inside a packet": (GOOD[:-10], 4, len(pcap(PACKETS[:-1])), "ends inside a record"),
    "a block of 2 GiB": (
        NEW + struct.pack("<II", 6, 0x7FFFFFF0) + bytes(64),
        5,
        len(NEW),
        "invalid block size 2147483632",
    ),
    "a block not of whole words": (NEW + struct.pack("<II", 6, 33) + bytes(64), 5, len(NEW), "invalid block size 33"),
    "a block too small": (NEW + struct.pack("<II", 6, 8) + bytes(64), 5, len(NEW), "invalid block size 8"),
    "another length at its end": (
        NEW + struct.pack("<II", 9, 16) + bytes(4) + struct.pack("<I", 20),
        5,
        len(NEW),
        "20 in the trailer",
    ),
    "a packet larger than its block": (
        NEW + block(6, struct.pack("<IIIII", 0, 0, 0, 500, 500) + bytes(20)),
        5,
        len(NEW),
        "above the 20 bytes in its block",
    ),
    "an interface that is not there": (NEW + enhanced(1, b"x" * 60, 60, number=7), 5, len(NEW), "interface 7"),
    "a byte order that is none": (NEW + block(0x0A0D0D0A, bytes(16)), 5, len(NEW), "byte-order magic"),
    "gzip cut": (gzip.compress(GOOD)[:-30], None, None, "truncated"),
    "gzip damaged": (gzip.compress(GOOD)[:-200] + bytes(200), None, None, ""),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage(name: str, written: Callable[..., str]) -> None:
    data, count, position, reason = DAMAGED[name]
    calls, _, problems = all_of(written(data))
    assert reason in problems[0].reason
    assert count is None or len(problems) == 1
    if count is not None:
        assert [pair for pair in generations(calls) if pair[1] is not None] == [(n, n) for n in range(1, count + 1)]
        assert problems[0].position == position


# --- unusual captures without damage: everything is read --------------------------------------------------------


def of(segments: list[Segment], link: int = ETHERNET, **how: Any) -> bytes:
    return pcap(packets(segments, link, **how), link)


def spoken(**how: Any) -> list[Segment]:
    """Return a connection with five heartbeats, in small segments."""
    talk = Talk(**({"mss": 40} | how))
    return [*talk.open(), *greeting(talk), *heartbeats(talk, 5), *talk.close()]


def with_strangers() -> bytes:
    """ARP, UDP, and TCP segments whose checksum is wrong, as all of ours are."""
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    udp = framed(ipv4(bytes(4), bytes(4), bytes(20)).replace(b"\x40\x06", b"\x40\x11", 1))
    return pcap([(1, arp, len(arp)), (2, udp, len(udp)), *packets(spoken())])


def with_other_bytes() -> bytes:
    """Return segments out of order, duplicated, and repeated with other bytes: the first copy counts."""
    segments = spoken()
    other = [replace(each, payload=b"?" * len(each.payload)) for each in segments if each.payload]
    return of([*shaken(segments, 1, moved=0.2, again=0.2)[:-2], *other, *segments[-2:]])


def with_a_tunnel() -> bytes:
    talk = Talk(client=("10.0.0.7", 1))
    tls = [*talk.open(), *talk.say(True, tls_hello(b"kafka.example")), *talk.say(False, b"\x16\3\3\0\x10" + bytes(16))]
    return of([*tls, *spoken()])


def used_again() -> bytes:
    """Return two connections of the same addresses and ports: one without data, then one with heartbeats."""
    return of([*Talk(isn=(9, 9)).open(), *spoken()])


UNUSUAL: dict[str, Callable[[], bytes]] = {
    "big-endian": lambda: pcap(packets(spoken()), order=">"),
    "nanoseconds, big-endian": lambda: pcap(packets(spoken()), order=">", nano=True),
    "pcapng, big-endian": lambda: pcapng(packets(spoken()), order=">"),
    **{f"link type {link}": partial(of, spoken(), link) for link in (ETHERNET, NULL, RAW, LOOP, SLL, SLL2)},
    "VLAN": lambda: of(spoken(), vlans=[0x8100]),
    "QinQ": lambda: of(spoken(), vlans=[0x88A8, 0x8100]),
    "IPv6 with headers before TCP": lambda: of(spoken(client=("fe80::1", 1), broker=("fe80::2", 9092)), extension=True),
    "fragments": lambda: pcap(
        (each.time_us, framed(part), len(part) + 14)
        for number, each in enumerate(spoken())
        for part in fragments(each, 40, number)
    ),
    "not IP, not TCP, wrong checksums": with_strangers,
    "out of order, twice, other bytes": with_other_bytes,
    "sequence numbers wrap around": lambda: of(spoken(isn=(2**32 - 50, 0xFFFFF000))),
    "begun in the middle of the greeting": lambda: of(spoken()[4:]),
    "the same ports again": used_again,
    "TLS beside it": with_a_tunnel,
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual(name: str, written: Callable[..., str]) -> None:
    calls, connections, problems = all_of(written(UNUSUAL[name]()))
    assert (generations(calls), problems) == ([(n, n) for n in range(1, 6)], [])
    notes = {note for connection in connections for note in connection.notes}
    assert notes == ({"TLS for kafka.example"} if "TLS" in name else set())
    assert bool(sum(connection.conflicts for connection in connections)) is ("other bytes" in name)


def test_unknown_link_type_is_reported(written: Callable[..., str]) -> None:
    (problem,) = all_of(written(of(spoken(), 147)))[2]
    assert "link type 147" in problem.reason


LONG = Talk()
BEATS = 400
MANY = list(packets([*LONG.open(), *greeting(LONG), *heartbeats(LONG, BEATS), *LONG.close()]))
SIZES = [16 + len(data) for _, data, _ in MANY]  # of their records in a pcap


def lying(place: int, said: int, original: int | None = None) -> bytes:
    """Return a pcap with one record whose captured size is wrong, and also its original size if given."""
    data = bytearray(pcap(MANY))
    at = 24 + sum(SIZES[:place])
    data[at + 8 : at + 12] = struct.pack("<I", said)
    data[at + 12 : at + 16] = struct.pack("<I", original) if original else data[at + 12 : at + 16]
    return bytes(data)


def lying_block(place: int, offset: int, said: int) -> bytes:
    """Return a pcapng with a block in which one field is changed."""
    parts = [section(), interface(), *(enhanced(*packet) for packet in MANY)]
    broken = bytearray(parts[place + 2])
    broken[offset : offset + 4] = struct.pack("<I", said)
    parts[place + 2] = bytes(broken)
    return b"".join(parts)


def in_the_middle(place: int, put: bytes) -> bytes:
    whole, at = pcap(MANY), 24 + sum(SIZES[:place])
    return whole[:at] + put + whole[at:]


PLACE = 5 + 2 * 100  # of the request of a heartbeat among MANY
OWN = SIZES[PLACE] - 16
GARBAGE = bytes(range(256)) * 40
LIES = {  # file, skipped bytes, reason
    "2 GiB": (lying(PLACE, 2**31 - 1), SIZES[PLACE], "the record size 2147483647 is above"),
    "4 GiB": (lying(PLACE, 2**32 - 1), SIZES[PLACE], "the record size 4294967295 is above"),
    "beyond the snapshot length": (lying(PLACE, 2_000_000), SIZES[PLACE], "the record size 2000000 is above"),
    "in the first": (lying(0, 2**31 - 1), SIZES[0], "the record size 2147483647 is above"),
    "in the last but two": (lying(len(MANY) - 3, 2**31 - 1), SIZES[-3], "the record size 2147483647 is above"),
    "too long": (lying(PLACE, OWN + 3_000), SIZES[PLACE], "not a record: implausible time or size"),
    "too long by one": (lying(PLACE, OWN + 1), SIZES[PLACE], "not a record: implausible time or size"),
    "too long, both sizes": (lying(PLACE, OWN + 3_000, OWN + 3_000), 0, f"the next record begins after {OWN}"),
    "too long by one, both sizes": (lying(PLACE, OWN + 1, OWN + 1), 0, f"the next record begins after {OWN}"),
    "up to behind the end": (lying(PLACE, 200_000), SIZES[PLACE], "the file ends inside a record"),
    "too short": (lying(PLACE, OWN - 20), 20, "not a record: implausible time or size"),
    "nothing": (lying(PLACE, 0), SIZES[PLACE], "not a record"),
    "bytes between records": (in_the_middle(PLACE, GARBAGE), len(GARBAGE), "the record size"),
    "zeros between records": (in_the_middle(PLACE, bytes(100_000)), 100_000, "not a record"),
    "a block of 2 GiB": (lying_block(PLACE, 4, 0x7FFFFFF0), None, "invalid block size 2147483632"),
    "a block of 0 bytes": (lying_block(PLACE, 4, 0), None, "invalid block size 0"),
    "a block not of whole words": (lying_block(PLACE, 4, 35), None, "invalid block size 35"),
    "a block too long": (lying_block(PLACE, 4, 4_000), None, "block length mismatch"),
    "a block up to behind the end": (lying_block(PLACE, 4, 1_000_000), None, "the file ends inside a block"),
    "another length at its end": (
        lying_block(PLACE, -4 % len(enhanced(*MANY[PLACE])), 8),
        None,
        "8 in the trailer",
    ),
    "a packet larger than its block": (lying_block(PLACE, 20, 5_000), None, "the packet size 5000"),
    "an interface that is not there": (lying_block(PLACE, 8, 9), None, "interface 9"),
}


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("packed", [False, True])
def test_reading_continues_after_a_false_length(name: str, packed: bool, written: Callable[..., str]) -> None:
    data, passed, said = LIES[name]
    calls, _, problems = all_of(written(gzip.compress(data) if packed else data))
    whole = {pair for pair in generations(calls) if pair[1] is not None and pair[0] is not None}
    missing = {(n, n) for n in range(1, BEATS + 1)} - whole
    assert missing <= {(101, 101)} if "last" not in name and "first" not in name else not missing
    assert not missing or passed != 0
    (problem,) = problems
    assert said in problem.reason
    if passed is not None:
        assert f"skipped {passed} bytes and continued" in problem.reason
        assert data[problem.position :] != b""
    elif "block" in name:
        assert f"skipped {len(enhanced(*MANY[PLACE]))} bytes and continued" in problem.reason


@pytest.mark.parametrize("name", LIES)
def test_damage_is_the_same_for_every_split(name: str, written: Callable[..., str]) -> None:
    path = written(LIES[name][0])

    def segments_of(parts: list[Split]) -> list[object]:
        results: list[object] = []
        for part in parts:
            for item in read_segments(part):
                if isinstance(item, Skipped):  # counted by part
                    continue
                results += (
                    [item]
                    if isinstance(item, Problem)
                    else list(zip(item.position.tolist(), item.captured.tolist(), strict=True))
                )
        return results

    whole = segments_of(splits(path, 1 << 40))
    problems = [item for item in whole if isinstance(item, Problem)]
    assert len(problems) == 1
    for size in (1_000, 4_096, 7_001, 20_000):
        parts = splits(path, size)
        assert len(parts) > 1
        again = segments_of(parts)
        assert [i for i in again if not isinstance(i, Problem)] == [i for i in whole if not isinstance(i, Problem)]
        assert [i for i in again if isinstance(i, Problem)] == problems
    for size in (64, 1_000):
        file = CaptureFile(path, block=size)
        positions = [at + results.base for results in file.blocks() for at in results.records.tolist()]
        assert file.problems == problems
        big = CaptureFile(path)
        assert positions == [at + results.base for results in big.blocks() for at in results.records.tolist()]


def test_number_of_reported_damages_is_limited(written: Callable[..., str]) -> None:
    """Each damage is reported up to a limit; then the rest of the file is not read."""
    data = bytearray(pcap(MANY))
    for place in range(20, 800, 20):
        at = 24 + sum(SIZES[:place])
        data[at + 8 : at + 12] = bytes([255] * 4)
    assert len(all_of(written(bytes(data)))[2]) == 39
    lines = b"no frame\n" * 3_000
    problems = all_of(written(b"{}\n" + lines, "bad.jsonl"))[2]
    assert len(problems) == MAX_DAMAGES + 2
    assert "stopped after" in problems[-1].reason


def test_repeated_damage_is_reported_once(written: Callable[..., str]) -> None:
    data = section() + b"".join(enhanced(*packet) for packet in MANY)
    (problem,) = all_of(written(data))[2]
    assert "interface 0, which has no Interface Description Block" in problem.reason
    assert f"skipped {len(data) - len(section())} bytes" in problem.reason


def test_capture_inside_a_capture_is_not_read(written: Callable[..., str]) -> None:
    """The captured traffic is a download of a capture from another day, and the record with it is damaged."""
    inner = pcap([(time_us - 10 * 86_400_000_000, data, size) for time_us, data, size in MANY[:30]])
    talk = Talk(client=("10.9.9.9", 9), mss=10_000)
    carrying = list(packets(talk.say(False, inner)))
    whole = [*MANY[:100], *carrying, *MANY[100:]]
    data = bytearray(pcap(whole))
    at = 24 + sum(SIZES[:100])
    data[at + 8 : at + 12] = bytes([255] * 4)
    calls, _, problems = all_of(written(bytes(data)))
    assert generations(calls) == [(n, n) for n in range(1, BEATS + 1)]
    assert len(problems) == 1


def options_that_lie() -> bytes:
    bad = struct.pack("<HH", 9, 40_000) + bytes(4)
    good = interface(options=bad) + interface(tsresol=0xFF) + interface(tsresol=0x7F)
    return section() + good + block(0xBAD, b"x" * 40) + b"".join(enhanced(*packet) for packet in PACKETS)


def bomb(size: int) -> bytes:
    """Return a compressed pcap that has only empty records."""
    packer = zlib.compressobj(9, wbits=31)
    out = packer.compress(GOOD)
    for _ in range(size // 1_000_000):
        out += packer.compress(bytes(1_000_000))
    return out + packer.flush()


def in_front_of_the_last(put: bytes) -> bytes:
    at = len(pcap(PACKETS[:-1]))
    return GOOD[:at] + put + GOOD[at:]


def many_connections(count: int) -> bytes:
    made = []
    for n in range(count):
        source = f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"
        for flags, payload in ((SYN, b""), (ACK, b"\0\0\0\x40\0\x0c\0\4half a frame")):
            made.append(
                Segment(TALK.time_us, (source, 1_000), ("10.200.0.1", 9092), 1 if payload else 0, 0, flags, payload)
            )
    return pcap([*PACKETS, *packets(made)])


def promised_frames() -> bytes:
    """Return frames with a size of 100 MiB, on many connections, of which few bytes are captured."""
    made: list[Segment] = []
    for n in range(2_000):
        talk = Talk(client=("10.1.0.1", 1_000 + n))
        made += talk.open() + greeting(talk)
        made += talk.say(True, (100 * 2**20).to_bytes(4, "big") + b"\0\x0c\0\4\0\0\0\1\0\x09billing-7" + bytes(20_000))
    return pcap([*PACKETS, *packets(made)])


def holes() -> bytes:
    """Return segments after a gap that is never filled, far more than may be buffered."""
    talk = Talk(client=("10.1.0.1", 1_000))
    made = talk.open()
    talk.segment(True, ACK, b"lost")
    for _ in range(30_000):
        made.append(talk.segment(True, ACK, b"x" * 1_000))
    return pcap([*PACKETS, *packets(made)])


def fragments_without_a_first() -> bytes:
    made = []
    for n in range(5_000):
        packet = bytearray(ip_packet(Segment(1, ("10.0.0.9", 1), ("10.0.0.8", 9092), 1, 1, ACK, b"x" * 500)))
        packet[4:8] = struct.pack(">HH", n, 0x2000 | 10)
        made.append((1, framed(bytes(packet)), len(packet) + 14))
    return pcap([*PACKETS, *made])


def test_fragments_without_a_first_are_reported(written: Callable[..., str]) -> None:
    """Fragments that are dropped to make room are reported, and fragments that are pending at the end."""
    path = written(fragments_without_a_first())
    reading = read(path)
    assert [item for item in reading if isinstance(item, Skipped)] == reading.skipped
    assert reading.skipped == [Skipped(path, 5_000, "no_first_fragment")]


def cut_and_lying() -> bytes:
    """Return packets whose TCP header is cut or has an impossible length, or whose IP header has one."""
    packet = framed(ip_packet(Segment(1, ("10.0.0.9", 1), ("10.0.0.8", 9092), 1, 1, ACK, b"x" * 50)))
    lies = [bytearray(packet) for _ in range(3)]
    lies[0][14] = 0x44  # IP's header
    lies[1][14 + 20 + 12] = 0x10  # TCP's
    lies[2][14 + 2 : 14 + 4] = b"\0\x28"  # of the packet: it ends in TCP's header
    return pcap([*PACKETS, (1, packet[: 14 + 30], len(packet)), *((1, bytes(lie), len(lie)) for lie in lies)])


def test_truncated_and_false_headers_are_reported(written: Callable[..., str]) -> None:
    path = written(cut_and_lying())
    reading = read(path)
    assert sum(isinstance(item, Call) for item in reading) > 4
    assert reading.skipped == [Skipped(path, 3, "bad_headers"), Skipped(path, 1, "snaplen")]
    assert reading.damage == reading.skipped[1:]


BOMB = amount(100_000_000, 300_000_000)  # bytes
CONNECTIONS = amount(20_000, 100_000)
BOUNDED: dict[str, Callable[[], bytes]] = {
    "100 MB between records": lambda: in_front_of_the_last(bytes(range(256)) * 400_000),
    "options that lie, unknown blocks": options_that_lie,
    "fragments without a first": fragments_without_a_first,
    "a hole that is never filled": holes,
    "many connections": lambda: many_connections(CONNECTIONS),
    "frames of which little comes": promised_frames,
    "a bomb": lambda: bomb(BOMB),
}


# The peak of this process only: ru_maxrss begins with the peak of the parent process.
READ = """
import sys
from kwire.capture import Call, read
beats = [i.response.throttle_time_ms for i in read(sys.argv[1], ports=[9092]) if isinstance(i, Call) and i.api_key == 12 and i.response]
print(beats, next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded(name: str, written: Callable[..., str]) -> None:
    path = written(BOUNDED[name]())
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[1, 2, 3, 4, 5] ")
    assert int(done.stdout.split()[-1]) < LIMIT


def test_decompression_bomb_is_reported(written: Callable[..., str]) -> None:
    problems = all_of(written(bomb(100_000_000)))[2]
    assert "more than 200 times" in problems[-1].reason


def test_oldest_connections_are_evicted_at_the_limit(
    written: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwire.capture.reading.Conversations.__init__.__defaults__", (10, 0))
    _, connections, _ = all_of(written(many_connections(50)))
    assert len(connections) == 51
    assert MAX_CONNECTIONS > 10_000


@pytest.mark.parametrize("checksum", [b"\xff\xff", b"\0\0"])
def test_checksums_are_not_verified(checksum: bytes, written: Callable[..., str]) -> None:
    made = [(time_us, data[:50] + checksum + data[52:], size) for time_us, data, size in PACKETS]
    assert generations(all_of(written(pcap(made)))[0]) == [(n, n) for n in range(1, 6)]
