"""The search for the next record after damage: the first position at which several consecutive records are valid.

The result does not depend on how the file is divided into blocks. The time is linear in the number of bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kwire.capture.files.blocks import Interface, Ints, words
from kwire.capture.limits import BLOCKS, CHAIN, MAX_CHAINED, NEAR_SECONDS

FIRST_LOOK, LONGEST_LOOK = 4_096, 1 << 20  # positions tried together: few at first, because most damage is short
AHEAD = CHAIN * (16 + MAX_CHAINED) + 64  # bytes after a position that may be needed to judge it, in a pcap
AHEAD_BLOCKS = (BLOCKS + 1) * MAX_CHAINED  # the same in a pcapng
LEAST_PACKET = 14
LARGEST_PACKET = 1 << 24  # on the wire: even segments before offloading are far smaller
NANOSECONDS = 1_000_000_000
SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
PCAPNG = b"\x0a\x0d\x0d\x0a"
KINDS = 0x1_0000  # block types: all standard ones are below
SECTION_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
BYTE_ORDERS = [int.from_bytes(magic, "little") for magic in SECTION_ORDERS]
IP_TYPES = (0x0800, 0x86DD, 0x8100, 0x88A8, 0x9100, 0x9200)
TYPE_AT = {1: 12, 113: 14, 276: 0}  # offset of the EtherType: Ethernet, SLL, SLL2
RAW = (101, 12, 14, 228, 229)
FAMILIES = (2, 10, 24, 28, 30)  # address families of BSD loopback

Found = tuple[int | None, int]  # position of the next record, if found; position up to which there is none


def is_packet(data: bytes, at: int, link: int) -> bool:
    """Return whether a link header may be followed by an IP packet; always True for an unknown link type.

    Args:
        data: bytes of the capture.
        at: offset of the link header.
        link: link type of the interface.
    """
    head = data[at : at + 20]
    if link in TYPE_AT:
        place = TYPE_AT[link]
        return int.from_bytes(head[place : place + 2], "big") in IP_TYPES
    if link in RAW:
        return head[:1] != b"" and head[0] >> 4 in (4, 6)
    if link in (0, 108):
        return int.from_bytes(head[:4], "big") in FAMILIES or int.from_bytes(head[:4], "little") in FAMILIES
    return True


class Records:
    """A search for the next valid records in a pcap file, after damaged bytes.

    Args:
        order: byte order of the file, ``<`` or ``>``.
        link: link type of the capture.
        near: times of records before the damage, in seconds; the next record must have a time close to one of them.
        most: maximum size of a packet, in bytes.
    """

    def __init__(self, order: str, link: int, near: Sequence[int], most: int) -> None:
        self.kind = f"{order}u4"
        self.link = link
        self.near = np.array(near, np.int64)
        self.most = min(most, MAX_CHAINED)

    def next(self, data: bytes, start: int, final: bool) -> Found:
        """Return the first position, from ``start`` on, at which valid records begin.

        Args:
            data: bytes to search.
            start: offset at which the search begins.
            final: True if no data follows.

        Returns: the position, or None if no valid records were found; and the position up to which the search is
        complete.
        """
        stop = len(data) - 15 if final else len(data) - AHEAD
        for begin, end in _doubling_ranges(start, stop):
            sizes = np.ndarray((end - begin,), self.kind, data, begin + 8, strides=(1,))
            places = np.flatnonzero((sizes >= LEAST_PACKET) & (sizes <= self.most)) + begin
            for place in self._chained(data, places, final).tolist():
                if is_packet(data, place + 16, self.link):
                    return place, place
        return None, max(start, stop)

    def _plausible(self, data: bytes, places: Ints, around: Ints | None) -> tuple[NDArray[np.bool_], Ints, Ints]:
        """Check whether record headers are plausible: sizes and times must be possible values.

        Args:
            data: bytes to search.
            places: offsets of possible headers.
            around: for each header, a time in seconds; the time of a plausible header is close to it. None to compare
                with the times in ``near`` instead.

        Returns: three arrays with one element for each header: whether it is plausible, its time in seconds, and its
        size in bytes.
        """
        seconds, fraction, size, original = (words(data, self.kind, places + 4 * n).astype(np.int64) for n in range(4))
        good = (size >= LEAST_PACKET) & (size <= self.most) & (size <= original) & (original <= LARGEST_PACKET)
        good &= fraction < NANOSECONDS
        if around is not None:
            good &= np.abs(seconds - around) <= NEAR_SECONDS
        elif len(self.near):
            near = np.zeros(len(places), bool)
            for one in self.near.tolist():
                near |= np.abs(seconds - one) <= NEAR_SECONDS
            good &= near
        return good, seconds, size

    def _chained(self, data: bytes, places: Ints, final: bool) -> Ints:
        """Return the positions at which CHAIN consecutive valid records begin.

        If the file ends after fewer records, a smaller number is sufficient.

        Args:
            data: bytes to search.
            places: offsets of plausible headers.
            final: True if no data follows.
        """
        end = len(data)
        start, at = places, places
        around: Ints | None = None
        done: list[Ints] = []
        for count in range(CHAIN):
            if not len(at):
                break
            if final:
                done.append(start[(at == end) & (count > 0)])
                done.append(start[(at != end) & (at > end - 16) & (count > 1)])
            whole = at <= end - 16
            at, start = at[whole], start[whole]
            around = None if around is None else around[whole]
            good, seconds, size = self._plausible(data, at, around)
            at, start, seconds = at[good] + 16 + size[good], start[good], seconds[good]
            around = seconds if around is None else around[good]
            beyond = at > end
            if final:
                done.append(start[beyond & (count > 1)])
            at, start, around = at[~beyond], start[~beyond], around[~beyond]
        return np.unique(np.concatenate([*done, start])) if done else start


class Blocks:
    """A search for the next valid blocks in a pcapng file.

    Args:
        order: byte order of the section with the damage, ``<`` or ``>``.
        interfaces: interfaces that this section declares before the damage.

    Attributes:
        near_us: time of the packet before the damage, in microseconds since 1970; None if no packet precedes the
            damage.
    """

    def __init__(self, order: str, interfaces: Sequence[Interface], near_us: int | None) -> None:
        self.order = order
        self.interfaces = interfaces
        self.near_us = near_us

    def next(self, data: bytes, start: int, final: bool) -> Found:
        """Return the first position, from ``start`` on, at which valid blocks begin.

        Args:
            data: bytes to search.
            start: offset at which the search begins.
            final: True if no data follows.

        Returns: the position, or None if no valid blocks were found; and the position up to which the search is
        complete.
        """
        kind = f"{self.order}u4"
        stop = len(data) - 11 if final else len(data) - AHEAD_BLOCKS
        for begin, end in _doubling_ranges(start, stop):
            sizes = np.ndarray((end - begin,), kind, data, begin + 4, strides=(1,))
            kinds = np.ndarray((end - begin,), kind, data, begin, strides=(1,))
            may_be = (sizes >= 12) & (sizes <= MAX_CHAINED) & (sizes % 4 == 0)
            places = np.flatnonzero(may_be & (kinds < KINDS) & (kinds > 0)) + begin
            sizes = words(data, kind, places + 4).astype(np.int64)
            inside = places + sizes <= len(data)
            places, sizes = places[inside], sizes[inside]
            places = places[words(data, kind, places + sizes - 4) == sizes]
            sections = np.flatnonzero(kinds == SECTION) + begin  # also in the other byte order
            sections = sections[sections <= len(data) - 12]
            sections = sections[np.isin(words(data, "<u4", sections + 8), BYTE_ORDERS)]
            places = np.union1d(places, sections)
            for place in places.tolist():
                if self.is_chain(data, place, final):
                    return place, place
        return None, max(start, stop)

    def is_chain(self, data: bytes, at: int, final: bool) -> bool:
        """Return whether BLOCKS consecutive valid blocks begin at an offset.

        If the file ends after fewer blocks, a smaller number is sufficient.

        Args:
            data: bytes to search.
            at: offset of the first block.
            final: True if no data follows.
        """
        order, has_interfaces = self.order, True  # interfaces of the section are known
        for count in range(BLOCKS):
            if at + 12 > len(data):
                return final and count > 0
            if data[at : at + 4] == PCAPNG:
                has_interfaces = False
                if (order := SECTION_ORDERS.get(data[at + 8 : at + 12], "")) == "":
                    return False
            kind, size = struct.unpack_from(f"{order}II", data, at)
            if not 12 <= size <= MAX_CHAINED or size % 4 or not (0 < kind < KINDS or kind == SECTION):
                return False
            if at + size > len(data):
                return final and count > 1
            if struct.unpack_from(f"{order}I", data, at + size - 4) != (size,):
                return False
            if kind == INTERFACE:
                has_interfaces = False
            elif kind == PACKET and has_interfaces and not self._is_packet(data, at, size):
                return False
            at += size
        return True

    def _is_packet(self, data: bytes, at: int, size: int) -> bool:
        if size < 32:
            return False
        number, high, low, captured, original = struct.unpack_from(f"{self.order}IIIII", data, at + 8)
        if captured > size - 32 or original > LARGEST_PACKET:
            return False
        if number >= len(self.interfaces) or self.near_us is None:
            return True
        interface = self.interfaces[number]
        seconds = ((high << 32) | low) // interface.ticks + interface.shift
        return bool(abs(seconds - self.near_us // 1_000_000) <= NEAR_SECONDS)


def _doubling_ranges(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges from ``start`` to ``stop``.

    Each range is twice as long as the previous one, up to LONGEST_LOOK positions.
    """
    size = FIRST_LOOK
    while start < stop:
        yield start, min(start + size, stop)
        start += size
        size = min(2 * size, LONGEST_LOOK)
