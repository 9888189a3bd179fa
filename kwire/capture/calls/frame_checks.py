"""Recognition of frames, for the search after a gap.

After a gap, bytes are accepted as a frame only if they can be decoded completely.
"""

from __future__ import annotations

import struct

from kwire.capture.calls import frame_search
from kwire.capture.calls.bodies import BodyReader
from kwire.capture.calls.frame_headers import (
    INT32,
    LEAST_REQUEST,
    LEAST_RESPONSE,
    MAX_VERSION,
    body_at,
    form_of,
    read_header,
    response_body,
)
from kwire.capture.calls.model import TOO_LARGE
from kwire.capture.calls.pending import PendingCalls
from kwire.capture.calls.sasl_tokens import SaslTokens
from kwire.capture.limits import MAX_KEPT_FRAME
from kwire.errors import DecodeError
from kwire.limits import MAX_FRAME
from kwire.messages import APIS


class FrameChecks:
    """The checks whether bytes are a frame of a connection. They use what earlier frames of this connection have shown.

    Frames include their length prefix of four bytes.

    Args:
        pending: requests of the connection that wait for a response.
        tokens: SASL tokens of the connection.
        bodies: body decoder of the connection.

    Attributes:
        client_id: client id of the latest request, as encoded; None before the first request.
    """

    __slots__ = ("_bodies", "_pending", "_tokens", "client_id")

    def __init__(self, pending: PendingCalls, tokens: SaslTokens, bodies: BodyReader) -> None:
        self._pending, self._tokens, self._bodies = pending, tokens, bodies
        self.client_id: bytes | None = None

    def is_size(self, is_request: bool, size: int) -> bool:
        """Return whether a request or a response of this size is possible.

        Args:
            is_request: True for a request, False for a response.
            size: value of the length prefix: size of the frame without the prefix, in bytes.
        """
        least = 0 if self._tokens.expected else LEAST_REQUEST if is_request else LEAST_RESPONSE
        return least <= size <= MAX_FRAME

    def skip_reason(self, is_request: bool, head: bytes, size: int) -> tuple[bool, str | None]:
        """Decide whether a frame is skipped, which means that its body is not decoded.

        Args:
            is_request: True for a request, False for a response.
            head: first bytes of the frame, with its length prefix.
            size: size of the frame with its length prefix, in bytes.

        Returns: True if the frame is skipped; and the reason. The reason is None if the body is not needed, or if the
        frame is not skipped.
        """
        wanted = self._bodies.wanted
        if size > MAX_KEPT_FRAME:
            return True, TOO_LARGE
        if wanted is None or self._bodies.raw or self._tokens.expected:
            return False, None
        if is_request:
            try:
                header = read_header(head, 4)
            except (DecodeError, struct.error):
                return False, None
            return header.form is not None and header.key not in wanted, None
        calls = self._pending.by_id.get(INT32(head, 4)[0], ())
        return any(call.api_key not in wanted for call in calls), None

    def places(self, is_request: bool, data: bytes) -> list[int]:
        """Return the offsets in ``data`` at which a frame may begin.

        ``is_request``: True to search for requests, False for responses.
        """
        if is_request:
            return frame_search.requests(data, self.client_id)
        return frame_search.responses(data, self._pending.by_id)

    def is_frame(self, is_request: bool, frame: bytes) -> bool:
        """Return whether a frame can be decoded to its last byte.

        Args:
            is_request: True for a request, False for a response.
            frame: the frame, with its length prefix.
        """
        try:
            return self._is_request(frame) if is_request else self._is_response(frame)
        except (DecodeError, struct.error, UnicodeDecodeError):
            return False

    def _is_request(self, frame: bytes) -> bool:
        header = read_header(frame, 4)
        form = header.form
        if form is None:
            return False
        _, end = body_at(form.request, frame, header.body, form.version)
        if header.client_id:
            header.client_id.decode()
        return end == len(frame)

    def _is_response(self, frame: bytes) -> bool:
        calls = self._pending.by_id.get(INT32(frame, 4)[0])
        form = form_of(calls[0].api_key or 0, calls[0].api_version or 0) if calls else None
        if form is None:
            return False
        _, end = body_at(form.response, frame, response_body(form, frame, 4), form.version)
        return end == len(frame)

    def may_follow(self, is_request: bool, head: bytes) -> bool:
        """Return whether the bytes after a frame can be the beginning of the next frame.

        The result is also True for fewer than 8 bytes, which are too few for a check.

        Args:
            is_request: True for requests, False for responses.
            head: the first bytes after the frame.
        """
        if len(head) < 8:
            return True
        (size,) = INT32(head, 0)
        if not is_request:
            return LEAST_RESPONSE <= size <= MAX_FRAME and INT32(head, 4)[0] in self._pending.by_id
        key, version = struct.unpack_from(">hh", head, 4)
        return LEAST_REQUEST <= size <= MAX_FRAME and key in APIS and 0 <= version < MAX_VERSION

    def is_chain(self, data: bytes) -> bool:
        """Return whether data consists of complete responses only, none of which belongs to a pending request.

        This recognises a Kafka connection of which no request was captured.
        """
        at = 0
        while at + 8 <= len(data):
            size, correlation_id = struct.unpack_from(">ii", data, at)
            if not LEAST_RESPONSE <= size <= MAX_FRAME or correlation_id in self._pending.by_id:
                return False
            at += 4 + size
        return at == len(data)
