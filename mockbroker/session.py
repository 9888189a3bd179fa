"""One client connection of a broker, without its socket: bytes in, calls out; replies in, bytes out."""

from __future__ import annotations

from typing import Any

from kwire import RemoteProtocolError, ServerSide, codec, encode_response
from kwire.envelope import decode_request_header
from kwire.headers import API_VERSIONS
from mockbroker.calls import Call, Client, Reply, Ticket
from mockbroker.router import Router, UnsupportedVersion

REQUEST_WEIGHT = 8 * 1024 * 1024  # bytes of memory (kwire.limits); a request that becomes more would hold up everybody


class Session:
    """``connection``: a number of its own; ``node``: the broker that was connected to; ``host``: the peer's address."""

    def __init__(self, connection: int, node: int, host: str, router: Router) -> None:
        self.connection = connection
        self.ticket: Ticket | None = None
        self.taken = 0  # requests given out so far
        self._node = node
        self._host = host
        self._router = router
        self._side = ServerSide(router.broker.settings.socket_request_max_bytes)

    @property
    def buffered(self) -> int:
        """Bytes received and not yet handled."""
        return self._side.buffered

    @property
    def partial(self) -> bool:
        """True if a request has begun to come in, and nothing but its rest is missing."""
        return self.ticket is None and self._side.buffered > 0

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer."""
        self._side.receive(data)

    def next_call(self) -> Call[Any] | None:
        """The next request; None if more bytes are needed or the one before is not answered.

        Raises: kwire.WireError for anything that a broker closes the connection for.
        """
        frame = self._side.next_frame()
        if frame is None:
            return None
        self.taken += 1
        api, header, at = decode_request_header(frame)
        version = header.request_api_version
        client = Client(self._node, header.client_id or "", self._host)
        if not self._router.serves(api.key, version):
            if api.key != API_VERSIONS:
                raise RemoteProtocolError(f"{api.name} v{version} is not served")
            version, request = 0, UnsupportedVersion()
        else:
            request, _ = codec.decode_at(api.request, frame, at, version, weight=REQUEST_WEIGHT)
        self.ticket = Ticket(self.connection, header.correlation_id, api.key, version)
        return Call(self.ticket, client, request, len(frame))

    def answer(self, reply: Reply) -> bytes:
        """Bytes to send for the answer to the request last given out. Raises: kwire.WireError."""
        ticket = reply.ticket
        frame = encode_response(reply.response, ticket.version, correlation_id=ticket.correlation_id)
        self.ticket = None
        return self._side.answer(frame)

    def skip_answer(self) -> None:
        """The request last given out gets no answer."""
        self.ticket = None
        self._side.skip_answer()
