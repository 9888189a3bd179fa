"""One Kafka connection without its socket: bytes in, requests or responses out, and the rules of their order.

A Kafka connection answers in the order it was asked. A broker works on one request of a connection at a time
(SocketServer mutes it meanwhile), so ``ServerSide`` gives out the next request only when the one before is answered.
"""

from __future__ import annotations

from collections import deque

from kwire import envelope
from kwire.envelope import Response
from kwire.errors import FrameError, LocalProtocolError, RemoteProtocolError
from kwire.frames import FrameBuffer, pack
from kwire.limits import MAX_FRAME

UNASKED = "an answer without a request"


class ServerSide:
    """A broker's end. ``limit``: the largest request accepted, in bytes."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._frames = FrameBuffer(limit)
        self._waiting: bytes | None = None

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer."""
        self._frames.feed(data)

    @property
    def busy(self) -> bool:
        """True between a frame taken and its answer."""
        return self._waiting is not None

    @property
    def buffered(self) -> int:
        """Bytes received and not yet taken."""
        return len(self._frames)

    def next_frame(self) -> bytes | None:
        """The next request frame; None if more bytes are needed or the request before is not answered yet.

        Raises: RemoteProtocolError if the bytes cannot be a frame.
        """
        if self._waiting is not None:
            return None
        try:
            self._waiting = self._frames.next_frame()
        except FrameError as error:
            raise RemoteProtocolError(str(error)) from error
        return self._waiting

    def answer(self, frame: bytes) -> bytes:
        """Bytes to send for the answer to the frame last taken. Raises: LocalProtocolError if there is none."""
        if self._waiting is None:
            raise LocalProtocolError(UNASKED)
        self._waiting = None
        return pack(frame)

    def skip_answer(self) -> None:
        """The frame last taken gets no answer, as Produce with acks 0. Raises: LocalProtocolError if there is none."""
        if self._waiting is None:
            raise LocalProtocolError(UNASKED)
        self._waiting = None


class ClientSide:
    """A client's end: numbers requests and pairs the answers, which must come in order.

    ``limit``: the largest response accepted, in bytes.
    """

    def __init__(self, client_id: str | None = None, limit: int = MAX_FRAME) -> None:
        self.client_id = client_id
        self._frames = FrameBuffer(limit)
        self._asked: deque[tuple[int, int, int]] = deque()
        self._next_id = 0

    @property
    def in_flight(self) -> int:
        """Requests whose answers have not come."""
        return len(self._asked)

    def send(self, body: object, version: int, *, answered: bool = True) -> bytes:
        """Bytes to send for a request; ``answered=False`` for one that gets no answer. Raises: EncodeError."""
        correlation_id = self._next_id
        frame = envelope.encode_request(body, version, correlation_id=correlation_id, client_id=self.client_id)
        self._next_id = (correlation_id + 1) & 0x7FFF_FFFF
        if answered:
            key, _ = envelope.peek_request(frame)
            self._asked.append((correlation_id, key, version))
        return pack(frame)

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer."""
        self._frames.feed(data)

    def next_response(self) -> Response | None:
        """The answer to the oldest open request, or None if more bytes are needed.

        Raises: RemoteProtocolError for bytes that are no frame, an answer nobody asked for, or one out of order;
        DecodeError for a body that cannot be read.
        """
        try:
            frame = self._frames.next_frame()
        except FrameError as error:
            raise RemoteProtocolError(str(error)) from error
        if frame is None:
            return None
        if not self._asked:
            raise RemoteProtocolError(f"an answer without a request: {frame[:32].hex(' ')}")
        correlation_id, key, version = self._asked.popleft()
        if frame[:4] != correlation_id.to_bytes(4, "big"):
            got = int.from_bytes(frame[:4], "big", signed=True)
            raise RemoteProtocolError(f"answer {got} where {correlation_id} was due")
        return envelope.decode_response(frame, key, version)
