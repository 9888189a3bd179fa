"""One connection: segments in the order of their times to calls, a request and its response each.

A Conversation takes whatever comes next and never waits for more than is bounded; it can be pickled between two
segments. The same segments give the same calls, however they are handed over. It does no reading: of a payload it is
given where it begins, and something to slice.

Where bytes were lost, a frame is only believed after the hole if it decodes to its last byte; nothing is guessed.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Collection
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import numpy as np

from kwire import codec
from kwire.capture.call import (
    INCOMPLETE,
    KAFKA,
    NOT_KAFKA,
    OPAQUE,
    REQUEST_NOT_SEEN,
    RESPONSE_NOT_SEEN,
    SASL_TOKEN,
    TLS,
    TOO_LARGE,
    UNKNOWN_VERSION,
    UNREADABLE,
    Call,
    Connection,
)
from kwire.capture.limits import (
    HEAD,
    MAX_KEPT_FRAME,
    MAX_NOTES,
    MAX_PENDING,
    MAX_SEARCH,
    MAX_TOKENS,
    MAX_TRIES,
    MAX_UNDECIDED,
    STRANGE,
)
from kwire.capture.packets import ACK, FIN, RST, SYN, Key, endpoints
from kwire.capture.redact import redact
from kwire.capture.tcp import HALF, KEPT, MASK, Piece, Stream
from kwire.engines import compiled
from kwire.envelope import answers_unsupported
from kwire.errors import DecodeError
from kwire.headers import (
    API_VERSIONS,
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from kwire.limits import MAX_FRAME, UNWEIGHED
from kwire.messages import APIS

PRODUCE, SASL_HANDSHAKE, SASL_AUTHENTICATE = 0, 17, 36
SYNC, SEARCH, OFF = 0, 1, 2  # what a direction does: frame by frame, looking for a frame, nothing any more
HEADER = struct.Struct(">hhih").unpack_from  # api key, version, correlation id, length of the client id
INT32 = struct.Struct(">i").unpack_from
INT64 = struct.Struct(">q").unpack_from
LEAST_REQUEST = 10  # bytes; ControlledShutdown v0, which is shorter, no client sends
LEAST_RESPONSE = 4


class Sliced(Protocol):
    """Bytes, or a file mapped into memory."""

    def __getitem__(self, part: slice, /) -> bytes: ...


class Row(NamedTuple):
    """A segment, as ``Conversation.segment`` takes it; names as in ``packets.Segments``."""

    upward: bool
    time_us: int
    position: int
    start: int
    captured: int
    size: int
    seq: int
    ack: int
    flags: int


class Form(NamedTuple):
    """How frames of one version of an API are read."""

    name: str
    version: int
    request: type
    response: type
    request_header: int
    response_header: int


@cache
def form_of(key: int, version: int) -> Form | None:
    """None if there is no such version."""
    if key not in APIS or version not in APIS[key].versions:
        return None
    api = APIS[key]
    headers = request_header_version(api, version), response_header_version(api, version)
    return Form(api.name, version, api.request, api.response, *headers)


def body_at(message: type, data: bytes, at: int, version: int) -> tuple[Any, int]:
    """As ``codec.decode_at``, by the shortest way where that is good enough."""
    if len(data) - at <= UNWEIGHED:
        try:
            return compiled.readers[message][version](data, at)
        except compiled.REFUSALS:
            pass
    return codec.decode_at(message, data, at, version)


class Header(NamedTuple):
    """What a request says before its body, which begins at ``body``."""

    key: int
    version: int
    correlation_id: int
    client_id: bytes | None
    body: int


def read_header(data: bytes, at: int) -> Header:
    """The header of the request that begins at ``at``. Raises: DecodeError, struct.error."""
    key, version, correlation_id, size = HEADER(data, at)
    body = at + 10 + max(size, 0)
    client_id = data[at + 10 : body] if size >= 0 else None
    if body > len(data):
        raise DecodeError("the client id does not end")
    form = form_of(key, version)
    flexible = form.request_header == 2 if form else key == API_VERSIONS
    if not flexible:
        return Header(key, version, correlation_id, client_id, body)
    if data[body : body + 1] == b"\0":
        return Header(key, version, correlation_id, client_id, body + 1)
    _, body = codec.decode_at(RequestHeader, data, at, 2)
    return Header(key, version, correlation_id, client_id, body)


def response_body(form: Form, data: bytes, at: int) -> int:
    """Where the body of a response begins. Raises: DecodeError."""
    if form.response_header == 0:
        return at + 4
    if data[at + 4 : at + 5] == b"\0":
        return at + 5
    return codec.decode_at(ResponseHeader, data, at, 1)[1]


class Framer:
    """One direction: bytes in order to frames. ``owner`` is told of frames; it is not kept, so that this can be pickled."""

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
        self.looked = 0
        self.maybe: list[int] = []
        self.passed = 0  # bytes in which none was found

    @property
    def held(self) -> int:
        """Bytes kept."""
        return self.have + len(self.buffer)

    def data(self, owner: Conversation, data: bytes, file: str, position: int) -> None:
        """Bytes that come next."""
        if self.mode == SYNC and not self.have and not self.left and len(data) >= 4:
            (size,) = INT32(data, 0)
            if size == len(data) - 4:  # the usual case: a segment is a frame
                self.file, self.begun = file, position
                self._frame(owner, data)
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
                if not owner.is_size(self.is_request, size):
                    self._lose_track(owner, b"".join(self.parts) + data[at:])
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
                why = owner.pass_over(self.is_request, head, self.need)
                if why is not False:
                    self._leave(head, why)
        if at < end and self.mode == SEARCH:
            self._look(owner, data[at:])

    def _keep(self, part: bytes) -> None:
        if part:
            self.parts.append(part)
            self.have += len(part)

    def _frame(self, owner: Conversation, frame: bytes) -> None:
        """A whole frame, with its prefix."""
        good = owner.request(frame, self) if self.is_request else owner.response(frame, self)
        if not good:
            self._lose_track(owner, b"", frame)

    def _leave(self, head: bytes, why: str | None) -> None:
        """Pass over the rest of the frame that is coming in."""
        self.head, self.broken = head[:HEAD], why
        self.left = self.need - self.have
        self.parts.clear()
        self.have = 0

    def _pass(self, owner: Conversation) -> None:
        """The end of a frame that was passed over."""
        head, why, size = self.head, self.broken, self.need - 4
        self.head, self.broken, self.need = b"", None, 0
        owner.partial(self.is_request, head, size, why, self)

    def lost(self, owner: Conversation, size: int) -> None:
        """A hole in what comes next."""
        if self.mode == SEARCH:
            self._give_up_buffer()
            return
        if self.mode == OFF:
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

    def _reset(self) -> None:
        self.parts.clear()
        self.have = self.need = self.left = 0
        self.head, self.broken = b"", None

    def finish(self, owner: Conversation) -> None:
        """The stream ends here: what is not complete stays so."""
        if self.mode == SYNC and self.need:
            if not self.left:
                self._leave(b"".join(self.parts), INCOMPLETE)
            self.broken = INCOMPLETE
            self._pass(owner)
        self._reset()
        self.buffer.clear()

    def _lose_track(self, owner: Conversation, data: bytes, refused: bytes = b"") -> None:
        """What should be a frame is none: look for the next. ``refused`` begins like one."""
        self._reset()
        if self.mode == OFF:
            return
        self.mode = SEARCH
        owner.strayed(self.is_request)
        self.passed += len(refused)
        self._look(owner, data)

    def _give_up_buffer(self) -> None:
        self.passed += len(self.buffer)
        self.buffer.clear()
        self.looked = 0
        self.maybe.clear()

    def _look(self, owner: Conversation, data: bytes) -> None:
        """Look for a frame in these bytes and those before."""
        if not data:
            return
        fresh = not self.buffer
        self.buffer += data
        found = None
        if fresh and not self.is_request and owner.is_chain(data):
            found = 0
        if found is None:
            found = self._found(owner)
        if found is not None:
            rest = bytes(self.buffer[found:])
            self._give_up_buffer()
            self.passed = 0
            self.mode = SYNC
            owner.found_again(self.is_request)
            self.data(owner, rest, self.file, self.begun)
            return
        if len(self.buffer) > MAX_SEARCH:
            self._give_up_buffer()
        owner.searched(self.is_request, self.passed + len(self.buffer))

    def _found(self, owner: Conversation) -> int | None:
        """Where a frame begins in the buffer: one that is all there, decodes, and is followed by another or nothing."""
        size = len(self.buffer)
        data = bytes(self.buffer)
        new = owner.places(self.is_request, data, max(0, self.looked - 13))
        places = sorted({*self.maybe, *new})[:MAX_TRIES]
        self.looked, self.maybe = size, []
        for at in places:
            if size - at < 14 and self.is_request:
                self.maybe.append(at)
                continue
            end = at + 4 + INT32(data, at)[0]
            if end > size:
                self.maybe.append(at)
            elif owner.is_frame(self.is_request, data[at:end]) and owner.may_follow(
                self.is_request, data[end : end + 14]
            ):
                return at
        return None


class Conversation:
    """Calls of one connection. ``bodies``: API keys whose bodies are decoded, None for all. ``raw``: keep all frames.

    ``redacted``: secrets are replaced. ``broker``: True if the upper endpoint of the key is it; None if it is not known.
    """

    __slots__ = (
        "_calls",
        "_client_id",
        "_client_text",
        "_framers",
        "_good",
        "_number",
        "_pending",
        "_ports",
        "_streams",
        "_tokens",
        "_undecided",
        "bodies",
        "broker",
        "connection",
        "isn",
        "key",
        "raw",
        "redacted",
        "_in_tokens",
        "_pending_count",
        "done",
        "_seen_bytes",
    )

    def __init__(
        self,
        key: Key,
        first: Row,
        *,
        ports: Collection[int] = (),
        bodies: frozenset[int] | None = None,
        raw: bool = False,
        redacted: bool = True,
    ) -> None:
        self._begin(f"{key}", first.time_us, first.seq, bodies, raw, redacted)
        self.key = key
        self._ports = ports
        low, high = endpoints(key)
        self.connection.client, self.connection.broker = low, high
        self.broker = self._configured()
        self._choose(self.broker)

    def _begin(
        self, name: str, time_us: int, seq: int, bodies: frozenset[int] | None, raw: bool, redacted: bool
    ) -> None:
        number = blake2b(f"{name} {time_us} {seq}".encode(), digest_size=8).hexdigest()
        self.connection = Connection(id=number, client="", broker="", first_us=time_us, last_us=time_us)
        self.bodies = bodies
        self.raw = raw
        self.redacted = redacted
        self.isn: dict[bool, int] = {}
        self.broker: bool | None = None
        self.done = False
        self._calls: list[Call] = []
        self._client_id: bytes | None = None  # as it stands on the wire
        self._client_text: str | None = None
        self._streams = {True: Stream(), False: Stream()}
        self._framers = {True: Framer(True, SEARCH), False: Framer(False, SEARCH)}  # by is_request
        self._pending: dict[int, deque[Call]] = {}
        self._pending_count = 0
        self._tokens: deque[Call] = deque()
        self._in_tokens = 0  # tokens without header that came, and one; 0: none are due
        self._undecided: list[tuple[Row, bytes, str]] = []
        self._good = {True: 0, False: 0}
        self._number = 0
        self._seen_bytes = 0

    @classmethod
    def logged(
        cls,
        name: str,
        client: str,
        broker: str,
        time_us: int,
        *,
        bodies: frozenset[int] | None = None,
        raw: bool = False,
        redacted: bool = True,
    ) -> Conversation:
        """One whose frames come out of a frame log; they go to ``frame``."""
        self = cls.__new__(cls)
        self._begin(f"{name} {client} {broker}", time_us, 0, bodies, raw, redacted)
        self.key, self._ports = (0, 0, 0, 0, 0, 0), ()
        self.broker = True
        self.connection.client, self.connection.broker = client, broker
        for framer in self._framers.values():
            framer.mode = SYNC
        return self

    @property
    def held(self) -> int:
        """Bytes that are kept of what has come in."""
        waiting = sum(stream.held_bytes for stream in self._streams.values())
        undecided = sum(len(payload) for _, payload, _ in self._undecided)
        return waiting + undecided + sum(framer.held for framer in self._framers.values())

    def taken(self) -> list[Call]:
        """The calls that are complete since this was last asked."""
        calls, self._calls = self._calls, []
        return calls

    # Segments

    def is_another(self, row: Row) -> bool:
        """True if a segment begins another connection between the same ends."""
        if row.flags & SYN:
            known = self.isn.get(row.upward)
            if known is not None:
                return known != row.seq
            stream = self._streams[row.upward]
            if stream.next is None:
                return False
            return (row.seq + 1 - stream.next) & MASK != 0 and not (row.flags & ACK and not self.connection.segments)
        if not self.done:
            return False
        following = self._streams[row.upward].next
        return bool(row.size) and following is not None and 2**26 < (row.seq - following) & MASK < 2**32 - 2**26

    def segment(self, row: Row, source: Sliced, base: int, file: str) -> None:
        """The next segment; its payload begins at ``row.start - base`` of ``source``."""
        upward, time_us, position, start, captured, size, seq, ack, flags = row
        connection = self.connection
        if time_us > connection.last_us:
            connection.last_us = time_us
        if self.done:
            return
        stream, other = self._streams[upward], self._streams[not upward]
        if flags & (SYN | RST):
            if flags & SYN:
                self._open(row)
                seq = (seq + 1) & MASK
            if flags & RST:
                self._close("rst")
                return
        if self.broker is None:
            payload = source[start - base : start - base + captured]
            self._undecided.append((row, payload, file))
            self._vote(row, payload)
            return
        if size:
            connection.segments += 1
            if stream.next is None:
                stream.next = seq
            if not stream.held and not other.held and (seq - stream.next) & MASK == 0 and captured == size:
                stream.next += size
                is_request = upward == (not self.broker)
                framer = self._framers[is_request]
                if time_us > framer.now:
                    framer.now = time_us
                if is_request:
                    connection.bytes_to_broker += size
                else:
                    connection.bytes_to_client += size
                if framer.left > size:
                    framer.left -= size
                elif framer.mode != OFF:
                    payload = source[start - base : start - base + size]
                    stream.last = (stream.next - size, payload if size <= KEPT else b"")
                    framer.data(self, payload, file, position)
                if not flags & FIN:
                    other.acked = ack
                    return
            else:
                place = stream.place(seq)
                payload = source[start - base : start - base + captured]
                if place > stream.next:
                    connection.out_of_order += 1
                stream.hold(Piece(place, time_us, payload, size, file, position))
        if flags & ACK:
            other.acked = ack
        if flags & FIN and stream.next is not None:
            stream.fin = stream.place(seq) + size
        elif flags & FIN:
            stream.next = (seq + size) & MASK
            stream.fin = stream.next
        self._advance(time_us)

    def _open(self, row: Row) -> None:
        """A SYN: who asks is the client."""
        connection = self.connection
        connection.syn_seen = True
        stream, other = self._streams[row.upward], self._streams[not row.upward]
        self.isn.setdefault(row.upward, row.seq)
        if stream.next is None:
            stream.next = (row.seq + 1) & MASK
        answered = bool(row.flags & ACK)
        if answered and other.next is None:
            other.next = row.ack
        if self.broker is None:
            self._choose(not row.upward if not answered else row.upward, decided=True)
        for framer in self._framers.values():
            if not framer.now and framer.mode == SEARCH and not framer.buffer:
                framer.mode = SYNC

    def _configured(self) -> bool | None:
        low, high = self.key[2] in self._ports, self.key[5] in self._ports
        return None if low == high else low

    def _choose(self, broker: bool | None, *, decided: bool = False) -> None:
        """Say which end is the broker: True for the first of the key."""
        first, second = endpoints(self.key)
        if broker is None:
            broker = self.key[2] <= self.key[5]
        elif decided:
            self.broker = broker
        self.connection.broker, self.connection.client = (first, second) if broker else (second, first)

    def _vote(self, row: Row, payload: bytes) -> None:
        """Neither a port nor a SYN says who is the broker: who sends something that is a request is not."""
        self._seen_bytes += len(payload)
        if _is_tls(payload):
            self._choose(self.key[2] <= self.key[5], decided=True)
        elif self._starts_with_request(payload):
            self._choose(not row.upward, decided=True)
        elif self._seen_bytes > MAX_UNDECIDED:
            self._choose(self.key[2] <= self.key[5], decided=True)
        if self.broker is not None:
            self._replay()

    def _replay(self) -> None:
        rows, self._undecided = self._undecided, []
        for row, payload, file in rows:
            self.segment(row, payload, row.start, file)

    def _starts_with_request(self, payload: bytes) -> bool:
        if len(payload) < 14:
            return False
        end = 4 + INT32(payload, 0)[0]
        return 14 <= end <= len(payload) and self.is_frame(True, payload[:end])

    def _advance(self, now_us: int) -> None:
        """Deliver what is in order, requests first; give up holes that will not be filled."""
        streams = [(is_request, self._streams[(not self.broker) == is_request]) for is_request in (True, False)]
        for is_request, stream in streams:
            while stream.held:
                if self._deliver(is_request, stream):
                    continue
                stream.waited += 1
                if not stream.is_lost(now_us):
                    break
                self._skip_hole(is_request, stream)
            if stream.held:
                if is_request:
                    streams[1][1].waited += 1
                break  # answers wait for requests that are still to come
        if all(
            stream.fin is not None and stream.next is not None and stream.next >= stream.fin
            for stream in self._streams.values()
        ):
            self._close("fin")

    def _deliver(self, is_request: bool, stream: Stream) -> bool:
        piece = stream.due()
        if piece is None:
            return False
        framer = self._framers[is_request]
        framer.now = max(framer.now, piece.time_us)
        if is_request:
            self.connection.bytes_to_broker += piece.size
        else:
            self.connection.bytes_to_client += piece.size
        if framer.mode != OFF:
            if piece.payload:
                framer.data(self, piece.payload, piece.file, piece.position)
            if piece.size > len(piece.payload):  # cut by the snapshot length
                framer.lost(self, piece.size - len(piece.payload))
        return True

    def _skip_hole(self, is_request: bool, stream: Stream) -> None:
        lost = stream.give_up()
        self.connection.gaps += 1
        self.connection.gap_bytes += lost
        self._framers[is_request].lost(self, lost)

    def _close(self, how: str) -> None:
        self.connection.closed = how
        self.finish()

    def finish(self) -> Connection:
        """No more segments will come: what is left is told as it is."""
        connection = self.connection
        if self.done:
            return connection
        if self.broker is None:
            self._choose(self.key[2] <= self.key[5], decided=True)
            self._replay()
            if self.done:
                return connection
        self.done = True
        for is_request in (True, False):
            stream = self._streams[(not self.broker) == is_request]
            while stream.held:
                if not self._deliver(is_request, stream):
                    self._skip_hole(is_request, stream)
            self._framers[is_request].finish(self)
        for calls in [*self._pending.values(), self._tokens]:
            for call in calls:
                call.reason = call.reason or RESPONSE_NOT_SEEN
                self._calls.append(call)
        self._pending.clear()
        self._tokens.clear()
        self._calls.sort(key=lambda call: call.number)
        connection.retransmitted = sum(stream.retransmitted for stream in self._streams.values())
        connection.conflicts = sum(stream.conflicts for stream in self._streams.values())
        some = connection.bytes_to_broker or connection.bytes_to_client
        if connection.status == KAFKA and some and not self._good[True] and (connection.syn_seen or not self._number):
            connection.status = NOT_KAFKA
        return connection

    # Frames, as the framers tell of them

    def frame(self, to_broker: bool, frame: bytes, time_us: int, file: str, position: int) -> None:
        """A whole frame out of a frame log."""
        framer = self._framers[to_broker]
        framer.now, framer.file, framer.begun = max(framer.now, time_us), file, position
        self.connection.last_us = max(self.connection.last_us, time_us)
        if to_broker:
            self.connection.bytes_to_broker += len(frame) + 4
        else:
            self.connection.bytes_to_client += len(frame) + 4
        data = len(frame).to_bytes(4, "big") + frame
        good = self.request(data, framer) if to_broker else self.response(data, framer)
        if not good:
            self._tell(f"{file} at byte {position}: not a Kafka {'request' if to_broker else 'response'}")

    def is_size(self, is_request: bool, size: int) -> bool:
        """True if a frame may be of so many bytes."""
        least = 0 if self._in_tokens else LEAST_REQUEST if is_request else LEAST_RESPONSE
        return least <= size <= MAX_FRAME

    def pass_over(self, is_request: bool, head: bytes, size: int) -> str | None | bool:
        """Why a frame with these first bytes is not kept: too large, or nobody asked for it (None); False if it is."""
        if size > MAX_KEPT_FRAME:
            return TOO_LARGE
        if self.bodies is None or self.raw or self._in_tokens:
            return False
        if is_request:
            try:
                header = read_header(head, 4)
            except (DecodeError, struct.error):
                return False
            return False if form_of(header.key, header.version) is None or header.key in self.bodies else None
        calls = self._pending.get(INT32(head, 4)[0])
        return False if not calls or calls[0].api_key in self.bodies else None

    def request(self, frame: bytes, framer: Framer) -> bool:
        """A whole request with its prefix. False if it cannot be one."""
        if not self._good[True] and _is_tls(frame):
            self._be_tls(frame)
            return True
        try:
            header = read_header(frame, 4)
        except (DecodeError, struct.error):
            if self._in_tokens:
                return self._token(frame, framer)
            return False
        form = form_of(header.key, header.version)
        if self._in_tokens:
            if form is None or header.client_id != self._client_id or not self.is_frame(True, frame):
                return self._token(frame, framer)
            self._in_tokens = 0
        if form is None and (not self._good[True] or not (0 <= header.key < 10_000 and 0 <= header.version < 1_000)):
            return False
        call = self._call(header, framer, len(frame) - 4)
        if form is None:
            call.reason, call.request_raw = UNKNOWN_VERSION, self._kept(frame, header.key)
        elif self.bodies is None or header.key in self.bodies:
            self._read_request(call, form, frame, header.body)
        if self.raw:
            call.request_raw = self._kept(frame, header.key)
        self._asked(call, frame, header.body)
        return True

    def _read_request(self, call: Call, form: Form, frame: bytes, at: int) -> None:
        try:
            call.request, _ = body_at(form.request, frame, at, form.version)
        except DecodeError as error:
            call.reason, call.error = UNREADABLE, str(error)
            call.request_raw = self._kept(frame, call.api_key)
            return
        if self.redacted:
            redact(call.request)
        if call.api_key == API_VERSIONS and form.version >= 3:
            self.connection.software_name = call.request.client_software_name
            self.connection.software_version = call.request.client_software_version

    def _call(self, header: Header, framer: Framer, size: int) -> Call:
        """A call with what its request's header says."""
        if header.client_id != self._client_id:
            self._client_id = header.client_id
            self._client_text = None if header.client_id is None else header.client_id.decode("utf-8", "replace")
            if self.connection.client_id is None:
                self.connection.client_id = self._client_text
        self._good[True] += 1
        self._number += 1
        connection = self.connection
        return Call(
            connection=connection.id,
            client=connection.client,
            broker=connection.broker,
            number=self._number,
            api_key=header.key,
            api_version=header.version,
            correlation_id=header.correlation_id,
            client_id=self._client_text,
            request_us=framer.now,
            request_size=size,
            file=framer.file,
            position=framer.begun,
        )

    def _asked(self, call: Call, frame: bytes, body: int) -> None:
        """A request that waits for its response, unless it gets none."""
        if call.api_key == PRODUCE and produce_acks(frame, body, call.api_version or 0) == 0:
            self._calls.append(call)
            return
        assert call.correlation_id is not None
        self._pending.setdefault(call.correlation_id, deque()).append(call)
        self._pending_count += 1
        if self._pending_count > MAX_PENDING:
            oldest = next(iter(self._pending))
            given_up = self._answered(oldest)
            given_up.reason = given_up.reason or RESPONSE_NOT_SEEN
            self._calls.append(given_up)

    def _answered(self, correlation_id: int) -> Call:
        """Take the oldest call with this id out of those that wait."""
        calls = self._pending[correlation_id]
        call = calls.popleft()
        if not calls:
            del self._pending[correlation_id]
        self._pending_count -= 1
        return call

    def response(self, frame: bytes, framer: Framer) -> bool:
        """A whole response with its prefix. False if it cannot be one."""
        if self._in_tokens and not self._pending:
            self._token_back(frame, framer)
            return True
        if len(frame) < 8:
            return False
        (correlation_id,) = INT32(frame, 4)
        if correlation_id not in self._pending:
            self._unasked(correlation_id, frame, framer)
            return True
        call = self._answered(correlation_id)
        self._good[False] += 1
        self._answer(call, framer, len(frame) - 4)
        assert call.api_key is not None
        version = call.api_version or 0
        form = form_of(call.api_key, version)
        if form is None and call.api_key == API_VERSIONS:
            form = form_of(API_VERSIONS, 0)
        if form is None:
            call.response_raw = self._kept(frame, call.api_key)
        elif self.bodies is None or call.api_key in self.bodies or call.api_key == SASL_HANDSHAKE:
            self._read_response(call, form, frame)
        if self.raw:
            call.response_raw = self._kept(frame, call.api_key)
        if call.api_key == SASL_HANDSHAKE and version == 0 and call.response and not call.response.error_code:
            self._in_tokens = 1
        return True

    def _read_response(self, call: Call, form: Form, frame: bytes) -> None:
        try:
            at = response_body(form, frame, 4)
            version = form.version
            try:
                call.response, _ = body_at(form.response, frame, at, version)
            except DecodeError:
                if not answers_unsupported(APIS[call.api_key or 0], frame, at):
                    raise
                version = 0
                call.response, _ = body_at(form.response, frame, at, version)
        except DecodeError as error:
            call.reason, call.error = UNREADABLE, str(error)
            call.response_raw = self._kept(frame, call.api_key)
            return
        call.response_version = version
        if self.redacted:
            redact(call.response)

    def _unasked(self, correlation_id: int | None, frame: bytes, framer: Framer, size: int | None = None) -> None:
        """A response whose request was not seen: there is no telling what it says."""
        call = self._bare(framer)
        call.correlation_id, call.reason = correlation_id, REQUEST_NOT_SEEN
        if self.raw and size is None:
            call.response_raw = frame[4:]
        self._answer(call, framer, len(frame) - 4 if size is None else size)

    def _answer(self, call: Call, framer: Framer, size: int) -> None:
        """A response of this size has come; the call is complete."""
        call.response_us, call.response_size = framer.now, size
        call.response_file, call.response_position = framer.file, framer.begun
        self._calls.append(call)

    def _bare(self, framer: Framer) -> Call:
        self._number += 1
        connection = self.connection
        return Call(
            connection=connection.id,
            client=connection.client,
            broker=connection.broker,
            number=self._number,
            client_id=self._client_text,
        )

    def partial(self, is_request: bool, head: bytes, size: int, why: str | None, framer: Framer) -> None:
        """A frame of which only the first bytes were kept; ``why`` is None if more was not wanted."""
        if is_request:
            try:
                header = read_header(head, 4)
            except (DecodeError, struct.error):
                return
            if form_of(header.key, header.version) is None:
                why = UNKNOWN_VERSION
            call = self._call(header, framer, size)
            call.reason = why
            self._asked(call, head, header.body)
            return
        if len(head) < 8:
            return
        (correlation_id,) = INT32(head, 4)
        if correlation_id not in self._pending:
            self._unasked(correlation_id, head, framer, size)
            return
        call = self._answered(correlation_id)
        call.reason = call.reason or why
        self._answer(call, framer, size)

    def _token(self, frame: bytes, framer: Framer) -> bool:
        """A SASL token of the client, without a header."""
        self._in_tokens += 1
        if self._in_tokens > MAX_TOKENS:
            self._be(OPAQUE)
            return True
        call = self._bare(framer)
        call.reason, call.request_us, call.request_size = SASL_TOKEN, framer.now, len(frame) - 4
        call.file, call.position = framer.file, framer.begun
        call.request_raw = None if self.redacted else frame[4:]
        self._tokens.append(call)
        return True

    def _token_back(self, frame: bytes, framer: Framer) -> None:
        """A SASL token of the broker: it answers the oldest of the client."""
        if not self._tokens:
            self._unasked(None, frame, framer)
            return
        call = self._tokens.popleft()
        call.response_raw = None if self.redacted else frame[4:]
        self._answer(call, framer, len(frame) - 4)

    def _kept(self, frame: bytes, key: int | None) -> bytes | None:
        """A frame as it is kept undecoded: without its prefix, and not if it may hold secrets."""
        return None if self.redacted and key in SECRET_APIS else frame[4:]

    # Looking for frames

    def places(self, is_request: bool, data: bytes, start: int) -> list[int]:
        """Where a frame may begin, from ``start`` on."""
        if len(data) - start < 8:
            return []
        size = _words(data, ">i4", start)
        if not is_request:
            wanted = np.array(list(self._pending), np.int64)
            count = len(size) - 4
            mask = (
                np.isin(size[4 : 4 + count], wanted) & (size[:count] >= LEAST_RESPONSE) & (size[:count] <= MAX_SEARCH)
            )
            return [int(at) + start for at in np.flatnonzero(mask)[:MAX_TRIES]]
        if self._client_id is not None and len(self._client_id) >= 4:
            return self._known_client(data, start)
        count = len(data) - start - 13
        if count <= 0:
            return []
        keys, versions = _words(data, ">u2", start + 4)[:count], _words(data, ">i2", start + 6)[:count]
        client = _words(data, ">i2", start + 12)[:count]
        size = size[:count]
        lowest, highest = _bounds()
        keys = np.minimum(keys, len(highest) - 1)
        mask = (size >= LEAST_REQUEST) & (size <= MAX_SEARCH) & (versions >= lowest[keys]) & (versions <= highest[keys])
        mask &= (client >= -1) & (client <= size - LEAST_REQUEST)
        return [int(at) + start for at in np.flatnonzero(mask)[:MAX_TRIES]]

    def _known_client(self, data: bytes, start: int) -> list[int]:
        assert self._client_id is not None
        mark = len(self._client_id).to_bytes(2, "big") + self._client_id
        found, at = [], data.find(mark, start + 12)
        while at >= 0 and len(found) < MAX_TRIES:
            size = INT32(data, at - 12)[0]
            key, version, _, _ = HEADER(data, at - 8)
            if LEAST_REQUEST <= size <= MAX_SEARCH and form_of(key, version) is not None:
                found.append(at - 12)
            at = data.find(mark, at + 1)
        return found

    def is_frame(self, is_request: bool, frame: bytes) -> bool:
        """True if a frame decodes to its last byte."""
        try:
            if is_request:
                header = read_header(frame, 4)
                form = form_of(header.key, header.version)
                if form is None:
                    return False
                _, end = body_at(form.request, frame, header.body, form.version)
                if header.client_id:
                    header.client_id.decode()
                return end == len(frame)
            calls = self._pending.get(INT32(frame, 4)[0])
            form = form_of(calls[0].api_key or 0, calls[0].api_version or 0) if calls else None
            if form is None:
                return False
            _, end = body_at(form.response, frame, response_body(form, frame, 4), form.version)
            return end == len(frame)
        except (DecodeError, struct.error, UnicodeDecodeError):
            return False

    def may_follow(self, is_request: bool, head: bytes) -> bool:
        """True if the next frame may begin like this."""
        if len(head) < 8:
            return True
        (size,) = INT32(head, 0)
        if not is_request:
            return LEAST_RESPONSE <= size <= MAX_FRAME and INT32(head, 4)[0] in self._pending
        key, version = struct.unpack_from(">hh", head, 4)
        return LEAST_REQUEST <= size <= MAX_FRAME and form_of(key, version) is not None

    def is_chain(self, data: bytes) -> bool:
        """True if a segment is nothing but whole frames, to none of which the request was seen."""
        at = 0
        while at + 8 <= len(data):
            size, correlation_id = struct.unpack_from(">ii", data, at)
            if not LEAST_RESPONSE <= size <= MAX_FRAME or correlation_id in self._pending:
                return False
            at += 4 + size
        return at == len(data)

    def strayed(self, is_request: bool) -> None:
        """A frame was expected, and something else came."""
        if self._good[is_request]:
            self._tell(f"no {'request' if is_request else 'response'} where one was due")

    def found_again(self, is_request: bool) -> None:
        """A frame was found after a hole, or after what was none."""
        if self._good[is_request]:
            self.connection.resyncs += 1

    def searched(self, is_request: bool, size: int) -> None:
        """Nothing was found in so many bytes."""
        if self._good[True]:
            return
        if is_request and _is_tls(bytes(self._framers[True].buffer[:6])):
            self._be_tls(bytes(self._framers[True].buffer))
        elif not is_request and _is_tls(bytes(self._framers[False].buffer[:6])):
            self._be(TLS)
        elif is_request and size > STRANGE:
            self._be(NOT_KAFKA)

    def _be_tls(self, data: bytes) -> None:
        self._be(TLS)
        if name := server_name(data):
            self._tell(f"TLS for {name}")

    def _be(self, status: str) -> None:
        """The connection is something else; its bytes are only counted from here on."""
        self.connection.status = status
        for framer in self._framers.values():
            framer.mode = OFF
            framer.buffer.clear()
            framer.parts.clear()
            framer.have = framer.need = framer.left = 0

    def _tell(self, note: str) -> None:
        if len(self.connection.notes) < MAX_NOTES and note not in self.connection.notes:
            self.connection.notes.append(note)


