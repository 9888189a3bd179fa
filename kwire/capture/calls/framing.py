"""Division of one direction of a connection into frames, and the search for the next frame after a gap.

A frame is skipped if it is too large, or if its body is not needed. The first bytes of a skipped frame are stored; its
remaining bytes are only counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kwire.capture.calls.frame_headers import INT32
from kwire.capture.calls.model import INCOMPLETE
from kwire.capture.limits import HEAD, MAX_ORIGINS, MAX_SEARCH, MAX_TRIES

SYNC, SEARCH, OFF = 0, 1, 2  # states of a direction: in sync, searching for a frame, stopped
TAIL = 13  # bytes that may be the beginning of a header


class Checks(Protocol):
    """The interface of the checks that decide whether bytes are a frame, such as ``FrameChecks``."""

    def is_size(self, is_request: bool, size: int, /) -> bool: ...
    def skip_reason(self, is_request: bool, head: bytes, size: int, /) -> tuple[bool, str | None]: ...
    def places(self, is_request: bool, data: bytes, /) -> list[int]: ...
    def is_frame(self, is_request: bool, frame: bytes, /) -> bool: ...
    def may_follow(self, is_request: bool, head: bytes, /) -> bool: ...
    def is_chain(self, data: bytes, /) -> bool: ...


class Owner(Protocol):
    """The interface of the receiver of frames, such as ``Exchange``.

    Frames include their length prefix of four bytes.
    """

    @property
    def checks(self) -> Checks: ...
    def request(self, frame: bytes, framer: Framer, /) -> bool: ...
    def response(self, frame: bytes, framer: Framer, /) -> bool: ...
    def partial(self, is_request: bool, head: bytes, size: int, why: str | None, framer: Framer, /) -> None: ...
    def strayed(self, is_request: bool, /) -> None: ...
    def lost_track(self, is_request: bool, /) -> None: ...
    def found_again(self, is_request: bool, /) -> None: ...
    def searched(self, is_request: bool, size: int, /) -> None: ...


class Origin(NamedTuple):
    """The file position and time of bytes in the search buffer.

    Attributes:
        at: offset of the first of these bytes in the buffer.
        file: path of the file.
        position: byte offset of the packet in the file.
        time_us: time of the packet, in microseconds since 1970.
    """

    at: int
    file: str
    position: int
    time_us: int


class Framer:
    """A divider of the bytes of one direction of a connection into frames.

    The receiver of the frames (``owner``) is an argument of each method instead of an attribute, so that a Framer can
    be pickled.

    Attributes:
        is_request: True for the direction of the requests, False for the direction of the responses.
        mode: SYNC while frame boundaries are known, SEARCH while the next frame is searched for, OFF if bytes are only
            counted.
        now: time of the current segment, in microseconds since 1970.
        file: path of the file in which the current frame begins.
        began_at: byte offset of the packet in which the current frame begins.
        to_skip: number of bytes up to the end of a skipped frame; 0 if no frame is skipped.
    """

    __slots__ = (
        "began_at",
        "broken",
        "buffer",
        "file",
        "have",
        "head",
        "is_request",
        "looked",
        "maybe",
        "mode",
        "need",
        "now",
        "origins",
        "parts",
        "passed",
        "to_skip",
    )

    def __init__(self, is_request: bool, mode: int) -> None:
        self.is_request = is_request
        self.mode = mode
        self.parts: list[bytes] = []  # of the incomplete frame, with its prefix
        self.have = 0
        self.need = 0  # its size; 0 if unknown
        self.to_skip = 0  # bytes to skip, up to the end of the frame whose first bytes are in head
        self.head = b""
        self.broken: str | None = None
        self.now = 0
        self.file, self.began_at = "", 0  # position of the frame
        self.buffer = bytearray()  # bytes to search for a frame
        self.origins: list[Origin] = []  # of the bytes in the buffer, in order
        self.looked = 0
        self.maybe: list[int] = []
        self.passed = 0  # bytes without a frame

    @property
    def is_between_frames(self) -> bool:
        """Whether a frame begins with the next byte."""
        return self.mode == SYNC and not self.have and not self.to_skip

    @property
    def held(self) -> int:
        """The number of buffered bytes: bytes of an incomplete frame, and bytes in which the next frame is searched
        for.
        """
        return self.have + len(self.buffer)

    def data(self, owner: Owner, data: bytes, file: str, position: int) -> None:
        """Process the next bytes of this direction; pass complete frames to the owner.

        Args:
            owner: receiver of the frames.
            data: captured bytes, in order.
            file: path of the file that contains them.
            position: byte offset of the packet in the file.
        """
        if self.mode == SYNC and not self.have and not self.to_skip and len(data) >= 4:
            (size,) = INT32(data, 0)
            if size == len(data) - 4:  # the usual case: a segment is a frame
                self.file, self.began_at = file, position
                if not (owner.request(data, self) if self.is_request else owner.response(data, self)):
                    self._lose_track(owner, data)
                return
        at, end = 0, len(data)
        while at < end and self.mode == SYNC:
            if self.to_skip:
                step = min(self.to_skip, end - at)
                self.to_skip -= step
                at += step
                if not self.to_skip:
                    self._end_skipped(owner)
                continue
            if not self.have:
                self.file, self.began_at = file, position
            if not self.need:
                step = min(4 - self.have, end - at)
                self._keep(data[at : at + step])
                at += step
                if self.have < 4:
                    break
                (size,) = INT32(b"".join(self.parts), 0)
                if not owner.checks.is_size(self.is_request, size):
                    head = b"".join(self.parts)
                    origins = [self._origin(0, self.file, self.began_at), self._origin(len(head), file, position)]
                    self._lose_track(owner)
                    self._search(owner, head + data[at:], origins)
                    return
                self.need = size + 4
            step = min(self.need - self.have, end - at)
            self._keep(data[at : at + step])
            at += step
            if self.have == self.need:
                frame = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
                self.parts.clear()
                self.have = self.need = 0
                self._frame(owner, frame)
            elif self.have >= HEAD and self.need > HEAD and len(self.parts) < 8:
                head = b"".join(self.parts)
                passed, why = owner.checks.skip_reason(self.is_request, head, self.need)
                if passed:
                    self._skip_frame(head, why)
        if at < end and self.mode == SEARCH:
            self._search(owner, data[at:], [self._origin(0, file, position)])

    def _origin(self, at: int, file: str, position: int) -> Origin:
        return Origin(at, file, position, self.now)

    def _keep(self, part: bytes) -> None:
        if part:
            self.parts.append(part)
            self.have += len(part)

    def _frame(self, owner: Owner, frame: bytes) -> None:
        """Pass a complete frame to the owner. If the owner returns False for the frame, begin to search for the next
        frame.
        """
        good = owner.request(frame, self) if self.is_request else owner.response(frame, self)
        if not good:
            self._lose_track(owner, frame)

    def _skip_frame(self, head: bytes, why: str | None) -> None:
        """Begin to skip the current frame. The remaining bytes of the frame are only counted.

        Args:
            head: first bytes of the frame, with its length prefix.
            why: reason why the frame is skipped; None if its body is not needed.
        """
        self.head, self.broken = head[:HEAD], why
        self.to_skip = self.need - self.have
        self.parts.clear()
        self.have = 0

    def _end_skipped(self, owner: Owner) -> None:
        """At the end of a skipped frame, pass its first bytes to the owner."""
        head, why, size = self.head, self.broken, self.need - 4
        self.head, self.broken, self.need = b"", None, 0
        owner.partial(self.is_request, head, size, why, self)

    def lost(self, owner: Owner, size: int) -> None:
        """Handle bytes of this direction that were not captured.

        Args:
            owner: receiver of the frames.
            size: number of missing bytes.
        """
        if self.mode == OFF:
            return
        if self.mode == SEARCH:
            self._give_up_buffer()
            owner.lost_track(self.is_request)
            return
        if self.need and not self.to_skip:
            self._skip_frame(b"".join(self.parts), INCOMPLETE)
        if self.to_skip:
            self.broken = INCOMPLETE
            if size <= self.to_skip:
                self.to_skip -= size
                if not self.to_skip:
                    self._end_skipped(owner)
                return
            self._end_skipped(owner)
        self.to_skip = 0
        self._reset()
        self.mode = SEARCH
        owner.lost_track(self.is_request)

    def _reset(self) -> None:
        self.parts.clear()
        self.have = self.need = self.to_skip = 0
        self.head, self.broken = b"", None

    def finish(self, owner: Owner) -> None:
        """End this direction of the connection. An incomplete frame is passed to the owner's method ``partial``."""
        if self.mode == SYNC and self.need:
            if not self.to_skip:
                self._skip_frame(b"".join(self.parts), INCOMPLETE)
            self.broken = INCOMPLETE
            self._end_skipped(owner)
        self._reset()
        self.buffer.clear()
        self.origins.clear()

    def _lose_track(self, owner: Owner, refused: bytes = b"") -> None:
        """Begin to search for the next frame, because the bytes at this position are not a frame.

        Args:
            owner: receiver of the frames.
            refused: bytes that are not a frame and are not searched; they only count as bytes without a frame.
        """
        self._reset()
        if self.mode == OFF:
            return
        self.mode = SEARCH
        owner.strayed(self.is_request)
        self.passed += len(refused)

    def _give_up_buffer(self) -> None:
        self.passed += len(self.buffer)
        self.buffer.clear()
        self.origins.clear()
        self.looked = 0
        self.maybe.clear()

    def _search(self, owner: Owner, data: bytes, origins: Sequence[Origin]) -> None:
        """Append ``data`` to the search buffer, and search the buffer for a frame.

        Args:
            owner: receiver of the frames.
            data: captured bytes.
            origins: file positions and times of these bytes, counted from the first byte of ``data``.
        """
        if not data or self.mode != SEARCH:
            return
        place, before = None, len(self.buffer)
        self.buffer += data
        self.origins += [origin._replace(at=origin.at + before) for origin in origins]
        if not self.maybe and not self.is_request and owner.checks.is_chain(data):
            place = before
        if place is None:
            place = self._find(owner)
        if place is not None:
            self._resume(owner, place)
            return
        owner.searched(self.is_request, self.passed + len(self.buffer))
        if len(self.buffer) > MAX_SEARCH or len(self.origins) > MAX_ORIGINS:
            self._give_up_buffer()
        elif cut := min(self.maybe, default=max(0, len(self.buffer) - TAIL)):
            del self.buffer[:cut]
            self.origins = self._origins_from(cut)
            self.maybe = [at - cut for at in self.maybe]
            self.looked = len(self.buffer)
            self.passed += cut

    def _resume(self, owner: Owner, place: int) -> None:
        """End the search, and continue to read frames.

        Args:
            owner: receiver of the frames.
            place: offset in the search buffer at which the next frame begins.
        """
        rest, origins, now = bytes(self.buffer[place:]), self._origins_from(place), self.now
        self._give_up_buffer()
        self.passed = 0
        self.mode = SYNC
        owner.found_again(self.is_request)
        ends = [*(origin.at for origin in origins[1:]), len(rest)]
        for origin, end in zip(origins, ends, strict=True):
            self.now = origin.time_us
            self.data(owner, rest[origin.at : end], origin.file, origin.position)
        self.now = now

    def _origins_from(self, place: int) -> list[Origin]:
        """Return the origins of the buffered bytes from an offset on.

        ``place``: the offset in the search buffer. Offsets in the result count from ``place``.
        """
        first = bisect_right(self.origins, place, key=lambda origin: origin.at) - 1
        return [origin._replace(at=max(0, origin.at - place)) for origin in self.origins[first:]]

    def _find(self, owner: Owner) -> int | None:
        """Return the offset of the next frame in the search buffer; None if no frame is found.

        The frame must be complete and decodable. After the frame, the buffer must end or contain the beginning of a
        frame. ``owner``: receiver of the frames, which checks them.
        """
        buffer, size = self.buffer, len(self.buffer)
        start = max(0, self.looked - TAIL)  # the bytes before it were searched already
        new = [start + at for at in owner.checks.places(self.is_request, bytes(buffer[start:]))]
        places = sorted({*self.maybe, *new})[:MAX_TRIES]
        self.looked, self.maybe = size, []
        for at in places:
            if size - at <= TAIL and self.is_request:
                self.maybe.append(at)
                continue
            end = at + 4 + INT32(buffer, at)[0]
            if end > size:
                self.maybe.append(at)
            elif owner.checks.is_frame(self.is_request, bytes(buffer[at:end])) and owner.checks.may_follow(
                self.is_request, bytes(buffer[end : end + 14])
            ):
                return at
        return None
