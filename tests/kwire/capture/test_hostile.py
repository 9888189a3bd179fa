"""Bad captures, row by row of the list of bad inputs: all before the damage, a note with the place, bounded memory."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable

import pytest
from captures import all_of, generations, greeting, heartbeats
from tools.pcap import Segment, Talk, block, enhanced, framed, interface, ip_packet, packets, pcap, pcapng, section

from kwire.capture.limits import MAX_CONNECTIONS
from kwire.capture.packets import ACK, SYN

TALK = Talk()
PACKETS = list(packets([*TALK.open(), *greeting(TALK), *heartbeats(TALK, 5)]))
GOOD, NEW = pcap(PACKETS), pcapng(PACKETS)
LIMIT = 400  # MiB of a whole process

DAMAGED = {  # file, heartbeats found, byte of the note, what it says
    "148 empty": (b"", 0, 0, "an empty file"),
    "148 three bytes": (b"\xd4\xc3\xb2", 0, 0, "not a capture: it begins with d4 c3 b2"),
    "148 bad magic": (b"\xd4\xc3\xb2\xa2" + GOOD[4:], 0, 0, "not a capture"),
    "148 half a header": (GOOD[:20], 0, 20, "ends inside its header"),
    "150 a record of 2 GiB": (
        GOOD + struct.pack("<IIII", 1, 1, 2**31 - 1, 2**31 - 1),
        5,
        len(GOOD),
        "a record of 2147483647 bytes",
    ),
    "150 a record beyond the snapshot length": (
        GOOD + struct.pack("<IIII", 1, 1, 2_000_000, 0) + bytes(100),
        5,
        len(GOOD),
        "a record of 2000000 bytes",
    ),
    "151 cut inside a packet": (GOOD[:-10], 4, len(pcap(PACKETS[:-1])), "ends inside a record"),
    "152 a block of 2 GiB": (
        NEW + struct.pack("<II", 6, 0x7FFFFFF0) + bytes(64),
        5,
        len(NEW),
        "a block of 2147483632 bytes",
    ),
    "152 a block not of whole words": (NEW + struct.pack("<II", 6, 33) + bytes(64), 5, len(NEW), "a block of 33 bytes"),
    "152 a block too small": (NEW + struct.pack("<II", 6, 8) + bytes(64), 5, len(NEW), "a block of 8 bytes"),
    "152 another length at its end": (
        NEW + struct.pack("<II", 9, 16) + bytes(4) + struct.pack("<I", 20),
        5,
        len(NEW),
        "ends as one of 20",
    ),
    "153 a packet larger than its block": (
        NEW + block(6, struct.pack("<IIIII", 0, 0, 0, 500, 500) + bytes(20)),
        5,
        len(NEW),
        "room for 20",
    ),
    "153 an interface that is not there": (NEW + enhanced(1, b"x" * 60, 60, number=7), 5, len(NEW), "interface 7"),
    "153 a byte order that is none": (NEW + block(0x0A0D0D0A, bytes(16)), 5, len(NEW), "byte order"),
    "164 gzip cut": (gzip.compress(GOOD)[:-30], None, None, "cut"),
    "164 gzip damaged": (gzip.compress(GOOD)[:-200] + bytes(200), None, None, ""),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage(name: str, written: Callable[..., str]) -> None:
    data, count, position, reason = DAMAGED[name]
    calls, _, problems = all_of(written(data))
    assert reason in problems[0].reason
    assert len(problems) == 1
    if count is not None:
        assert [pair for pair in generations(calls) if pair[1] is not None] == [(n, n) for n in range(1, count + 1)]
        assert problems[0].position == position


def options_that_lie() -> bytes:
    bad = struct.pack("<HH", 9, 40_000) + bytes(4)
    good = interface(options=bad) + interface(tsresol=0xFF) + interface(tsresol=0x7F)
    return section() + good + block(0xBAD, b"x" * 40) + b"".join(enhanced(*packet) for packet in PACKETS)


def bomb(size: int) -> bytes:
    """A pcap of nothing but empty records, packed."""
    packer = zlib.compressobj(9, wbits=31)
    out = packer.compress(GOOD)
    for _ in range(size // 1_000_000):
        out += packer.compress(bytes(1_000_000))
    return out + packer.flush()


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
    """Frames that say they have 100 MiB, on many connections, of which little comes."""
    made: list[Segment] = []
    for n in range(2_000):
        talk = Talk(client=("10.1.0.1", 1_000 + n))
        made += talk.open() + greeting(talk)
        made += talk.say(True, (100 * 2**20).to_bytes(4, "big") + b"\0\x0c\0\4\0\0\0\1\0\x09billing-7" + bytes(20_000))
    return pcap([*PACKETS, *packets(made)])


def holes() -> bytes:
    """Segments behind a hole that is never filled, far more than may wait."""
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


BOUNDED: dict[str, Callable[[], bytes]] = {
    "153 options that lie, unknown blocks": options_that_lie,
    "155 fragments without a first": fragments_without_a_first,
    "160 a hole that is never filled": holes,
    "162 100,000 connections": lambda: many_connections(100_000),
    "162 frames of which little comes": promised_frames,
    "164 a bomb": lambda: bomb(300_000_000),
}


# The peak of this process alone: ru_maxrss begins with that of the process which started it.
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


def test_a_bomb_ends_with_a_note(written: Callable[..., str]) -> None:
    problems = all_of(written(bomb(100_000_000)))[2]
    assert "more than 200 times" in problems[0].reason


def test_connections_that_make_room(written: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.capture.reading.Conversations.__init__.__defaults__", (10,))
    _, connections, _ = all_of(written(many_connections(50)))
    assert len(connections) == 51
    assert MAX_CONNECTIONS > 10_000


@pytest.mark.parametrize("checksum", [b"\xff\xff", b"\0\0"])
def test_checksums_are_not_verified(checksum: bytes, written: Callable[..., str]) -> None:
    made = [(time_us, data[:50] + checksum + data[52:], size) for time_us, data, size in PACKETS]
    assert generations(all_of(written(pcap(made)))[0]) == [(n, n) for n in range(1, 6)]
