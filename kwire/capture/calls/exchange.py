"""Conversion of the frames of one connection to calls. Responses are matched to requests by correlation id."""

from __future__ import annotations

import struct
from typing import NamedTuple

from kwire.apikeys import ApiKey
from kwire.capture.calls.bodies import BodyReader
from kwire.capture.calls.frame_checks import FrameChecks
from kwire.capture.calls.frame_headers import (
    INT32,
    Header,
    cut_header,
    is_plausible,
    is_tls,
    leading_group,
    read_header,
    server_name,
)
from kwire.capture.calls.framing import OFF, SEARCH, Framer
from kwire.capture.calls.lost import LostFrames
from kwire.capture.calls.model import (
    KAFKA,
    NO_RESPONSES,
    NOT_KAFKA,
    OPAQUE,
    REQUEST_NOT_SEEN,
    RESPONSE_NOT_SEEN,
    SASL_TOKEN,
    TLS,
    UNKNOWN_VERSION,
    Call,
    Connection,
)
from kwire.capture.calls.pending import PendingCalls
from kwire.capture.calls.sasl_tokens import SaslTokens
from kwire.capture.limits import MAX_NOTES, STRANGE
from kwire.envelope import produce_acks
from kwire.errors import DecodeError
from kwire.messages import APIS


class FrameOfLog(NamedTuple):
    """A frame of a frame log.

    Attributes:
        to_broker: True for a request.
        frame: the frame, without its length prefix.
        time_us: time, in microseconds since 1970.
        path: path of the frame log.
        position: byte offset of the line in the file.
    """

    to_broker: bool
    frame: bytes
    time_us: int
    path: str
    position: int


