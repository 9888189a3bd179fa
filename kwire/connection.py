"""The two sides of a Kafka connection, without a socket. Each side converts received bytes to requests or responses.

Responses are sent in the order of the requests. A broker processes one request of a connection at a time (Kafka's
SocketServer mutes the channel meanwhile). Therefore ``ServerSide`` returns the next request only after the previous
request was answered.
"""

from __future__ import annotations

from collections import deque

from kwire import envelope
from kwire.envelope import Response
from kwire.errors import FrameError, LocalProtocolError, RemoteProtocolError
from kwire.frames import FrameBuffer, pack
from kwire.limits import MAX_FRAME

NO_REQUEST = "no request is waiting for a response"


class ServerSide:
    """The broker's side of a connection: it splits received bytes into requests, one at a time, and packs responses.

    Args:
        limit: maximum size of a request, in bytes.
    """

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._frames = FrameBuffer(limit)
        self._waiting: bytes | None = None

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes that were received from the client to the buffer; ``next_frame`` returns the requests in it."""
        self._frames.feed(data)

    @property
    def busy(self) -> bool:
        """True if the request returned last has not been answered yet."""
        return self._waiting is not None

    @property
    def buffered(self) -> int:
        """Number of received bytes that ``next_frame`` has not returned yet."""
        return len(self._frames)

    def next_frame(self) -> bytes | None:
        """Return the next request frame, or None if more bytes are needed or the previous request has no response yet.

        Raises: RemoteProtocolError if the length prefix is invalid.
        """
        if self._waiting is not None:
            return None
        try:
            self._waiting = self._frames.next_frame()
        except FrameError as error:
            raise RemoteProtocolError(str(error)) from error
        return self._waiting

    def answer(self, frame: bytes) -> bytes:
        """Return the bytes to send for the response to the current request.

        Afterwards, ``next_frame`` can return the next request.

        ``frame``: response frame without its length prefix; this method adds the prefix.

        Raises: LocalProtocolError if no request is waiting for a response.
        """
        if self._waiting is None:
            raise LocalProtocolError(NO_REQUEST)
        self._waiting = None
        return pack(frame)

    def skip_answer(self) -> None:
        """Mark the current request as a request without a response, such as Produce with acks=0.

        Raises: LocalProtocolError if no request is waiting for a response.
        """
        if self._waiting is None:
            raise LocalProtocolError(NO_REQUEST)
        self._waiting = None


class ClientSide:
    """The client's side of a connection.

    It numbers requests (correlation ids) and matches responses, which arrive in the order of the requests.

    Args:
        client_id: client id in the header of each request.
        limit: maximum size of a response, in bytes.
    """

    def __init__(self, client_id: str | None = None, limit: int = MAX_FRAME) -> None:
        self.client_id = client_id
        self._frames = FrameBuffer(limit)
        self._pending: deque[tuple[int, int, int]] = deque()
        self._next_id = 0

    @property
    def in_flight(self) -> int:
        """Number of requests that wait for a response."""
        return len(self._pending)

    def send(self, body: object, version: int, *, answered: bool = True) -> bytes:
        """Return the bytes to send for a request: length prefix, header and body.

        The request is then in flight, unless it has no response.

        Args:
            body: the request.
            version: version of the request.
            answered: False for a request without a response (Produce with acks=0).

        Raises: EncodeError if a value cannot be encoded; SchemaError if the message does not have this version.
        """
        correlation_id = self._next_id
        frame = envelope.encode_request(body, version, correlation_id=correlation_id, client_id=self.client_id)
        self._next_id = (correlation_id + 1) & 0x7FFF_FFFF
        if answered:
            key, _ = envelope.peek_request(frame)
            self._pending.append((correlation_id, key, version))
        return pack(frame)

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes that were received from the broker to the buffer; ``next_response`` returns the responses in
        it.
        """
        self._frames.feed(data)

    def next_response(self) -> Response | None:
        """Return the response to the oldest request in flight, or None if more bytes are needed.

        Raises:
            RemoteProtocolError: an invalid length prefix, a response without a request, or a response out of order.
            DecodeError: the response cannot be decoded.
        """
        try:
            frame = self._frames.next_frame()
        except FrameError as error:
            raise RemoteProtocolError(str(error)) from error
        if frame is None:
            return None
        if not self._pending:
            raise RemoteProtocolError(
                f"the peer sent a response, but no request is pending (first bytes {frame[:32].hex(' ')})"
            )
        correlation_id, key, version = self._pending.popleft()
        if len(frame) >= 4 and frame[:4] != correlation_id.to_bytes(4, "big"):
            received = int.from_bytes(frame[:4], "big", signed=True)
            raise RemoteProtocolError(
                f"the response has correlation id {received}, but the next response must have {correlation_id}"
            )
        return envelope.decode_response(frame, key, version)
