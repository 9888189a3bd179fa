"""Conversion of packets to TCP segments as columns, one block at a time, without an object per packet.

A segment contains the file position of its payload, so the payload is not copied. A segment without payload is left out
unless it opens or closes a connection. Checksums are not verified: in a capture on the sending host they may be wrong,
because the network card computes them after the capture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import field, replace
from typing import Any

import numpy as np

from kwire.capture.files.blocks import SNAPLEN, Block, Ints, Problem, Skipped, Split
from kwire.capture.files.capture_file import CaptureFile
from kwire.capture.files.splits import NOT_PROVEN, UNKNOWN, is_proven
from kwire.capture.limits import BLOCK
from kwire.capture.tcp.fragments import Fragments
from kwire.capture.tcp.headers import PacketHeaders, Rows
from kwire.capture.tcp.segments import Key, Segments
from kwire.capture.tls.keylog import KeyLog
from kwire.lazy_dataclass import dataclass


@dataclass(slots=True)
class SegmentReader:
    """A reader of TCP segments from blocks of packets.

    Attributes:
        ports: ports of brokers; empty for all traffic.
        fragments: packets of earlier blocks with missing fragments.
        unknown: unknown link types so far.
    """

    ports: Collection[int] = ()
    fragments: Fragments = field(default_factory=Fragments)
    unknown: set[int] = field(default_factory=set)

    def segments(self, block: Block) -> Segments:
        """Return the segments of one block. Update ``fragments`` and ``unknown``."""
        parse = PacketHeaders(block)
        rows = parse.rows
        spare: dict[int, bytes] = {}
        if parse.fragments:
            rows = self.fragments.join(parse, rows, spare)
        if self.ports:
            wanted = np.array(sorted(self.ports), np.int64)
            rows = rows.only(np.isin(rows.sport, wanted) | np.isin(rows.dport, wanted))
        self.unknown |= parse.unknown
        cut = (rows.captured < rows.size) & (block.sizes[rows.row] < block.originals[rows.row])
        parse.skip(SNAPLEN, int(np.count_nonzero(cut)))
        return _segments(block, rows, parse.skipped, spare)

    def problems(self, path: str) -> list[Problem]:
        """Return a problem for each unknown link type that was found since the previous call of this method.

        ``path``: path of the file.
        """
        kinds, self.unknown = sorted(self.unknown), set()
        return [Problem(path, 0, f"unknown link type {kind}: its packets are skipped") for kind in kinds]


def _segments(block: Block, rows: Rows, skipped: dict[str, int], spare: dict[int, bytes]) -> Segments:
    """Return parsed packets as Segments. Each connection has an index, and its lower endpoint is the first.

    Args:
        block: block of the packets.
        rows: TCP segments as columns.
        skipped: number of skipped packets by reason, which the result contains.
        spare: payloads of fragments in earlier blocks, by their position in the file.
    """
    sport, dport = rows.sport.astype(np.uint64), rows.dport.astype(np.uint64)
    upward = (rows.shigh < rows.dhigh) | (
        (rows.shigh == rows.dhigh) & ((rows.slow < rows.dlow) | ((rows.slow == rows.dlow) & (sport <= dport)))
    )
    one = [np.where(upward, a, b) for a, b in ((rows.shigh, rows.dhigh), (rows.slow, rows.dlow), (sport, dport))]
    two = [np.where(upward, b, a) for a, b in ((rows.shigh, rows.dhigh), (rows.slow, rows.dlow), (sport, dport))]
    keys, flow = _numbered([*one, *two])
    return Segments(
        path=block.path,
        base=block.base,
        data=block.data,
        keys=keys,
        flow=flow,
        upward=upward,
        time_us=block.times[rows.row],
        position=block.records[rows.row] + block.base,
        start=rows.start + block.base,
        captured=rows.captured,
        size=rows.size,
        seq=rows.seq,
        ack=rows.ack,
        flags=rows.flags,
        skipped=skipped,
        spare=spare,
    )


def _numbered(columns: list[Any]) -> tuple[list[Key], Ints]:
    """Return the distinct rows of a table, and for each row its index among the distinct rows. ``columns``: columns of
    the table.
    """
    if not len(columns[0]):
        return [], np.zeros(0, np.int64)
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:  # a hash groups equal rows; collisions are resolved below
        mixed = (mixed ^ column) * np.uint64(0x9E37_79B9_7F4A_7C15)
        mixed ^= mixed >> np.uint64(29)
    _, first, flow = np.unique(mixed, return_index=True, return_inverse=True)
    if not all((column[first][flow] == column).all() for column in columns):
        table = np.stack(columns, axis=1)
        distinct, flow = np.unique(table, axis=0, return_inverse=True)
        return [tuple(map(int, row)) for row in distinct], flow.reshape(-1)  # type: ignore[misc]
    keys = list(zip(*(column[first].tolist() for column in columns), strict=True))
    return keys, flow.reshape(-1)


def read_segments(
    split: Split,
    ports: Collection[int] = (),
    *,
    guess: bool = False,
    then: Split | None = None,
    keylog: KeyLog | None = None,
) -> Iterator[Segments | Skipped | Problem]:
    """Yield the TCP segments of the records in a part of a file, one object for each block; then skipped packets and
    problems.

    Args:
        split: part of the file.
        ports: ports of brokers; empty for all traffic.
        guess: True if the boundaries of the part are guessed. If they cannot be proven right, one problem with the
            reason NOT_PROVEN is yielded instead of all damage in the file. This is also the case if the part is
            damaged, unless the only damage is a truncated last record of the file.
        then: with ``guess``, the next part; None for the last part.
        keylog: key log to which the TLS secrets in a pcapng file are added; None to ignore them.
    """
    file = CaptureFile(split.path, keylog=KeyLog() if keylog is None else keylog)
    reader = SegmentReader(ports)
    records, timed, skipped = 0, True, Counter[str]()
    for block in file.blocks(split):
        records += len(block.records)
        timed &= split.time_us != UNKNOWN or int(block.times[0]) != UNKNOWN
        segments = reader.segments(block)
        skipped.update(segments.skipped)
        yield segments
    fragmented = bool(reader.fragments)
    yield from (Skipped(split.path, count, why) for why, count in sorted(skipped.items()))
    yield from reader.fragments.finish()
    yield from reader.problems(split.path)
    if guess and not (timed and is_proven(file, then, records) and not (then and fragmented)):
        yield Problem(split.path, split.start, NOT_PROVEN)
    else:
        yield from file.problems


def splits(path: str, size: int = 64 * BLOCK) -> list[Split]:
    """Divide a capture file into parts of about ``size`` bytes, after reading all record headers.

    No part ends between two fragments of a packet or next to damage. A gzip file is one part. Raises: OSError if the
    file cannot be read.
    """
    file = CaptureFile(path, block=max(4_096, min(size, BLOCK)))
    reader = SegmentReader()
    parts: list[Split] = []
    begin: Split | None = None
    for block in file.blocks():
        if begin is None:
            begin = block.whole
            if begin.packed:
                return [begin]
        parse = PacketHeaders(block)
        if parse.fragments:
            reader.segments(block)
        then = block.then
        if then is not None and then.start - begin.start >= size and not reader.fragments:
            parts.append(replace(begin, stop=then.start))
            begin = then
    return [*parts, begin] if begin is not None else []