class Exchange:
    """A converter of the frames of one connection to calls. For the arguments, see ``Conversation``.

    If a connection begins with a request of unknown API or version, the call is held back until another frame proves
    that the connection is a Kafka connection. Without proof, ``finish`` drops the call. Any of these is proof: a
    request of known API and version, a request of a known API with a client id, or a response with the correlation id
    of a pending request.

    Attributes:
        connection: the connection, with its counters so far.
        calls: completed calls, and calls without a response: Produce with acks=0, the oldest call if too many are
            pending, and after ``finish`` all pending calls.
        framers: framers of both directions; the key is True for requests.
        good: number of decoded frames, by direction; the key is True for requests.
        number: number of calls so far.
        checks: the checks that recognise frames.
    """

    __slots__ = (
        "_bodies",
        "_client_text",
        "_is_strange",
        "_lost",
        "_pending",
        "_tokens",
        "calls",
        "checks",
        "connection",
        "framers",
        "good",
        "number",
    )

    def __init__(
        self, connection: Connection, bodies: frozenset[int] | None, raw: bool, redacted: bool, as_json: bool = False
    ) -> None:
        self.connection = connection
        self.calls: list[Call] = []
        self.framers = {True: Framer(True, SEARCH), False: Framer(False, SEARCH)}
        self.good = {True: 0, False: 0}
        self.number = 0
        self._bodies = BodyReader(connection, bodies, raw, redacted, as_json)
        self._pending = PendingCalls()
        self._tokens = SaslTokens()
        self._lost = LostFrames(connection)
        self.checks = FrameChecks(self._pending, self._tokens, self._bodies)
        self._client_text: str | None = None
        self._is_strange = False  # the first bytes were not a request

    def defer_bodies(self) -> None:
        """From now on, store requests and their responses in the calls without decoding the bodies. See
        ``BodyReader.decode``.
        """
        self._bodies.deferred = True

    def usual(self) -> tuple[dict[int, list[Call]], bytes | None, str | None] | None:
        """Return the state that the native package needs to read frames; None if Python must read the next frame.

        Python must read it if the connection is not known to be a Kafka connection, if a SASL token may follow, or if a
        direction is in the middle of a frame or out of sync. Python must also read it if bodies are deferred, written
        as JSON, kept as bytes, or decoded for some APIs only.

        Returns: the pending requests by correlation id, and the client id of the latest request: encoded, and as text.
        """
        bodies = self._bodies
        if not self.good[True] or self._tokens.expected or bodies.wanted is not None or bodies.raw:
            return None
        if bodies.deferred or bodies.as_json or not all(framer.is_between_frames for framer in self.framers.values()):
            return None
        return self._pending.by_id, self.checks.client_id, self._client_text

    @property
    def numbers(self) -> tuple[int, int]:
        """The number of calls so far, and the number of pending requests."""
        return self.number, self._pending.count

    def count(self, numbers: tuple[int, int], responses: int) -> None:
        """Record what the native package has read.

        Args:
            numbers: new value of ``numbers``.
            responses: number of responses that the package has read.
        """
        number, pending = numbers
        self.good[True] += number - self.number
        self.good[False] += responses
        self.number, self._pending.count = number, pending

    def finish(self) -> None:
        """End the connection. Pending requests become calls without a response.

        If no frame has proven that the connection is a Kafka connection, the pending requests are dropped, and
        ``connection.status`` may become NOT_KAFKA.
        """
        if not self.good[True]:  # the connection was not shown to speak Kafka
            self._pending.clear()
        is_one_sided = self._pending.count > 1 and not self.connection.bytes_to_client
        for call in [*self._pending, *self._tokens.pop_all()]:
            self._give_up(call)
        self._pending.clear()
        self.calls.sort(key=lambda call: call.number)
        connection = self.connection
        self._lost.finish()
        some = connection.bytes_to_broker or connection.bytes_to_client
        is_known = self._is_strange or not connection.gap_bytes  # otherwise the proof may not have been captured
        if connection.status == KAFKA and some and not self.good[True] and (connection.syn_seen or not self.number):
            connection.status = NOT_KAFKA if is_known else KAFKA
        if connection.status == KAFKA and is_one_sided:
            self._note(NO_RESPONSES)

    # Frames from the framers

    def frame(self, logged: FrameOfLog) -> None:
        """Process a frame of a frame log."""
        to_broker, frame, time_us, file, position = logged
        framer = self.framers[to_broker]
        framer.now, framer.file, framer.began_at = max(framer.now, time_us), file, position
        self.connection.last_us = max(self.connection.last_us, time_us)
        if to_broker:
            self.connection.bytes_to_broker += len(frame) + 4
        else:
            self.connection.bytes_to_client += len(frame) + 4
        data = len(frame).to_bytes(4, "big") + frame
        good = self.request(data, framer) if to_broker else self.response(data, framer)
        if not good:
            self._note(f"{file} at byte {position}: not a Kafka {'request' if to_broker else 'response'}")

    def request(self, frame: bytes, framer: Framer) -> bool:
        """Process a frame of the client; return False if the bytes are not a valid frame.

        A frame of the client is a request, a SASL token, or the beginning of TLS.

        Args:
            frame: the frame, with its length prefix.
            framer: framer of the requests, which knows the time and file position of the frame.
        """
        if not self.good[True] and is_tls(frame):
            self._become_tls(frame)
            return True
        tokens = self._tokens
        try:
            header = read_header(frame, 4)
        except (DecodeError, struct.error):
            return tokens.expected and self._client_token(frame, framer)
        if tokens.expected:
            same_client = header.client_id == self.checks.client_id
            if header.form is None or not same_client or not self.checks.is_frame(True, frame):
                return self._client_token(frame, framer)
            tokens.end()
        if header.form is None and not is_plausible(header):
            return False
        call = self._call_of(header, framer, len(frame) - 4)
        self._bodies.read_request(call, header.form, frame, header.body)
        self._await_response(call, frame, header.body)
        return True

    def response(self, frame: bytes, framer: Framer) -> bool:
        """Process a frame of the broker, a response or a SASL token; return False if it is too short for a response.

        Args:
            frame: the response, with its length prefix.
            framer: framer of the responses, which knows the time and file position of the frame.
        """
        if self._tokens.expected and not self._pending:
            self._broker_token(frame, framer)
            return True
        if len(frame) < 8:
            return False
        (correlation_id,) = INT32(frame, 4)
        if correlation_id not in self._pending.by_id:
            self._without_request(correlation_id, frame, framer)
            return True
        call = self._pending.pop(correlation_id)
        self.good[False] += 1
        self.good[True] = self.good[True] or 1
        self._complete(call, framer, len(frame) - 4)
        self._bodies.read_response(call, frame)
        begins_tokens = call.api_key == ApiKey.SASL_HANDSHAKE and not call.api_version
        if begins_tokens and call.response and not call.response.error_code:
            self._tokens.expect()
        return True

    def partial(self, is_request: bool, head: bytes, size: int, why: str | None, framer: Framer) -> None:
        """Process a frame of which only the first bytes are available.

        Args:
            is_request: True for a request, False for a response.
            head: first bytes, with the length prefix.
            size: size of the frame without its length prefix, in bytes.
            why: reason why the remaining bytes are missing; None if they were skipped because they are not needed.
            framer: framer of this direction.
        """
        if is_request:
            self._partial_request(head, size, why, framer)
            return
        if len(head) < 8:
            self._lost.add(framer.now, framer.now)
            return
        (correlation_id,) = INT32(head, 4)
        if correlation_id not in self._pending.by_id:
            self._without_request(correlation_id, head, framer, size)
            return
        call = self._pending.pop(correlation_id)
        self.good[True] = self.good[True] or 1
        call.reason = call.reason or why
        self._complete(call, framer, size)

    def _partial_request(self, head: bytes, size: int, why: str | None, framer: Framer) -> None:
        header = self._header_of(head)
        if header is None:
            self._lost.add(framer.now, framer.now)
            return
        if header.form is None and not is_plausible(header):
            return
        call = self._call_of(header, framer, size)
        call.reason = why or (UNKNOWN_VERSION if header.form is None else None)
        if header.form is not None and why is not None:
            call.group_id = leading_group(header.form, head, header.body)
        self._await_response(call, head, header.body)

    def _header_of(self, head: bytes) -> Header | None:
        """Return the header of a truncated request; None if too few bytes were captured."""
        try:
            return read_header(head, 4)
        except (DecodeError, struct.error):
            return cut_header(head, 4, self.checks.client_id)

    # Calls

    def _new_call(self, client_id: str | None, framer: Framer | None = None, size: int | None = None) -> Call:
        """Return a new call with the next number.

        Args:
            client_id: client id of the request; None for null or if unknown.
            framer: framer of the requests; None if the request was not captured.
            size: size of the request without its length prefix, in bytes; None if the request was not captured.
        """
        self.number += 1
        connection = self.connection
        call = Call(
            connection=connection.id,
            client=connection.client,
            broker=connection.broker,
            number=self.number,
            client_id=client_id,
        )
        if framer is not None:
            call.request_us, call.request_size = framer.now, size
            call.file, call.position = framer.file, framer.began_at
        return call

    def _call_of(self, header: Header, framer: Framer, size: int) -> Call:
        """Return a new call with the API, version, correlation id and client id of a request header.

        The method also records a new client id. It counts the request in ``good`` if the connection is a Kafka
        connection.

        Args:
            header: the decoded header.
            framer: framer of the requests, which has the time and file position of the frame.
            size: size of the request without its length prefix, in bytes.
        """
        checks = self.checks
        if header.client_id != checks.client_id and header.client_id is not None:
            checks.client_id = header.client_id
            self._client_text = header.client_id.decode("utf-8", "replace")
            if self.connection.client_id is None:
                self.connection.client_id = self._client_text
        if header.form is not None or self.good[True] or (header.key in APIS and header.client_id):
            self.good[True] += 1
        call = self._new_call(None if header.client_id is None else self._client_text, framer, size)
        call.api_key, call.api_version, call.correlation_id = header.key, header.version, header.correlation_id
        return call

    def _await_response(self, call: Call, frame: bytes, body: int) -> None:
        """Store a request until its response is captured.

        A Produce request with acks=0 has no response and is complete immediately.

        Args:
            call: call of the request.
            frame: the request, with its length prefix.
            body: offset of the body in the frame.
        """
        if call.api_key == ApiKey.PRODUCE and produce_acks(frame, body, call.api_version or 0) == 0:
            self.calls.append(call)
        elif oldest := self._pending.add(call):
            self._give_up(oldest)

    def _give_up(self, call: Call) -> None:
        call.reason = call.reason or RESPONSE_NOT_SEEN
        self.calls.append(call)

    def _complete(self, call: Call, framer: Framer, size: int) -> None:
        """Complete a call, because its response was captured.

        Args:
            call: the call.
            framer: framer of the responses, which has the time and file position of the frame.
            size: size of the response without its length prefix, in bytes.
        """
        call.response_us, call.response_size = framer.now, size
        call.response_file, call.response_position = framer.file, framer.began_at
        self.calls.append(call)

    def _without_request(
        self, correlation_id: int | None, frame: bytes, framer: Framer, size: int | None = None
    ) -> None:
        """Add a call for a response whose request was not captured. The API of this call is unknown.

        Args:
            correlation_id: correlation id of the response; None if unknown.
            frame: the response, with its length prefix.
            framer: framer of the responses, which has the time and file position of the frame.
            size: size of the response without its length prefix, in bytes; None if ``frame`` is complete.
        """
        call = self._new_call(self._client_text)
        call.correlation_id, call.reason = correlation_id, REQUEST_NOT_SEEN
        if self._bodies.raw and size is None:
            call.response_raw = frame[4:]
        self._complete(call, framer, len(frame) - 4 if size is None else size)

    def _client_token(self, frame: bytes, framer: Framer) -> bool:
        """Process a SASL token of the client. Unlike a request, a token has no header.

        The result is always True, which means, as in ``request``, that the bytes can be a frame of the client.

        Args:
            frame: the token, with its length prefix.
            framer: framer of the requests, which has the time and file position of the frame.
        """
        if not self._tokens.count():
            self._set_status(OPAQUE)
            return True
        call = self._new_call(self._client_text, framer, len(frame) - 4)
        call.reason, call.request_raw = SASL_TOKEN, None if self._bodies.redacted else frame[4:]
        self._tokens.add(call)
        return True

    def _broker_token(self, frame: bytes, framer: Framer) -> None:
        """Process a SASL token of the broker as the response to the client's oldest pending token.

        If no token is pending, a call without a request is added.

        Args:
            frame: the token, with its length prefix.
            framer: framer of the responses, which has the time and file position of the frame.
        """
        call = self._tokens.pop()
        if call is None:
            self._without_request(None, frame, framer)
            return
        call.response_raw = None if self._bodies.redacted else frame[4:]
        self._complete(call, framer, len(frame) - 4)

    # Loss of frame boundaries

    def strayed(self, is_request: bool) -> None:
        """Record that the bytes where the next frame should begin are not a frame.

        ``is_request``: True for bytes of the client, False for bytes of the broker.
        """
        if self.good[is_request]:
            self._note(f"expected a {'request' if is_request else 'response'}, found other bytes")
            self.lost_track(is_request)
        elif is_request:
            self._is_strange = True

    def lost_track(self, is_request: bool) -> None:
        """Record that frames of a direction may be missing from now on, because the frame boundaries are unknown.

        ``is_request``: True for bytes of the client, False for bytes of the broker.
        """
        self._lost.begin(is_request, self.framers[is_request].now)

    def found_again(self, is_request: bool) -> None:
        """Record that a frame of a direction was found after a gap, or after bytes that are not a frame.

        ``is_request``: True for bytes of the client, False for bytes of the broker.
        """
        self._lost.end(is_request, self.framers[is_request].now)
        if self.good[is_request]:
            self.connection.resyncs += 1

    def searched(self, is_request: bool, size: int) -> None:
        """Record that a search for the next frame found no frame in ``size`` bytes.

        If no frame has proven that the connection is a Kafka connection, its status may become TLS or NOT_KAFKA.

        ``is_request``: True for bytes of the client, False for bytes of the broker.
        """
        if self.good[True]:
            return
        buffer = self.framers[is_request].buffer
        if is_tls(bytes(buffer[:6])):
            if is_request:
                self._become_tls(bytes(buffer))
            else:
                self._set_status(TLS)
        elif is_request and size > STRANGE:
            self._set_status(NOT_KAFKA)

    def stop_decryption(self, begin: bytes, reason: str) -> None:
        """Record that the TLS bytes of the connection cannot be decrypted from here on. They are only counted.

        Args:
            begin: first bytes that the client sent, with the ClientHello.
            reason: why the bytes cannot be decrypted.
        """
        self._become_tls(begin)
        self._note(f"TLS: {reason}")

    def _become_tls(self, data: bytes) -> None:
        self._set_status(TLS)
        if name := server_name(data):
            self._note(f"TLS for {name}")

    def _set_status(self, status: str) -> None:
        """Record that the connection cannot be decoded as Kafka. From now on, its bytes are only counted.

        ``status``: TLS, OPAQUE or NOT_KAFKA.
        """
        self.connection.status = status
        for framer in self.framers.values():
            framer.mode = OFF
            framer.buffer.clear()
            framer.parts.clear()
            framer.have = framer.need = framer.to_skip = 0

    def _note(self, note: str) -> None:
        if len(self.connection.notes) < MAX_NOTES and note not in self.connection.notes:
            self.connection.notes.append(note)
