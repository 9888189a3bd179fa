"""The conversion of packets of every kind to segments, in parts of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from captures import COMMITTED, all_of, generations, greeting, heartbeats
from hypothesis import given
from hypothesis import strategies as st
from tools.pcap import (
    ETHERNET,
    LOOP,
    NULL,
    RAW,
    SLL,
    SLL2,
    START,
    TUNNELS,
    UDP,
    Segment,
    Talk,
    datagram,
    fragments,
    framed,
    ip_packet,
    ipv4,
    outer,
    packets,
    pcap,
    pcapng,
    tunnelled,
)

from kwire.capture import Call, Segments, Skipped, read, read_segments, splits
from kwire.capture.files.capture_file import CaptureFile
from kwire.capture.limits import MAX_EARLY_FRAGMENTS
from kwire.capture.tcp.packets import SegmentReader
from kwire.capture.tcp.segments import unpack_key

FOUR, SIX = Talk(), Talk(client=("fd00::1", 50_000), broker=("fd00::2", 9092))


def spoken(talk: Talk) -> list[Segment]:
    return [*talk.open(), *greeting(talk), *heartbeats(talk, 5), *talk.close()]


SEGMENTS = {4: spoken(FOUR), 6: spoken(SIX)}
EXPECTED = [(n, n) for n in range(1, 6)]
WAYS: list[tuple[int, dict[str, Any]]] = [(link, {}) for link in (ETHERNET, NULL, RAW, LOOP, SLL, SLL2)]
WAYS += [(ETHERNET, {"vlans": [0x8100]}), (ETHERNET, {"vlans": [0x88A8, 0x8100]}), (SLL, {"vlans": [0x8100]})]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(("link", "options"), WAYS)
def test_link_types(link: int, options: dict[str, Any], version: int, written: Callable[..., str]) -> None:
    path = written(pcap(packets(SEGMENTS[version], link, **options), link))
    calls, connections, _ = all_of(path)
    assert generations(calls) == EXPECTED
    talk = FOUR if version == 4 else SIX
    shown = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in (talk.client, talk.broker)]
    assert [connections[0].client, connections[0].broker] == shown
    assert connections[0].closed == "fin"


def inside(tunnel: str, segments: list[Segment]) -> list[tuple[int, bytes, int]]:
    frames = [(segment.time_us, tunnelled(ip_packet(segment), tunnel)) for segment in segments]
    return [(time_us, frame, len(frame)) for time_us, frame in frames]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("tunnel", TUNNELS)
def test_tunnels(tunnel: str, version: int, written: Callable[..., str]) -> None:
    calls, connections, problems = all_of(written(pcap(inside(tunnel, SEGMENTS[version]))))
    assert generations(calls) == EXPECTED
    assert connections[0].closed == "fin"
    assert problems == []


def test_tunnels_beside_plain_packets(written: Callable[..., str]) -> None:
    """All packets are in one block: there is one connection, and each packet counts once."""
    plain = list(packets(SEGMENTS[4]))
    ways = [inside(tunnel, SEGMENTS[4]) for tunnel in TUNNELS]
    mixed = [[plain, *ways][number % (1 + len(ways))][number] for number in range(len(plain))]
    calls, connections, problems = all_of(written(pcap(mixed)))
    assert generations(calls) == EXPECTED
    assert (len(connections), connections[0].retransmitted, problems) == (1, 0, [])


def test_udp_that_is_no_tunnel_is_not_tcp(written: Callable[..., str]) -> None:
    frame = framed(outer(datagram(bytes(60), 53), UDP))
    assert [(one.reason, one.packets) for one in read(written(pcap([(0, frame, len(frame))])))] == [("not_tcp", 1)]


@pytest.mark.parametrize("tunnel", TUNNELS)
def test_packet_in_a_tunnel_cut_anywhere(tunnel: str, written: Callable[..., str]) -> None:
    ((time_us, frame, size),) = inside(tunnel, [SEGMENTS[4][3]])
    cut = [(time_us + number, frame[:number], size) for number in range(1, size)]
    skipped = [one for one in read(written(pcap(cut))) if isinstance(one, Skipped)]
    assert {one.reason for one in skipped} <= {"snaplen", "not_ip", "not_tcp"}
    assert sum(one.packets for one in skipped) == len(cut)


def test_ipv6_with_headers_before_tcp(written: Callable[..., str]) -> None:
    assert generations(all_of(written(pcap(packets(SEGMENTS[6], extension=True))))[0]) == EXPECTED


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("order", ["forwards", "backwards", "with others between"])
def test_fragments(version: int, order: str, written: Callable[..., str]) -> None:
    made: list[tuple[int, bytes, int]] = []
    for number, segment in enumerate(SEGMENTS[version]):
        parts = [framed(part) for part in fragments(segment, 40, number)]
        parts = parts[::-1] if order == "backwards" else parts
        made += [(segment.time_us, part, len(part)) for part in parts]
        if order == "with others between":
            made[-1:-1] = packets([Segment(segment.time_us, ("10.9.9.9", 1), ("10.9.9.8", 2), number, 0, 16, b"x")])
    path = written(pcap(made))
    assert generations(all_of(path, ports=[9092])[0]) == EXPECTED
    whole = columns(read_segments(splits(path, 10**9)[0]))
    for size in (4_096, 100):
        assert joined(path, size) == whole


def columns(found: Any) -> list[tuple[Any, ...]]:
    """Return segments with their payload, as tuples."""
    out = []
    for segments in found:
        assert isinstance(segments, Segments)
        table = segments.columns()
        names = [name for name in table if name != "connection"]
        keys = [unpack_key(key) for key in table["connection"]]
        rows = zip(keys, *(table[name].tolist() for name in names), strict=True)
        out += [(*row, segments.payload(n)) for n, row in enumerate(rows)]
    return out


def joined(path: str, size: int) -> list[tuple[Any, ...]]:
    return [row for split in splits(path, size) for row in columns(read_segments(split))]


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_splits_of_any_size_give_the_same(path: Any) -> None:
    whole = joined(str(path), 10**9)
    for size in (1, 5_000, 20_011):
        assert joined(str(path), size) == whole


@given(st.integers(1, 3_000), st.booleans())
def test_splits_anywhere(size: int, new: bool) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
        file.write((pcapng if new else pcap)(packets(SEGMENTS[4])))
        file.flush()
        parts = splits(file.name, size)
        assert [a.stop for a in parts[:-1]] == [b.start for b in parts[1:]]
        assert joined(file.name, size) == joined(file.name, 10**9)


def test_packets_without_tcp_are_counted(written: Callable[..., str]) -> None:
    udp = bytearray(framed(next(iter(packets(SEGMENTS[4], RAW)))[1]))
    udp[14 + 9] = 17
    others = [(1, bytes(udp), len(udp)), (2, bytes(12) + b"\x08\x06" + bytes(28), 42), (3, b"short", 5)]
    segments = next(iter(read_segments(splits(written(pcap(others)))[0])))
    assert isinstance(segments, Segments)
    assert segments.skipped == {"not_tcp": 1, "not_ip": 1, "cut_headers": 1}
    segments = next(iter(read_segments(splits(written(pcap(others, link=147)))[0])))
    assert isinstance(segments, Segments)
    assert segments.skipped == {"unknown_link": 3}


def test_offloaded_packets_say_no_length(written: Callable[..., str]) -> None:
    made = []
    for time_us, data, size in packets(SEGMENTS[4]):
        made.append((time_us, data[:16] + b"\0\0" + data[18:], size))
    assert generations(all_of(written(pcap(made)))[0]) == EXPECTED


def test_padding_of_short_packets_is_no_payload(written: Callable[..., str]) -> None:
    made = [(time_us, data + bytes(6), size + 6) for time_us, data, size in packets(SEGMENTS[4])]
    calls, connections, _ = all_of(written(pcap(made)))
    assert (generations(calls), connections[0].gaps) == (EXPECTED, 0)


def test_early_fragments_of_an_earlier_file_are_read(written: Callable[..., str]) -> None:
    """``tcpdump -C`` begins a new file between two fragments of a packet."""
    before, after = [], []
    for number, segment in enumerate(SEGMENTS[4]):
        first, *later = [framed(part) for part in fragments(segment, 40, number)]
        parts = [(segment.time_us, part, len(part)) for part in [*later, first]]
        if number == 5:
            before += parts[:-1]
            after.append(parts[-1])
        else:
            (after if number > 5 else before).extend(parts)
    assert len(before) > 5
    files = [written(pcap(before), "trace0.pcap"), written(pcap(after), "trace1.pcap")]
    calls, connections, problems = all_of(*files, ports=[9092])
    assert generations(calls) == EXPECTED
    assert [connection.gaps for connection in connections] == [0]
    assert problems == []


def test_fragment_that_ends_before_its_payload_is_skipped(written: Callable[..., str]) -> None:
    """The header has 60 bytes, but the whole packet has 20."""
    talk = Talk()
    made = [*packets([*talk.open(), *greeting(talk)])]
    first, second = fragments(talk.segment(True, 16, b"x" * 60), 48)
    false = bytearray(second)
    false[0] = 0x4F
    false[2:4] = b"\0\x14"
    made += [(talk.time_us, framed(part), len(framed(part))) for part in (first, bytes(false))]
    path = written(pcap(made))
    sizes = [size for part in read_segments(splits(path)[0]) if isinstance(part, Segments) for size in part.size]
    assert min(sizes) >= 0
    reading = read(path)
    assert list(reading)
    assert Skipped(path, 1, "bad_headers") in reading.skipped


def early_fragments(packet: int, count: int, size: int = 1_000) -> list[tuple[int, bytes, int]]:
    """Return later fragments of a packet whose first fragment is not captured."""
    source, target = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    made = [framed(ipv4(source, target, bytes(size), offset=8, more=True, number=packet)) for _ in range(count)]
    return [(1, part, len(part)) for part in made]


def test_buffered_fragments_are_limited_in_bytes(written: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest packets are dropped for a newer one; of one packet alone, the fragments above the limit."""
    monkeypatch.setattr("kwire.capture.tcp.fragments.MAX_EARLY_FRAGMENT_BYTES", 10_000)
    reader = SegmentReader()
    path = written(pcap([part for number in range(100) for part in early_fragments(number, 5)]))
    for block in CaptureFile(path).blocks():
        reader.segments(block)
    assert reader.fragments.given_up == {path: 490}
    assert reader.fragments.finish() == [Skipped(path, 500, "no_first_fragment")]
    path = written(pcap(early_fragments(1, 50)))
    for block in CaptureFile(path).blocks():
        reader.segments(block)
    assert reader.fragments.finish() == [Skipped(path, 50, "no_first_fragment")]
    assert list(read(written(pcap([*early_fragments(1, 50), *packets(SEGMENTS[4])]))))


