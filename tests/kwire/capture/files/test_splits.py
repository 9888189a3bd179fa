"""Guessed parts of a file have the same packets as exact ones, or are reported as wrong."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tools.pcap import Segment, Talk, block, fragments, framed, interface, packets, pcap, pcapng

from kwire.capture import Problem, Segments, Split, read_segments, splits
from kwire.capture.files.splits import NOT_PROVEN, Guesses, guessed

WAYS = [(pcap, {}), (pcap, {"order": ">"}), (pcap, {"nano": True}), (pcapng, {}), (pcapng, {"order": ">"})]


def talked(payloads: list[bytes]) -> list[Segment]:
    talk = Talk()
    return [*talk.open(), *(talk.segment(True, 16, payload) for payload in payloads), *talk.close()]


SPOKEN = talked([bytes([n % 251]) * (n * 37 % 1_400 + 1) for n in range(600)])


def rows(parts: list[Split], *, guess: bool = False) -> tuple[list[tuple[Any, ...]], list[Problem]]:
    """Return place and payload of each segment, and the problems."""
    found, problems = [], []
    for part, then in zip(parts, [*parts[1:], None], strict=True):
        for item in read_segments(part, guess=guess, then=then):
            if isinstance(item, Segments):
                found += [(int(item.position[n]), item.payload(n)) for n in range(len(item))]
            elif isinstance(item, Problem):
                problems.append(item)
    return found, problems


@pytest.mark.parametrize("size", [1_000, 20_011, 65_536, 1 << 40])
@pytest.mark.parametrize(("write", "options"), WAYS)
def test_the_same_as_exact(write: Any, options: dict[str, Any], size: int, written: Callable[..., str]) -> None:
    path = written(write(packets(SPOKEN), **options))
    parts = guessed(path, size)
    alone = [Guesses(path, size).part(number) for number in reversed(range(3 + Path(path).stat().st_size // size))]
    assert [found[0] for found in reversed(alone) if found] == parts
    assert [found[1].start for found in reversed(alone) if found and found[1]] == [part.start for part in parts[1:]]
    assert len(parts) > 1 or size > 1_000_000
    assert rows(parts, guess=True) == rows(splits(path, 1 << 40))


def test_a_capture_of_a_capture(written: Callable[..., str]) -> None:
    """Payload that looks like records makes a guess wrong; the reader of the part before it reports this."""
    inner = pcap(packets(SPOKEN))
    path = written(
        pcap([(1_700_000_000_000_000, bytes(54) + inner[at : at + 150_000], 150_054) for at in (0, 150_000)])
    )
    _, problems = rows(guessed(path, 20_000), guess=True)
    assert {problem.reason for problem in problems} >= {NOT_PROVEN}
    assert rows(splits(path, 20_000))[1] == []


def test_a_packet_in_fragments_is_not_cut(written: Callable[..., str]) -> None:
    talk = Talk()
    whole = [talk.segment(True, 16, bytes([n]) * 1_000) for n in range(40)]
    made = [
        (segment.time_us, framed(part), len(framed(part)))
        for number, segment in enumerate(whole)
        for part in fragments(segment, 400, number)
    ]
    path = written(pcap(made))
    parts = guessed(path, 2_000)
    assert len(parts) > 10
    assert NOT_PROVEN in {problem.reason for problem in rows(parts, guess=True)[1]}


def test_interface_described_later(written: Callable[..., str]) -> None:
    """The parts after the position of the description would not contain it."""
    made = pcapng(packets(SPOKEN))
    half = splits(written(made), 50_000)[4].start
    path = written(made[:half] + interface(1) + made[half:])
    assert NOT_PROVEN in {problem.reason for problem in rows(guessed(path, 50_000), guess=True)[1]}
    assert rows(splits(path, 50_000))[1] == []


def test_gzip_and_other_files(written: Callable[..., str]) -> None:
    (part,) = guessed(written(gzip.compress(pcap(packets(SPOKEN)))), 1_000)
    assert part.packed
    assert guessed(written(b"not a capture"), 1_000) == []


def test_a_file_that_is_cut(written: Callable[..., str]) -> None:
    path = written(pcap(packets(SPOKEN))[:-5])
    result = rows(guessed(path, 20_000), guess=True)
    assert result == rows(splits(path, 1 << 40))
    assert len(result[1]) == 1


DAMAGED = [  # changes of a capture with 600 packets
    lambda data: data + bytes(100_000),
    lambda data: data[:200_000] + bytes(3_000) + data[203_000:],
]


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_not_read_by_guessing(damage: Callable[[bytes], bytes], written: Callable[..., str]) -> None:
    path = written(damage(pcap(packets(SPOKEN))))
    assert NOT_PROVEN in {problem.reason for problem in rows(guessed(path, 10_000), guess=True)[1]}
    assert rows(splits(path, 10_000)) == rows(splits(path, 1 << 40))


def test_a_part_that_begins_with_a_packet_without_time(written: Callable[..., str]) -> None:
    """It has the time of the packet before it, which is in another part."""
    made = pcapng(packets(SPOKEN))
    half = splits(written(made), 50_000)[4].start
    path = written(made[:half] + block(3, struct.pack("<I", 60) + bytes(60)) * 5_000 + made[half:])
    parts = guessed(path, 50_000)
    assert NOT_PROVEN in {problem.reason for problem in rows(parts, guess=True)[1]}