SECRET_APIS = (SASL_AUTHENTICATE, 38, 39, 40, 41, 51)  # whose frames may hold what redact hides


def produce_acks(frame: bytes, at: int, version: int) -> int | None:
    """What a Produce request, whose body begins at ``at``, asks to be acknowledged; None if that is not there."""
    try:
        if version >= 9:
            size, shift = 0, 0
            while True:
                byte = frame[at]
                at += 1
                size |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            at += max(size - 1, 0)
        elif version >= 3:
            (size,) = struct.unpack_from(">h", frame, at)
            at += 2 + max(size, 0)
        acks: int = struct.unpack_from(">h", frame, at)[0]
    except (struct.error, IndexError):
        return None
    return acks


def _words(data: bytes, kind: str, start: int) -> Any:
    """The integers that begin at each byte from ``start`` on."""
    count = max(len(data) - start - int(kind[2]) + 1, 0)
    return np.ndarray((count,), kind, data, start if count else 0, strides=(1,)).astype(np.int64)


@cache
def _bounds() -> tuple[Any, Any]:
    """The lowest and highest version by API key; for a key that does not exist none fits."""
    size = max(APIS) + 2
    lowest, highest = np.full(size, 1, np.int64), np.full(size, 0, np.int64)
    for key, api in APIS.items():
        assert api.versions.last is not None
        lowest[key], highest[key] = api.versions.first, api.versions.last
    return lowest, highest


def _is_tls(data: bytes) -> bool:
    """True for the first bytes of a TLS record. As the length of a frame they would be too large."""
    return len(data) >= 3 and 20 <= data[0] <= 23 and data[1] == 3 and data[2] <= 4


def server_name(hello: bytes) -> str | None:
    """The name that a TLS client asks for, if its first record says one."""
    try:
        at = 5 + 4 + 2 + 32
        if hello[0] != 22 or hello[5] != 1:
            return None
        at += 1 + hello[at]
        at += 2 + int.from_bytes(hello[at : at + 2], "big")
        at += 1 + hello[at]
        end = at + 2 + int.from_bytes(hello[at : at + 2], "big")
        at += 2
        while at + 4 <= min(end, len(hello)):
            kind, size = struct.unpack_from(">HH", hello, at)
            if kind == 0:
                (length,) = struct.unpack_from(">H", hello, at + 7)
                name = hello[at + 9 : at + 9 + length].decode("ascii")
                return name if name.isprintable() else None
            at += 4 + size
    except (IndexError, struct.error, UnicodeDecodeError):
        pass
    return None
