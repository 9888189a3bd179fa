"""The fuzz target ``forwarded``: a link of the proxy finds the same frames with kwire-native as without it."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from typing import Any

from kwire import WireError
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.link import INSPECTED, Link, native_frames
from mockbroker.proxy.observer import Connection

CONNECTION = Connection(1, Address("client", 1), 0, Address("real", 9), Address("proxy", 7))
FROM_BROKER = 1 << 15  # bit of the two bytes before a piece
WITH_LENGTHS = 1  # bit of the first byte

SEARCH = native_frames(INSPECTED)


def forwarded(data: bytes) -> None:
    """Check that a link yields the same parts and errors with the native search for frames as with Python's.

    ``data``: a byte whose bit WITH_LENGTHS adds the length prefix of each piece, then the pieces. Two bytes before each
    piece have its size and the bit FROM_BROKER.
    """
    if data:
        found = [[*passed(data, each)] for each in (SEARCH, None)]
        assert found[0] == found[1], found


def passed(data: bytes, native: Any) -> Iterator[Any]:
    """Yield what a link yields for the pieces of an input, the number of pending responses, and the final error.

    Args:
        data: the input.
        native: the native search for frames; None for the one in Python.
    """
    link = Link(CONNECTION)
    link._frames = native
    at = 1
    while at + 2 <= len(data):
        (head,) = struct.unpack_from(">H", data, at)
        size = head & ~FROM_BROKER
        piece = data[at + 2 : at + 2 + size]
        at += 2 + len(piece)
        if data[0] & WITH_LENGTHS:
            piece = struct.pack(">i", len(piece)) + piece
        receive = link.responses if head & FROM_BROKER else link.requests
        try:
            for part in receive(piece):
                assert not isinstance(part, Generator), "the work of observers, of which this link has none"
                yield part if isinstance(part, bytes) else (type(part), part.frame)
        except WireError as error:
            yield repr(error)
            return
        yield link.pending, link.is_within_response
