"""One direction of a connection: bytes in order to frames, and after a hole the next frame again.

A frame that nobody asked for is passed over: its first bytes are kept, the rest is counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kwire.capture.calls.frame_headers import INT32
from kwire.capture.calls.model import INCOMPLETE
from kwire.capture.limits import HEAD, MAX_ORIGINS, MAX_SEARCH, MAX_TRIES

SYNC, SEARCH, OFF = 0, 1, 2  # what a direction does: frame by frame, looking for a frame, nothing any more
TAIL = 13  # bytes in which a header may have begun that is not all there


class Checks(Protocol):
    """What can be a frame."""

    def is_size(self, is_request: bool, size: int, /) -> bool: ...
    def pass_over(self, is_request: bool, head: bytes, size: int, /) -> tuple[bool, str | None]: ...
    def places(self, is_request: bool, data: bytes, start: int, /) -> list[int]: ...
    def is_frame(self, is_request: bool, frame: bytes, /) -> bool: ...
    def may_follow(self, is_request: bool, head: bytes, /) -> bool: ...
    def is_chain(self, data: bytes, /) -> bool: ...


class Owner(Protocol):
    """The receiver of frames. Frames have their prefix of four bytes."""

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
    """Where and when bytes of a search were captured; ``at``: of the first of them in the buffer."""

    at: int
    file: str
    position: int
    time_us: int


class Framer:
    """One direction: bytes in order to frames. The owner receives them, and is not kept: so this can be pickled."""

    __slots__ = (
        "begun",
        "broken",
        "buffer",
        "file",
        "have",
        "head",
        "is_request",
        "left",
        "looked",
        "maybe",
        "mode",
        "need",
        "now",
        "origins",
        "parts",
        "passed",
    )

    def __init__(self, is_request: bool, mode: int) -> None:
        self.is_request = is_request
        self.mode = mode
        self.parts: list[bytes] = []  # of the frame that is coming in, with its prefix
        self.have = 0
        self.need = 0  # of it; 0 if its length is not known
        self.left = 0  # bytes to pass over, up to the end of the frame whose first bytes are in head
        self.head = b""
        self.broken: str | None = None
        self.now = 0
        self.file, self.begun = "", 0  # where the frame began
        self.buffer = bytearray()  # in which a frame is looked for
        self.origins: list[Origin] = []  # of what is in the buffer, in order
        self.looked = 0
        self.maybe: list[int] = []
        self.passed = 0  # bytes in which none was found

    @property
    def held(self) -> int:
        """Bytes kept."""
        return self.have + len(self.buffer)

    def data(self, owner: Owner, data: bytes, file: str, position: int) -> None:
        """Bytes that come next."""
        if self.mode == SYNC and not self.have and not self.left and len(data) >= 4:
            (size,) = INT32(data, 0)
            if size == len(data) - 4:  # the usual case: a segment is a frame
                self.file, self.begun = file, position
                if not (owner.request(data, self) if self.is_request else owner.response(data, self)):
                    self._lose_track(owner, data)
                return
        at, end = 0, len(data)
        while at < end and self.mode == SYNC:
            if self.left:
                step = min(self.left, end - at)
                self.left -= step
                at += step
                if not self.left:
                    self._pass(owner)
                continue
            if not self.have:
                self.file, self.begun = file, position
            if not self.need:
                step = min(4 - self.have, end - at)
                self._keep(data[at : at + step])
                at += step
                if self.have < 4:
                    break
                (size,) = INT32(b"".join(self.parts), 0)
                if not owner.checks.is_size(self.is_request, size):
                    head = b"".join(self.parts)
                    origins = [self._origin(0, self.file, self.begun), self._origin(len(head), file, position)]
                    self._lose_track(owner)
                    self._look(owner, head + data[at:], origins)
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
                passed, why = owner.checks.pass_over(self.is_request, head, self.need)
                if passed:
                    self._leave(head, why)
        if at < end and self.mode == SEARCH:
            self._look(owner, data[at:], [self._origin(0, file, position)])

    def _origin(self, at: int, file: str, position: int) -> Origin:
        return Origin(at, file, position, self.now)

    def _keep(self, part: bytes) -> None:
        if part:
            self.parts.append(part)
            self.have += len(part)

    def _frame(self, owner: Owner, frame: bytes) -> None:
        """A whole frame, with its prefix."""
        good = owner.request(frame, self) if self.is_request else owner.response(frame, self)
        if not good:
            self._lose_track(owner, frame)

    def _leave(self, head: bytes, why: str | None) -> None:
        """Pass over the rest of the frame that is coming in."""
        self.head, self.broken = head[:HEAD], why
        self.left = self.need - self.have
        self.parts.clear()
        self.have = 0

    def _pass(self, owner: Owner) -> None:
        """The end of a frame that was passed over."""
        head, why, size = self.head, self.broken, self.need - 4
        self.head, self.broken, self.need = b"", None, 0
        owner.partial(self.is_request, head, size, why, self)

    def lost(self, owner: Owner, size: int) -> None:
        """A hole in what comes next."""
        if self.mode == OFF:
            return
        if self.mode == SEARCH:
            self._give_up_buffer()
            owner.lost_track(self.is_request)
            return
        if self.need and not self.left:
            self._leave(b"".join(self.parts), INCOMPLETE)
        if self.left:
            self.broken = INCOMPLETE
            if size <= self.left:
                self.left -= size
                if not self.left:
                    self._pass(owner)
                return
            self._pass(owner)
        self.left = 0
        self._reset()
        self.mode = SEARCH
        owner.lost_track(self.is_request)

    def _reset(self) -> None:
        self.parts.clear()
        self.have = self.need = self.left = 0
        self.head, self.broken = b"", None

    def finish(self, owner: Owner) -> None:
        """The stream ends here: what is not complete stays so."""
        if self.mode == SYNC and self.need:
            if not self.left:
                self._leave(b"".join(self.parts), INCOMPLETE)
            self.broken = INCOMPLETE
            self._pass(owner)
        self._reset()
        self.buffer.clear()
        self.origins.clear()

    def _lose_track(self, owner: Owner, refused: bytes = b"") -> None:
        """What should be a frame is none: look for the next. ``refused`` begins like one."""
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

    def _look(self, owner: Owner, data: bytes, origins: Sequence[Origin]) -> None:
        """Look for a frame in these bytes and those before. ``origins``: of these, counted from their first."""
        if not data or self.mode != SEARCH:
            return
        found, before = None, len(self.buffer)
        self.buffer += data
        self.origins += [origin._replace(at=origin.at + before) for origin in origins]
        if not self.maybe and not self.is_request and owner.checks.is_chain(data):
            found = before
        if found is None:
            found = self._found(owner)
        if found is not None:
            self._go_on(owner, found)
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

    def _go_on(self, owner: Owner, found: int) -> None:
        """Read frames from a place in the buffer on, each with where and when its bytes were captured."""
        rest, origins, now = bytes(self.buffer[found:]), self._origins_from(found), self.now
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
        """The origins of what is in the buffer from a place on, counted from there."""
        first = bisect_right(self.origins, place, key=lambda origin: origin.at) - 1
        return [origin._replace(at=max(0, origin.at - place)) for origin in self.origins[first:]]

    def _found(self, owner: Owner) -> int | None:
        """Where a frame begins in the buffer: one that is all there, decodes, and is followed by another or nothing."""
        size = len(self.buffer)
        data = bytes(self.buffer)
        new = owner.checks.places(self.is_request, data, max(0, self.looked - TAIL))
        places = sorted({*self.maybe, *new})[:MAX_TRIES]
        self.looked, self.maybe = size, []
        for at in places:
            if size - at <= TAIL and self.is_request:
                self.maybe.append(at)
                continue
            end = at + 4 + INT32(data, at)[0]
            if end > size:
                self.maybe.append(at)
            elif owner.checks.is_frame(self.is_request, data[at:end]) and owner.checks.may_follow(
                self.is_request, data[end : end + 14]
            ):
                return at
        return None