def test_dropped_fragments_count_if_their_packet_begins_again(written: Callable[..., str]) -> None:
    """A sender uses the identification of a packet again."""
    first = framed(fragments(Talk().segment(True, 16, b"x" * 60), 48)[0])
    path = written(pcap([*early_fragments(7, MAX_EARLY_FRAGMENTS + 3), (2, first, len(first)), (3, first, len(first))]))
    reading = read(path)
    assert list(reading)
    assert reading.skipped == [Skipped(path, 3, "no_first_fragment")]


def test_duplicate_fragment_does_not_complete_a_packet(written: Callable[..., str]) -> None:
    """A mirror port captures packets twice; the last fragment arrives before the others."""
    payload = bytes(range(200))
    first, *middle, last = [framed(part) for part in fragments(Talk().segment(True, 16, payload), 40)]
    parts = [(1, part, len(part)) for part in (first, *[last] * (len(middle) + 1), *middle)]
    path = written(pcap(parts))
    rows = [segments for segments in read_segments(splits(path)[0]) if isinstance(segments, Segments)]
    pieces = {int(each.seq[n]): each.payload(n) for each in rows for n in range(len(each))}
    assert b"".join(data for _, data in sorted(pieces.items())) == payload


@pytest.mark.parametrize("order", ["forwards", "backwards"])
def test_repeated_fragments_of_a_complete_packet_are_not_counted(order: str, written: Callable[..., str]) -> None:
    """``tcpdump -i any`` captures a packet at each interface that it passes."""
    made: list[tuple[int, bytes, int]] = []
    for number, segment in enumerate(SEGMENTS[4]):
        parts = [framed(part) for part in fragments(segment, 40, number)]
        for part in parts[::-1] if order == "backwards" else parts:
            made += [(segment.time_us, part, len(part))] * 2
    reading = read(written(pcap(made)), ports=[9092])
    calls = [item for item in reading if isinstance(item, Call)]
    assert generations(calls) == EXPECTED
    assert reading.skipped == []


