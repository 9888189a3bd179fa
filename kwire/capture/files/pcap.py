"""The records of a pcap file.

A record header has no checksum. Therefore a record counts as valid only if a plausible record, or the end of the file,
follows it.
"""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kwire.capture.files.blocks import CUT, CUT_RECORD, US, Block, Interface, Ints, Lost, Passed, Split, words
from kwire.capture.files.salvage import NANOSECONDS, Records
from kwire.capture.limits import MAX_PACKET, NEAR_SECONDS, SNAPLEN

MAGICS = {  # byte order and ticks per second, by first bytes
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000),
    b"\xa1\xb2\xc3\xd4": (">", 1_000_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000),
    b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000),
}
HEADER = 24  # bytes of the file header
STRANGE = "not a record: implausible time or size"
BEFORE = 4  # records whose times are compared in the search for the next


def whole(path: str, head: bytes, packed: bool) -> Split:
    """Return a Split that contains all records of a pcap file.

    Args:
        path: path of the file.
        head: file header, 24 bytes.
        packed: True if the file is compressed with gzip.
    """
    order, ticks = MAGICS[head[:4]]
    _, _, shift, _, snaplen, link = struct.unpack(f"{order}HHiIII", head[4:HEADER])
    return Split(path, HEADER, None, order, (Interface(link & 0xFFFF, ticks, -shift, snaplen),), False, packed)


