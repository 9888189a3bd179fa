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
from hashlib import blake2b
from typing import NamedTuple, Protocol

from kwire.capture import search
from kwire.capture.call import (
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
from kwire.capture.framing import OFF, SEARCH, SYNC, Framer
from kwire.capture.limits import MAX_KEPT_FRAME, MAX_NOTES, MAX_PENDING, MAX_TOKENS, MAX_UNDECIDED, STRANGE
from kwire.capture.packets import ACK, FIN, RST, SYN, Key, endpoints
from kwire.capture.peek import (
    INT32,
    LEAST_REQUEST,
    LEAST_RESPONSE,
    Form,
    Header,
    body_at,
    form_of,
    is_tls,
    produce_acks,
    read_header,
    response_body,
    server_name,
)
from kwire.capture.redact import redact
from kwire.capture.tcp import KEPT, MASK, Piece, Stream
from kwire.envelope import answers_unsupported
from kwire.errors import DecodeError
from kwire.headers import API_VERSIONS
from kwire.limits import MAX_FRAME
from kwire.messages import APIS

SECRET_APIS = (36, 38, 39, 40, 41, 51)  # whose frames may hold what redact hides
PRODUCE, SASL_HANDSHAKE = 0, 17


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


class Conversation:
    """Calls of one connection. ``bodies``: API keys whose bodies are decoded, None for all. ``raw``: keep all frames.

    ``redacted``: secrets are replaced. ``broker``: True if the first end of the key is it; None if it is not known.
    """

    __slots__ = (
        "_calls",
        "_client_id",
        "_client_text",
        "_framers",
        "_good",
        "_in_tokens",
        "_number",
        "_pending",
        "_pending_count",
        "_ports",
        "_seen_bytes",
        "_streams",
        "_tokens",
        "_undecided",
        "bodies",
        "broker",
        "connection",
        "done",
        "isn",
        "key",
        "raw",
        "redacted",
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
        self._choose(self._configured())

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
            is_request = upward == (not self.broker)
            unseen = False
            if flags & ACK and other.acked != ack:
                if other.next is not None and not other.held and (ack - other.next) & MASK == 0:
                    other.acked = ack
                else:
                    unseen = other.notice(ack, time_us) and not is_request
            in_order = (seq - stream.next) & MASK == 0 and captured == size
            if in_order and not stream.held and not other.held and not unseen:
                stream.next += size
                framer = self._framers[is_request]
                if time_us > framer.now:
                    framer.now = time_us
                if is_request:
                    connection.bytes_to_broker += size
                else:
                    connection.bytes_to_client += size
                if framer.left > size:
                    framer.left -= size
                    stream.last = (stream.next - size, b"")
                elif framer.mode != OFF:
                    payload = source[start - base : start - base + size]
                    stream.last = (stream.next - size, payload if size <= KEPT else b"")
                    framer.data(self, payload, file, position)
                if not flags & FIN:
                    return
            else:
                place = stream.place(seq)
                if place > stream.next:
                    connection.out_of_order += 1
                payload = source[start - base : start - base + captured]
                stream.hold(Piece(place, time_us, payload, size, file, position))
        elif flags & ACK:
            other.notice(ack, time_us)
        if flags & FIN and stream.next is not None:
            stream.fin = stream.place(seq) + size
        elif flags & FIN:
            stream.next = stream.fin = (seq + size) & MASK
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
            self._choose(not row.upward if not answered else row.upward)
        for framer in self._framers.values():
            if not framer.now and framer.mode == SEARCH and not framer.buffer:
                framer.mode = SYNC

    def _configured(self) -> bool | None:
        low, high = self.key[2] in self._ports, self.key[5] in self._ports
        return None if low == high else low

    def _choose(self, broker: bool | None) -> None:
        """Say which end is the broker: True for the first of the key."""
        first, second = endpoints(self.key)
        self.broker = broker
        if broker is None:  # only to have a name for the ends
            broker = self.key[2] <= self.key[5]
        self.connection.broker, self.connection.client = (first, second) if broker else (second, first)

    def _vote(self, row: Row, payload: bytes) -> None:
        """Neither a port nor a SYN says who is the broker: who sends something that is a request is not."""
        self._seen_bytes += len(payload)
        if is_tls(payload):
            self._choose(self.key[2] <= self.key[5])
        elif self._starts_with_request(payload):
            self._choose(not row.upward)
        elif self._seen_bytes > MAX_UNDECIDED:
            self._choose(self.key[2] <= self.key[5])
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
        for is_request in (True, False):
            stream = self._streams[(not self.broker) == is_request]
            while stream.held or stream.hole:
                if self._deliver(is_request, stream):
                    continue
                stream.waited += 1
                if not stream.is_lost(now_us):
                    return  # answers wait for requests that are still to come
                self._skip_hole(is_request, stream)
        if all(stream.is_done for stream in self._streams.values()):
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
            self._choose(self.key[2] <= self.key[5])
            self._replay()
            if self.done:
                return connection
        self.done = True
        for is_request in (True, False):
            stream = self._streams[(not self.broker) == is_request]
            while stream.held or stream.hole:
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

    def pass_over(self, is_request: bool, head: bytes, size: int) -> tuple[bool, str | None]:
        """Whether a frame with these first bytes is passed over, and the reason; None if nobody asked for it."""
        if size > MAX_KEPT_FRAME:
            return True, TOO_LARGE
        if self.bodies is None or self.raw or self._in_tokens:
            return False, None
        if is_request:
            try:
                header = read_header(head, 4)
            except (DecodeError, struct.error):
                return False, None
            known = form_of(header.key, header.version) is not None
            return known and header.key not in self.bodies, None
        calls = self._pending.get(INT32(head, 4)[0], ())
        return any(call.api_key not in self.bodies for call in calls), None

    def request(self, frame: bytes, framer: Framer) -> bool:
        """A whole request with its prefix. False if it cannot be one."""
        if not self._good[True] and is_tls(frame):
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
        call = self._bare()
        call.correlation_id, call.reason = correlation_id, REQUEST_NOT_SEEN
        if self.raw and size is None:
            call.response_raw = frame[4:]
        self._answer(call, framer, len(frame) - 4 if size is None else size)

    def _answer(self, call: Call, framer: Framer, size: int) -> None:
        """A response of this size has come; the call is complete."""
        call.response_us, call.response_size = framer.now, size
        call.response_file, call.response_position = framer.file, framer.begun
        self._calls.append(call)

    def _bare(self) -> Call:
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
        call = self._bare()
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
        if is_request:
            return search.requests(data, start, self._client_id)
        return search.responses(data, start, self._pending)

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
        if is_request and is_tls(bytes(self._framers[True].buffer[:6])):
            self._be_tls(bytes(self._framers[True].buffer))
        elif not is_request and is_tls(bytes(self._framers[False].buffer[:6])):
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
