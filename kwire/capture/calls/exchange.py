"""The frames of one connection to calls: a request and its response each, paired by correlation id.

What an Exchange is told by framers, or by a frame log, it reads and keeps as calls; it also knows what can be a frame,
for a framer that looks for one. Where bytes were lost, a frame is only believed after the hole if it decodes to its
last byte; nothing is guessed.
"""

from __future__ import annotations

import struct
from collections import deque

from kwire.apikeys import ApiKey
from kwire.capture.calls import frame_search
from kwire.capture.calls.frame_headers import (
    INT32,
    LEAST_REQUEST,
    LEAST_RESPONSE,
    MAX_VERSION,
    Form,
    Header,
    body_at,
    cut_header,
    form_of,
    is_plausible,
    is_tls,
    leading_group,
    produce_acks,
    read_header,
    response_body,
    server_name,
)
from kwire.capture.calls.framing import OFF, SEARCH, Framer
from kwire.capture.calls.model import (
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
from kwire.capture.limits import LOST_TOGETHER_US, MAX_KEPT_FRAME, MAX_LOST, MAX_NOTES, MAX_PENDING, MAX_TOKENS, STRANGE
from kwire.envelope import answers_unsupported
from kwire.errors import DecodeError
from kwire.limits import MAX_FRAME
from kwire.messages import APIS
from kwire.redact import redact

# APIs whose frames may hold what redact hides.
SECRET_APIS = (
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
)


class Exchange:
    """Calls of the frames of one connection, complete ones in ``calls``. Options as of Conversation.

    ``framers``: both directions, by whether they carry requests. ``good``: frames that were read, likewise.

    A connection may begin with a request of which the API or the version is not known. It is listed once something else
    proves that the connection speaks Kafka: a client id beside a known API, a response with its correlation id, or a
    request that is known.
    """

    __slots__ = (
        "_client_id",
        "_client_text",
        "_in_tokens",
        "_is_strange",
        "_lost_since",
        "_pending",
        "_pending_count",
        "_tokens",
        "bodies",
        "calls",
        "connection",
        "framers",
        "good",
        "number",
        "raw",
        "redacted",
    )

    def __init__(self, connection: Connection, bodies: frozenset[int] | None, raw: bool, redacted: bool) -> None:
        self.connection = connection
        self.bodies = bodies
        self.raw = raw
        self.redacted = redacted
        self.calls: list[Call] = []
        self.framers = {True: Framer(True, SEARCH), False: Framer(False, SEARCH)}
        self.good = {True: 0, False: 0}
        self.number = 0
        self._client_id: bytes | None = None  # as it stands on the wire
        self._client_text: str | None = None
        self._pending: dict[int, list[Call]] = {}
        self._pending_count = 0
        self._tokens: deque[Call] = deque()
        self._is_strange = False  # it began with something that is not a request
        self._lost_since: dict[bool, int] = {}  # when a direction lost track of its frames
        self._in_tokens = 0  # tokens without header that came, and one; 0: none are due

    def finish(self) -> None:
        """No more frames will come: what was not answered stays so."""
        if not self.good[True]:  # those that nothing has proven to be requests
            self._pending.clear()
        for calls in [*self._pending.values(), self._tokens]:
            for call in calls:
                call.reason = call.reason or RESPONSE_NOT_SEEN
                self.calls.append(call)
        self._pending.clear()
        self._tokens.clear()
        self.calls.sort(key=lambda call: call.number)
        connection = self.connection
        for begin in self._lost_since.values():
            self._lost(begin, connection.last_us)
        some = connection.bytes_to_broker or connection.bytes_to_client
        is_known = self._is_strange or not connection.gap_bytes  # else what it is may not have been captured
        if connection.status == KAFKA and some and not self.good[True] and (connection.syn_seen or not self.number):
            connection.status = NOT_KAFKA if is_known else KAFKA

    # Frames, as the framers tell of them

    def frame(self, to_broker: bool, frame: bytes, time_us: int, file: str, position: int) -> None:
        """A whole frame out of a frame log."""
        framer = self.framers[to_broker]
        framer.now, framer.file, framer.begun = max(framer.now, time_us), file, position
        self.connection.last_us = max(self.connection.last_us, time_us)
        if to_broker:
            self.connection.bytes_to_broker += len(frame) + 4
        else:
            self.connection.bytes_to_client += len(frame) + 4
        data = len(frame).to_bytes(4, "big") + frame
        good = self.request(data, framer) if to_broker else self.response(data, framer)
        if not good:
            self.tell(f"{file} at byte {position}: not a Kafka {'request' if to_broker else 'response'}")

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
            return header.form is not None and header.key not in self.bodies, None
        calls = self._pending.get(INT32(head, 4)[0], ())
        return any(call.api_key not in self.bodies for call in calls), None

    def request(self, frame: bytes, framer: Framer) -> bool:
        """A whole request with its prefix. False if it cannot be one."""
        if not self.good[True] and is_tls(frame):
            self.be_tls(frame)
            return True
        try:
            header = read_header(frame, 4)
        except (DecodeError, struct.error):
            if self._in_tokens:
                return self._token(frame, framer)
            return False
        form = header.form
        if self._in_tokens:
            if form is None or header.client_id != self._client_id or not self.is_frame(True, frame):
                return self._token(frame, framer)
            self._in_tokens = 0
        if form is None and not is_plausible(header):
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
            call.group_id = leading_group(form, frame, at)
            return
        if self.redacted and call.api_key in SECRET_APIS:
            redact(call.request)
        if call.api_key == ApiKey.API_VERSIONS and form.version >= 3:
            self.connection.software_name = call.request.client_software_name
            self.connection.software_version = call.request.client_software_version

    def _call(self, header: Header, framer: Framer, size: int) -> Call:
        """A call with what its request's header says."""
        if header.client_id != self._client_id and header.client_id is not None:
            self._client_id = header.client_id
            self._client_text = None if header.client_id is None else header.client_id.decode("utf-8", "replace")
            if self.connection.client_id is None:
                self.connection.client_id = self._client_text
        if header.form is not None or self.good[True] or (header.key in APIS and header.client_id):
            self.good[True] += 1
        self.number += 1
        connection = self.connection
        return Call(
            connection=connection.id,
            client=connection.client,
            broker=connection.broker,
            number=self.number,
            api_key=header.key,
            api_version=header.version,
            correlation_id=header.correlation_id,
            client_id=None if header.client_id is None else self._client_text,
            request_us=framer.now,
            request_size=size,
            file=framer.file,
            position=framer.begun,
        )

    def _asked(self, call: Call, frame: bytes, body: int) -> None:
        """A request that waits for its response, unless it gets none."""
        if call.api_key == ApiKey.PRODUCE and produce_acks(frame, body, call.api_version or 0) == 0:
            self.calls.append(call)
            return
        assert call.correlation_id is not None
        calls = self._pending.get(call.correlation_id)
        if calls is None:
            self._pending[call.correlation_id] = [call]
        else:
            calls.append(call)
        self._pending_count += 1
        if self._pending_count > MAX_PENDING:
            oldest = next(iter(self._pending))
            given_up = self._answered(oldest)
            given_up.reason = given_up.reason or RESPONSE_NOT_SEEN
            self.calls.append(given_up)

    def _answered(self, correlation_id: int) -> Call:
        """Take the oldest call with this id out of those that wait."""
        calls = self._pending[correlation_id]
        call = calls.pop(0)
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
        self.good[False] += 1
        self.good[True] = self.good[True] or 1
        self._answer(call, framer, len(frame) - 4)
        assert call.api_key is not None
        version = call.api_version or 0
        form = form_of(call.api_key, version)
        if form is None and call.api_key in APIS and answers_unsupported(APIS[call.api_key], frame, 8):
            form = form_of(ApiKey.API_VERSIONS, 0)
        if form is None:
            call.response_raw = self._kept(frame, call.api_key)
        elif self.bodies is None or call.api_key in self.bodies or call.api_key == ApiKey.SASL_HANDSHAKE:
            self._read_response(call, form, frame)
        if self.raw:
            call.response_raw = self._kept(frame, call.api_key)
        if call.api_key == ApiKey.SASL_HANDSHAKE and version == 0 and call.response and not call.response.error_code:
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
        if self.redacted and call.api_key in SECRET_APIS:
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
        self.calls.append(call)

    def _bare(self) -> Call:
        self.number += 1
        connection = self.connection
        return Call(
            connection=connection.id,
            client=connection.client,
            broker=connection.broker,
            number=self.number,
            client_id=self._client_text,
        )

    def partial(self, is_request: bool, head: bytes, size: int, why: str | None, framer: Framer) -> None:
        """A frame of which only the first bytes were kept; ``why`` is None if more was not wanted."""
        if is_request:
            header = self._header_of(head)
            if header is None:
                self._lost(framer.now, framer.now)
                return
            if header.form is None and not is_plausible(header):
                return
            call = self._call(header, framer, size)
            call.reason = why or (UNKNOWN_VERSION if header.form is None else None)
            if header.form is not None and why is not None:
                call.group_id = leading_group(header.form, head, header.body)
            self._asked(call, head, header.body)
            return
        if len(head) < 8:
            self._lost(framer.now, framer.now)
            return
        (correlation_id,) = INT32(head, 4)
        if correlation_id not in self._pending:
            self._unasked(correlation_id, head, framer, size)
            return
        call = self._answered(correlation_id)
        self.good[True] = self.good[True] or 1
        call.reason = call.reason or why
        self._answer(call, framer, size)

    def _header_of(self, head: bytes) -> Header | None:
        """The header of a request of which only the first bytes were kept; None if they are too few."""
        try:
            return read_header(head, 4)
        except (DecodeError, struct.error):
            return cut_header(head, 4, self._client_id)

    def _token(self, frame: bytes, framer: Framer) -> bool:
        """A SASL token of the client, without a header."""
        self._in_tokens += 1
        if self._in_tokens > MAX_TOKENS:
            self.be(OPAQUE)
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
            return frame_search.requests(data, start, self._client_id)
        return frame_search.responses(data, start, self._pending)

    def is_frame(self, is_request: bool, frame: bytes) -> bool:
        """True if a frame decodes to its last byte."""
        try:
            if is_request:
                header = read_header(frame, 4)
                form = header.form
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
        return LEAST_REQUEST <= size <= MAX_FRAME and key in APIS and 0 <= version < MAX_VERSION

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
        if self.good[is_request]:
            self.tell(f"no {'request' if is_request else 'response'} where one was due")
            self.lost_track(is_request)
        elif is_request:
            self._is_strange = True

    def lost_track(self, is_request: bool) -> None:
        """Frames may be missed from here on."""
        self._lost_since.setdefault(is_request, self.framers[is_request].now)

    def _lost(self, begin: int, end: int) -> None:
        """Keep from when to when frames may have been missed, with what was less than a second before."""
        known = self.connection.lost
        if known and (begin - known[-1][1] < LOST_TOGETHER_US or len(known) >= MAX_LOST):
            known[-1] = min(known[-1][0], begin), max(known[-1][1], end)
        else:
            known.append((begin, end))

    def found_again(self, is_request: bool) -> None:
        """A frame was found after a hole, or after what was none."""
        if (begin := self._lost_since.pop(is_request, None)) is not None:
            self._lost(begin, self.framers[is_request].now)
        if self.good[is_request]:
            self.connection.resyncs += 1

    def searched(self, is_request: bool, size: int) -> None:
        """Nothing was found in so many bytes."""
        if self.good[True]:
            return
        if is_request and is_tls(bytes(self.framers[True].buffer[:6])):
            self.be_tls(bytes(self.framers[True].buffer))
        elif not is_request and is_tls(bytes(self.framers[False].buffer[:6])):
            self.be(TLS)
        elif is_request and size > STRANGE:
            self.be(NOT_KAFKA)

    def be_tls(self, data: bytes) -> None:
        self.be(TLS)
        if name := server_name(data):
            self.tell(f"TLS for {name}")

    def be(self, status: str) -> None:
        """The connection is something else; its bytes are only counted from here on."""
        self.connection.status = status
        for framer in self.framers.values():
            framer.mode = OFF
            framer.buffer.clear()
            framer.parts.clear()
            framer.have = framer.need = framer.left = 0

    def tell(self, note: str) -> None:
        if len(self.connection.notes) < MAX_NOTES and note not in self.connection.notes:
            self.connection.notes.append(note)