class Pcap:
    """A reader of pcap records.

    A record is returned when a plausible record or the end of the file follows it. If a header is implausible, the
    record size in it may be wrong. Until the next header is read, the reader then returns neither this record nor the
    one before it. After damage, the attribute ``lost`` is set; the caller then calls ``again`` instead of ``block``
    until ``lost`` is None.

    Args:
        split: the part of the file to read.

    Attributes:
        lost: position and reason of the current damage; None without damage.
        done: True once the end of the part is reached; always False for a part without ``stop``.
    """

    def __init__(self, split: Split) -> None:
        self.split = split
        self.interface = split.interfaces[0]
        self.stop = split.stop
        self.limit = min(MAX_PACKET, 4 * max(self.interface.snaplen, SNAPLEN))
        self.size_at = struct.Struct(f"{split.order}I").unpack_from
        self.lost: Lost | None = None
        self.done = False
        self.damaged = split.damaged
        self._begins = split.start == HEADER  # no record precedes the first one
        self._near: list[int] = []
        self._search: Records | None = None
        self._from = 0  # position in the file where the search continues
        self._held = False  # the data begins with the record before the damage

    def block(self, data: bytes, base: int, final: bool) -> tuple[Block | None, int]:
        """Return the complete records in ``data``, and the offset of the first byte that was not processed.

        If an invalid record follows, the attribute ``lost`` is set.

        Args:
            data: bytes of the file.
            base: position of ``data`` in the file.
            final: True if ``data`` ends at the end of the file.
        """
        starts, at, reason = self._walk(data, base, final)
        end = len(data)
        ended = base + at == self.stop or (final and at == end)
        visible = at <= end - 16 and base + at != self.stop
        heads = np.array([*starts, at] if visible else starts, np.int64)
        count, bad = len(starts), len(starts) if reason else -1
        odd = self._implausible(data, heads)
        if odd.any():
            count, bad, reason = self._count_valid(odd, count, bad, reason, ended, final)
        if bad >= 0:
            return self._before_damage(data, base, starts, bad, at if bad == len(starts) else starts[bad], reason, odd)
        if count == len(starts) and not visible and not ended:
            count = max(count - 1, 0)  # the record after the last one is not read yet
        self.done = self.stop is not None and base + at >= self.stop and count == len(starts)
        used = at if count == len(starts) else starts[count]
        return self._block_of(data, base, starts[:count], used, whole=True), used

    def then(self, start: int) -> Split:
        """Return a Split that contains the file from position ``start`` to its end."""
        return replace(self.split, start=start, damaged=self.damaged)

    def _walk(self, data: bytes, base: int, final: bool) -> tuple[list[int], int, str]:
        """Find the records in ``data`` by following the sizes in their headers.

        Args:
            data: bytes of the file.
            base: position of ``data`` in the file.
            final: True if ``data`` ends at the end of the file.

        Returns: the offsets of the complete records in ``data``; the offset after them; and the reason why the record
        at this offset is invalid, or "" if it is not.
        """
        starts: list[int] = []
        append, size_at, limit = starts.append, self.size_at, self.limit
        at, end = 0, len(data)
        last = end - 16
        stop = end if self.stop is None else self.stop - base
        while at <= last and at < stop:
            (size,) = size_at(data, at + 8)
            if size > limit or at + size > last:
                break
            append(at)
            at += 16 + size
        if base + at == self.stop or at == end:
            return starts, at, ""
        if at <= last and (size := size_at(data, at + 8)[0]) > limit:
            return starts, at, f"the record size {size} is above the limit of {limit} bytes"
        if final and at < stop:
            return starts, at, f"{CUT_RECORD} ({end - at} bytes of it are present)"
        return starts, at, ""

    def _implausible(self, data: bytes, heads: Ints) -> NDArray[np.bool_]:
        """Return an array with True for each record header that is implausible.

        A header is implausible if its time or size is invalid, or if its time is more than a day away from the time of
        the previous header.

        Args:
            data: bytes of the file.
            heads: offsets of the headers in ``data``.
        """
        if not len(heads):
            return np.zeros(0, bool)
        seconds, fraction, size, original = (
            words(data, f"{self.split.order}u4", heads + 4 * n).astype(np.int64) for n in range(4)
        )
        jumps = np.abs(np.diff(seconds, prepend=seconds[0])) > NEAR_SECONDS
        odd: NDArray[np.bool_] = (fraction >= NANOSECONDS) | (size == 0) | (size > original) | jumps
        return odd

    def _count_valid(
        self, odd: NDArray[np.bool_], count: int, bad: int, reason: str, ended: bool, final: bool
    ) -> tuple[int, int, str]:
        """Return the number of valid records, the index of the first invalid header, and the reason why it is invalid.

        A header is invalid if both this header and the next one are implausible. The index is -1, with the reason "",
        if no header is invalid or if the next header is not read yet.

        Args:
            odd: for each header, whether its values are implausible.
            count: number of complete records in the data.
            bad: index of the header at which ``_walk`` found an invalid record; -1 if it found none.
            reason: reason of ``_walk``; "" if ``bad`` is -1.
            ended: True if ``_walk`` reached the end of the part or of the file.
            final: True if the data ends at the end of the file.
        """
        for n in np.flatnonzero(odd).tolist():
            if n == 0 and not self._begins:
                continue  # checked together with the header before it
            if n == bad:
                break
            if n + 1 < len(odd):
                if not odd[n + 1] and n + 1 != bad:
                    continue
            elif n < count and ended:
                continue
            elif not final:
                return max(n - 1, 0), -1, ""
            return n, n, STRANGE
        return count, bad, reason

    def _before_damage(
        self, data: bytes, base: int, starts: list[int], bad: int, at: int, reason: str, odd: NDArray[np.bool_]
    ) -> tuple[Block | None, int]:
        """Handle an invalid record: return the valid records before it, and the offset where the search for the next
        starts.

        The attribute ``lost`` is set. All offsets are relative to ``data``.

        Args:
            data: bytes of the file.
            base: position of ``data`` in the file.
            starts: offsets of the complete records.
            bad: index of the invalid record; ``len(starts)`` if it follows the complete records.
            at: offset of the invalid record.
            reason: why the record is invalid.
            odd: for each header in ``starts``, and for the header after them if it was read, whether it is implausible.

        Returns: the valid records, or None without a valid record before the damage; and the offset of the first byte
        that was not processed. The last valid record is not returned but stays unprocessed if its length may be wrong.
        """
        seconds = words(data, f"{self.split.order}u4", np.array(starts[max(0, bad - BEFORE) : bad], np.int64)).tolist()
        self._near = [*self._near, *seconds][-BEFORE:]
        cut = reason.startswith(CUT) and bad < len(odd) and not odd[bad]
        self._held = bad > 0 and not cut
        begin = starts[bad - 1] if self._held else at
        self._from = base + (begin + 16 if self._held or cut else begin + 1)
        self.lost = Lost(base + at, reason)
        self._search = Records(self.split.order, self.interface.link, self._near, self.interface.snaplen or SNAPLEN)
        return self._block_of(data, base, starts[: bad - self._held], begin, whole=False), begin

    def again(self, data: bytes, base: int, final: bool) -> tuple[Block | None, int, Passed | None]:
        """Continue after damage: search for the next valid record.

        Args:
            data: bytes of the file.
            base: position of ``data`` in the file.
            final: True if ``data`` ends at the end of the file.

        Returns: the record before the damage, which ``block`` has kept, or None; the number of processed bytes; and the
        skipped range, or None while the search has not ended. At the end of the search, the attribute ``lost`` becomes
        None.
        """
        assert self.lost is not None and self._search is not None  # noqa: PT018 - one is set with the other
        lost = self.lost
        place, upto = self._search.next(data, self._from - base, final)
        upto = min(upto, len(data))
        self._from = base + upto
        block: Block | None = None
        if self._held and (place is not None or final or base + upto >= lost.position):
            self._held = False
            block = self._block_of(data, base, [0], 0, whole=False)
            if block is not None and place is not None and base + place < lost.position:
                size = int(block.sizes[0])
                block.sizes[0] = place - 16
                lost = Lost(base, f"the record size is {size}, but the next record begins after {place - 16} bytes")
                self.lost = None
                return block, place, Passed(lost, 0, goes_on=True)
        if place is None and not final:
            return block, 0 if self._held else upto, None
        self.lost, self._begins = None, False
        end = len(data) if place is None else place
        return block, end, Passed(lost, base + end - lost.position, place is not None)

    def _block_of(self, data: bytes, base: int, starts: list[int], used: int, *, whole: bool) -> Block | None:
        """Return records as a Block; None for an empty list of records.

        Args:
            data: bytes of the file.
            base: position of ``data`` in the file.
            starts: offsets of the records in ``data``.
            used: offset after the last record.
            whole: True if a split may begin after these records.
        """
        if not starts:
            return None
        records = np.array(starts, np.int64)
        columns = [words(data, f"{self.split.order}u4", records + 4 * n).astype(np.int64) for n in range(4)]
        ticks, shift = self.interface.ticks, self.interface.shift
        times = (columns[0] + shift) * US + (columns[1] if ticks == US else columns[1] // (ticks // US))
        links = np.full(len(starts), self.interface.link, np.int64)
        self._begins = False
        self._near = columns[0][-BEFORE:].tolist()
        then = self.then(base + used) if whole else None
        places = (records, records + 16, columns[2], columns[3])
        return Block(self.split.path, base, data, *places, times, links, self.split, then)