@pytest.mark.parametrize("hidden", ["first", "last"])
def test_an_incomplete_packet_ends_after_a_minute(hidden: str, written: Callable[..., str]) -> None:
    """The sender uses the identification of the packet again."""
    talk = Talk()
    old, new = (talk.segment(True, 16, content * 200) for content in (b"o", b"n"))
    before, after = ([framed(part) for part in fragments(segment, 120, 7)] for segment in (old, new))
    kept = before[1:] if hidden == "first" else before[:1]
    late = START + 61_000_000
    parts = [*((START, part, len(part)) for part in kept), *((late, part, len(part)) for part in after[::-1])]
    path = written(pcap(parts))
    found = list(read_segments(splits(path)[0]))
    rows = [segments for segments in found if isinstance(segments, Segments)]
    found_late = [(each, n) for each in rows for n in range(len(each)) if each.time_us[n] == late]
    pieces = {int(each.seq[n]) - new.seq: each.payload(n) for each, n in found_late}
    assert (min(pieces), sum(map(len, pieces.values())), {*b"".join(pieces.values())}) == (0, 200, {*b"n"})
    skipped = [one for one in found if isinstance(one, Skipped)]
    assert skipped == ([Skipped(path, len(kept), "no_first_fragment")] if hidden == "first" else [])
