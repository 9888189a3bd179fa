"""Conversion of the segments of one connection, in order of time, to calls. A call is a request with its response.

A Conversation processes one segment at a time, with bounded memory, and can be pickled between two segments. The result
does not depend on how segments are divided among method calls. A Conversation opens no files: the caller passes the
content of a file (bytes or a memory-mapped file), and the position of each payload in the file.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kwire.capture.calls.exchange import Exchange, FrameOfLog
from kwire.capture.calls.frame_headers import INT32, hello_sender, is_tls
from kwire.capture.calls.framing import OFF, SEARCH, SYNC, Framer
from kwire.capture.calls.model import Call, Connection
from kwire.capture.calls.native import LEAST_ROWS, LONGEST_WAIT, call_reader
from kwire.capture.limits import EARLY_BYTES, EARLY_SEGMENTS, HELD_SEGMENT, MAX_UNDECIDED, MAX_UNDECIDED_SEGMENTS
from kwire.capture.tcp.segments import ACK, FIN, RST, SYN, Key, endpoints
from kwire.capture.tcp.stream import KEPT, MASK, Piece, Stream
from kwire.capture.tls.keylog import KeyLog
from kwire.limits import MAX_FRAME

if TYPE_CHECKING:
    from kwire.capture.tls.session import TlsSession

NOT_PLAIN = ACK | FIN | RST | SYN


class Sliced(Protocol):
    """The interface of the content of a file, such as bytes or a memory-mapped file; a slice of it is a payload."""

    def __getitem__(self, part: slice, /) -> bytes: ...


class Row(NamedTuple):
    """A TCP segment, as an argument of ``Conversation.segment``. Each field is also a column of ``segments.Segments``.

    Attributes:
        upward: True if the first endpoint of the connection's key sent the segment.
        time_us: time of the packet, in microseconds since 1970.
        position: byte offset of the packet's record in the file.
        start: byte offset of the payload in the file.
        captured: number of captured bytes of the payload.
        size: number of sent bytes of the payload.
        seq: sequence number.
        ack: acknowledgement number.
        flags: TCP flags.
    """

    upward: bool
    time_us: int
    position: int
    start: int
    captured: int
    size: int
    seq: int
    ack: int
    flags: int


Parts = tuple[bool, int, int, int, int, int, int, int, int]  # the values of a Row


class Conversation:
    """A converter of the TCP segments of one connection to calls (requests with their responses).

    Args:
        key: both endpoints.
        first: first captured segment.
        ports: ports of brokers; empty if unknown.
        bodies: API keys whose bodies are decoded; None for all.
        raw: True to store the bytes of all frames in the calls, in addition to the decoded bodies.
        redacted: True to redact secrets.
        keylog: secrets with which TLS is decrypted; None to decrypt nothing.
        as_json: True if the calls are only printed as JSON. A body then stays encoded where the native engine can write
            its JSON from the encoded bytes (``kwire.json.native``).

    Attributes:
        broker: True if the first endpoint of the key is the broker, False if the second endpoint is, None if unknown.
        connection: the connection, with its counters so far.
        done: True if the connection has ended; further segments are then ignored.
        isn: initial sequence numbers from SYN segments; the key is True for the first endpoint, False for the second.
    """

    __slots__ = (
        "_early",
        "_exchange",
        "_framers",
        "_ports",
        "_seen_bytes",
        "_streams",
        "_tls",
        "_undecided",
        "broker",
        "connection",
        "done",
        "isn",
        "key",
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
        keylog: KeyLog | None = None,
        as_json: bool = False,
    ) -> None:
        self._begin(f"{key}", first.time_us, first.seq, bodies, raw, redacted, as_json)
        self._tls = _tls_session(keylog)
        self.key = key
        self._ports = ports
        low, high = endpoints(key)
        self.connection.client, self.connection.broker = low, high
        self._choose(self._configured())

    def _begin(
        self,
        name: str,
        time_us: int,
        seq: int,
        bodies: frozenset[int] | None,
        raw: bool,
        redacted: bool,
        as_json: bool,
    ) -> None:
        number = blake2b(f"{name} {time_us} {seq}".encode(), digest_size=8).hexdigest()
        self.connection = Connection(id=number, client="", broker="", first_us=time_us, last_us=time_us)
        self.isn: dict[bool, int] = {}
        self.broker: bool | None = None
        self.done = False
        self._streams = {True: Stream(), False: Stream()}
        self._exchange = Exchange(self.connection, bodies, raw, redacted, as_json)
        self._framers = self._exchange.framers
        self._early: (
            list[tuple[Row, bytes, str]] | None
        ) = []  # segments before the SYN of their side; None once it is not expected any more
        self._undecided: list[tuple[Row, bytes, str]] = []
        self._seen_bytes = 0
        self._tls = _tls_session(None)

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
        as_json: bool = False,
    ) -> Conversation:
        """Return a Conversation for the frames of a frame log; pass the frames to its method ``frame``.

        Args:
            name: text that identifies the connection.
            client: ``host:port`` of the client.
            broker: ``host:port`` of the broker.
            time_us: time of the first frame, in microseconds since 1970.
            bodies: API keys whose bodies are decoded; None for all.
            raw: True to store the bytes of all frames in the calls, in addition to the decoded bodies.
            redacted: True to redact secrets.
            as_json: True if the calls are only printed as JSON. A body then stays encoded where the native engine can
                write its JSON from the encoded bytes (``kwire.json.native``).
        """
        self = cls.__new__(cls)
        self._begin(f"{name} {client} {broker}", time_us, 0, bodies, raw, redacted, as_json)
        self.key, self._ports = (0, 0, 0, 0, 0, 0), ()
        self.broker = True
        self.connection.client, self.connection.broker = client, broker
        for framer in self._framers.values():
            framer.mode = SYNC
        return self

    def frame(self, logged: FrameOfLog) -> None:
        """Process the next frame of a frame log."""
        self._exchange.frame(logged)

    def defer_bodies(self) -> None:
        """From now on, store requests and their responses in the calls without decoding the bodies. See
        ``BodyReader.decode``.
        """
        self._exchange.defer_bodies()

    def forget_secrets(self) -> None:
        """Remove the TLS secrets and keys from the state. Before the next segment, ``use_secrets`` must be called."""
        if self._tls is not None:
            self._tls.forget_secrets()

    def use_secrets(self, keylog: KeyLog | None) -> None:
        """Continue with the secrets of a key log, if TLS is decrypted. ``keylog``: None if there are no secrets."""
        if self._tls is not None:
            self._tls.use_secrets(keylog)

    @property
    def held(self) -> int:
        """The number of buffered bytes: early segments, incomplete TLS records and incomplete frames.

        A segment is early if bytes before it are missing, or if its connection's SYN or broker is still unknown. It
        counts as HELD_SEGMENT bytes more than its payload.
        """
        buffered = sum(stream.held_bytes + HELD_SEGMENT * len(stream.held) for stream in self._streams.values())
        undecided = sum(HELD_SEGMENT + len(payload) for _, payload, _ in [*self._undecided, *(self._early or ())])
        encrypted = 0 if self._tls is None else self._tls.held
        return buffered + undecided + encrypted + sum(framer.held for framer in self._framers.values())

    def taken(self) -> list[Call]:
        """Return the calls (requests with responses) that were completed since the previous use of this method."""
        exchange = self._exchange
        calls, exchange.calls = exchange.calls, []
        return calls

    # Segments

    def is_another(self, row: Row) -> bool:
        """Return whether a segment belongs to a new connection between the same endpoints, not to this connection."""
        if row.flags & SYN:
            isn = self.isn.get(row.upward)
            if isn is not None:
                return isn != row.seq
            if self._early:
                return not all(_may_follow(early, row) for early, _, _ in self._early)
            stream = self._streams[row.upward]
            if stream.next is None:
                return False
            return (row.seq + 1 - stream.next) & MASK != 0 and not (row.flags & ACK and not self.connection.segments)
        if not self.done:
            return False
        following = self._streams[row.upward].next
        return bool(row.size) and following is not None and 2**26 < (row.seq - following) & MASK < 2**32 - 2**26

    def segment(self, row: Row, source: Sliced, base: int, file: str) -> None:
        """Process the next segment.

        Args:
            row: TCP segment, decoded from its packet.
            source: object that contains the payload, at ``row.start - base``.
            base: position in the file at which ``source`` begins.
            file: path of the file.
        """
        self.segments((row,), source, base, file)

    def segments(self, rows: Sequence[Parts], source: Sliced, base: int, file: str, begin: int = 0) -> int:
        """Process segments, but stop early where a new connection may begin.

        The method stops before a segment with SYN that is not the first one, and after the segment that ends this
        connection. It processes segments in order faster than other segments.

        Args:
            rows: Rows, or tuples with the same values.
            source: object to slice payloads from.
            base: position in the file at which ``source`` begins.
            file: path of the file.
            begin: index of the first segment to process.

        Returns: the index of the first segment that was not processed; ``len(rows)`` if all were processed.
        """
        reader = call_reader()
        if reader is None or len(rows) - begin < LEAST_ROWS or not isinstance(rows, list):
            return self._segments(rows, source, base, file, begin, begin, len(rows))
        at, wait = begin, 0
        while at < len(rows):
            after = self._usual_segments(reader, rows, source, base, file, at)
            wait = 0 if after > at else min(2 * wait + 1, LONGEST_WAIT)
            at, end = after, min(after + 1 + wait, len(rows))
            at = self._segments(rows, source, base, file, begin, at, end)
            if at < end or self.done:
                return at
        return at

    def _usual_segments(self, reader: Any, rows: list[Parts], source: Sliced, base: int, file: str, begin: int) -> int:
        """Process segments with the native package, up to the first one that Python must process.

        For the arguments, see ``segments``. ``reader``: the native reader of calls.

        Returns: the index of the first segment that was not processed.
        """
        connection, exchange = self.connection, self._exchange
        sides = self._sides()
        about = None if sides is None else exchange.usual()
        if sides is None or about is None or any(stream.fin is not None for stream, *_ in sides):
            return begin
        pending, client_id, client_text = about
        is_upward = not sides[False][3]  # whether the segments of the first endpoint are requests
        both = sides[is_upward], sides[not is_upward]
        before = len(exchange.calls)
        end: int
        end, segments, numbers, last_us, after = reader.read(
            rows,
            begin,
            source,
            base,
            (connection.id, connection.client, connection.broker, file, client_id, client_text, pending, is_upward),
            exchange.numbers,
            [(stream.next, stream.acked, framer.now) for stream, _, framer, _ in both],
            exchange.calls,
        )
        if end == begin:
            return begin
        exchange.count(numbers, len(exchange.calls) - before)
        connection.segments += segments
        connection.last_us = max(connection.last_us, last_us)
        connection.bytes_to_broker += after[0][3]
        connection.bytes_to_client += after[1][3]
        for (stream, _, framer, _), (due, acked, now, _, last) in zip(both, after, strict=True):
            stream.next, stream.acked, framer.now = due, acked, now
            if last is not None:
                place, framer.began_at, payload = last
                framer.file, stream.last = file, (place, payload)
        return end

    def _segments(
        self, rows: Sequence[Parts], source: Sliced, base: int, file: str, first: int, begin: int, end: int
    ) -> int:
        """Process segments without the native package. For the other arguments, see ``segments``.

        Args:
            first: index of the first segment of the call of ``segments``.
            begin: index of the first segment to process.
            end: index after the last segment to process.

        Returns: the index of the first segment that was not processed.
        """
        connection, exchange = self.connection, self._exchange
        sides = self._sides()
        for number in range(begin, end):
            upward, time_us, position, start, captured, size, seq, ack, flags = rows[number]
            if sides is not None:
                stream, other, framer, is_request = sides[upward]
                due = stream.next
                is_seen = other.acked == ack or (other.next is not None and not (ack - other.next) & MASK)
                if (
                    due is not None
                    and not (seq - due) & MASK
                    and flags & NOT_PLAIN == ACK
                    and 0 < size == captured
                    and (is_seen or is_request)
                ):
                    if is_seen:
                        other.acked = ack
                    else:
                        other.notice(ack, time_us)
                    connection.segments += 1
                    if time_us > connection.last_us:
                        connection.last_us = time_us
                    stream.next = due + size
                    if time_us > framer.now:
                        framer.now = time_us
                    if is_request:
                        connection.bytes_to_broker += size
                    else:
                        connection.bytes_to_client += size
                    if framer.to_skip > size:
                        framer.to_skip -= size
                        stream.last = (due, b"")
                    elif framer.mode != OFF:
                        payload = source[start - base : start - base + size]
                        stream.last = (due, payload if size <= KEPT else b"")
                        framer.data(exchange, payload, file, position)
                    continue
            if number > first and flags & SYN:
                return number
            self._segment(Row._make(rows[number]), source, base, file)
            if self.done:
                return number + 1
            sides = self._sides()
        return end

    def _sides(self) -> Sequence[tuple[Stream, Stream, Framer, bool]] | None:
        """Return a tuple (stream, opposite stream, framer, is_request) for each direction, indexed by ``Row.upward``.

        The result is None if segments must be processed by ``_segment``: the broker is unknown, a direction waits for
        missing bytes, early segments are buffered for a SYN, the connection may use TLS, or the conversation is done.
        """
        low, high = self._streams[False], self._streams[True]
        if low.held or high.held or self.broker is None or self.done or self._early or self._tls is not None:
            return None
        framers, broker = self._framers, self.broker
        return (low, high, framers[broker], broker), (high, low, framers[not broker], not broker)

    def _segment(self, row: Row, source: Sliced, base: int, file: str) -> None:
        """Process any segment, also a segment that is out of order. (For segments in order, ``segments`` is faster.)

        Args:
            row: TCP segment, decoded from its packet.
            source: object that contains the payload, at ``row.start - base``.
            base: position in the file at which ``source`` begins.
            file: path of the file.
        """
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
        elif self._early is not None and stream.next is None:
            self._early.append((row, source[start - base : start - base + captured], file))
            if len(self._early) > EARLY_SEGMENTS:
                self._give_up_syn()
            return
        if self.broker is None:
            payload = source[start - base : start - base + captured]
            self._undecided.append((row, payload, file))
            self._infer_broker(row, payload)
            return
        if flags & ACK and other.acked != ack:
            other.notice(ack, time_us)
        if size:
            connection.segments += 1
            if stream.next is None:
                stream.next = seq
            place = stream.place(seq)
            if place > stream.next:
                connection.out_of_order += 1
            payload = source[start - base : start - base + captured]
            stream.hold(Piece(place, time_us, payload, size, file, position))
        if flags & FIN and stream.next is not None:
            stream.fin = stream.place(seq) + size
        elif flags & FIN:
            stream.next = stream.fin = (seq + size) & MASK
        self._advance(time_us)
        if flags & SYN and self._early and not self.done:
            early, self._early = self._early, []
            self._replay(early)

    def _give_up_syn(self) -> None:
        """Stop waiting for a SYN: read each direction from its first captured byte."""
        early, self._early = self._early or [], None
        self._replay(early)

    def _open(self, row: Row) -> None:
        """Process a SYN. The sender of a SYN without ACK is the client; the sender of a SYN with ACK is the broker."""
        connection = self.connection
        connection.syn_seen = True
        stream, other = self._streams[row.upward], self._streams[not row.upward]
        self.isn.setdefault(row.upward, row.seq)
        if stream.next is None:
            stream.next = (row.seq + 1) & MASK
            stream.acked = None  # earlier acknowledgements are among the early segments
        answered = bool(row.flags & ACK)
        if answered:
            self.isn.setdefault(not row.upward, (row.ack - 1) & MASK)
            if other.next is None:
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
        """Set which endpoint is the broker, here and in ``connection``.

        ``broker``: True for the first endpoint of the key, False for the second, None if unknown. If unknown, the
        endpoint with the lower port is named as the broker in ``connection``.
        """
        first, second = endpoints(self.key)
        self.broker = broker
        if broker is None:  # only to name the endpoints
            broker = self.key[2] <= self.key[5]
        self.connection.broker, self.connection.client = (first, second) if broker else (second, first)

    def _infer_broker(self, row: Row, payload: bytes) -> None:
        """Decide which endpoint is the broker, if neither a port nor a SYN shows it.

        The sender of a TLS ClientHello or of a valid request is the client. The sender of a TLS ServerHello is the
        broker. After a different TLS record, or after too many bytes or segments, the endpoint with the lower port
        counts as the broker.

        Args:
            row: TCP segment, decoded from its packet.
            payload: captured payload of the segment.
        """
        self._seen_bytes += len(payload)
        if is_tls(payload):
            sender = hello_sender(payload)
            self._choose(self.key[2] <= self.key[5] if sender is None else sender != row.upward)
        elif self._starts_with_request(payload):
            self._choose(not row.upward)
        elif self._seen_bytes > MAX_UNDECIDED or len(self._undecided) > MAX_UNDECIDED_SEGMENTS:
            self._choose(self.key[2] <= self.key[5])
        if self.broker is not None:
            self._decided()

    def _decided(self) -> None:
        rows, self._undecided = self._undecided, []
        self._replay(rows)

    def _replay(self, rows: Sequence[tuple[Row, bytes, str]]) -> None:
        """Process segments that were buffered until the SYN or the broker of the connection was known.

        ``rows``: buffered segments in order; each is a tuple of the segment, its payload and the path of its file.
        """
        for row, payload, file in rows:
            self.segment(row, payload, row.start, file)

    def _starts_with_request(self, payload: bytes) -> bool:
        if len(payload) < 14:
            return False
        end = 4 + INT32(payload, 0)[0]
        return 14 <= end <= len(payload) and self._exchange.checks.is_frame(True, payload[:end])

    def _advance(self, now_us: int) -> None:
        """Pass the bytes that are in order to the framers, requests first. Skip a gap if its bytes will never arrive.

        Close the connection if both directions have ended with FIN. ``now_us``: time of the current segment, in
        microseconds since 1970.
        """
        for is_request in (True, False):
            stream = self._streams[(not self.broker) == is_request]
            while stream.held or stream.gap:
                if self._deliver(is_request, stream):
                    continue
                stream.waited += 1
                if not stream.is_lost(now_us):
                    return  # responses wait for requests that are not delivered yet
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
        if framer.mode != OFF and piece.payload:
            self._pass_on(is_request, piece)
        if missing := piece.size - len(piece.payload):  # truncated by the snap length
            self._skip_gap(is_request, missing)
        return True

    def _pass_on(self, is_request: bool, piece: Piece) -> None:
        """Pass bytes to the framer of their direction, decrypted if the connection uses TLS.

        Args:
            is_request: True for bytes of the client, False for bytes of the broker.
            piece: the next bytes of this direction.
        """
        if self._tls is not None and not self._tls.begin and not is_tls(piece.payload):
            self._tls = None
        if self._tls is None:
            self._framers[is_request].data(self._exchange, piece.payload, piece.file, piece.position)
            return
        for of_client, plain in self._tls.feed(is_request, piece.payload):
            framer = self._framers[of_client]
            framer.now = max(framer.now, piece.time_us)
            if plain:
                framer.data(self._exchange, plain, piece.file, piece.position)
            else:
                framer.lost(self._exchange, MAX_FRAME)
        self._end_refused()

    def _end_refused(self) -> None:
        """Stop decrypting the connection, if the TLS session has reported that it cannot decrypt further bytes."""
        if self._tls is not None and self._tls.refused is not None:
            self._exchange.stop_decryption(self._tls.begin, self._tls.refused)
            self._tls = None

    def _skip_hole(self, is_request: bool, stream: Stream) -> None:
        self._skip_gap(is_request, stream.give_up())

    def _skip_gap(self, is_request: bool, size: int) -> None:
        """Handle bytes that were never captured: the framer searches for the next frame after them.

        Args:
            is_request: True for bytes of the client, False for bytes of the broker.
            size: number of missing bytes.
        """
        self.connection.gaps += 1
        self.connection.gap_bytes += size
        if self._tls is not None:
            self._tls.lost(is_request, size)
            self._end_refused()
        else:
            self._framers[is_request].lost(self._exchange, size)

    def _close(self, how: str) -> None:
        self.connection.closed = how
        self.finish()

    def finish(self) -> Connection:
        """End the connection and return it. After this, ``taken`` also returns the calls without a response."""
        connection = self.connection
        if self.done:
            return connection
        if self._early:
            self._give_up_syn()
        if self.broker is None:
            self._choose(self.key[2] <= self.key[5])
            self._decided()
        if self.done:
            return connection
        self.done = True
        for is_request in (True, False):
            stream = self._streams[(not self.broker) == is_request]
            while stream.held or stream.gap:
                if not self._deliver(is_request, stream):
                    self._skip_hole(is_request, stream)
            self._framers[is_request].finish(self._exchange)
        self._exchange.finish()
        connection.retransmitted = sum(stream.retransmitted for stream in self._streams.values())
        connection.conflicts = sum(stream.conflicts for stream in self._streams.values())
        return connection


def _tls_session(keylog: KeyLog | None) -> TlsSession | None:
    if keylog is None:
        return None
    from kwire.capture.tls.session import TlsSession

    return TlsSession(keylog)


def _may_follow(row: Row, syn: Row) -> bool:
    """Return whether a segment that was captured before a SYN can belong to the connection that the SYN opens.

    Args:
        row: TCP segment, decoded from its packet.
        syn: the SYN.
    """
    if row.upward != syn.upward and not row.flags & ACK:
        return True
    number = row.seq if row.upward == syn.upward else row.ack
    return (number - syn.seq - 1) & MASK <= EARLY_BYTES
