"""The protocol side of a connection to a SASL listener, on which a frame may be a SASL token without request header."""

from __future__ import annotations

from typing import Any

from kwire.apikeys import ApiKey
from kwire.frames import pack
from mockbroker.base.effects import Call, Client, Reply, Ticket, Token
from mockbroker.broker.authentication import Authentication, SaslState
from mockbroker.broker.router import Router
from mockbroker.net.connection import ClientRequests, Undecoded
from mockbroker.security.identity import UNKNOWN, Identity


class SaslRequests(ClientRequests):
    """The requests that a client sends to a SASL listener: SASL tokens and Kafka requests.

    Args:
        connection: Number of the connection.
        client: The client, with the broker and the listener that the client is connected to.
        router: The router. Its broker has the size limits of requests and the served versions of each API.
        authentication: The progress and the result of the client's SASL authentication.
    """

    def __init__(self, connection: int, client: Client, router: Router, authentication: Authentication) -> None:
        super().__init__(connection, client.node, client.host, router, client.listener)
        self.authentication = authentication
        self._user = ""  # the authenticated user when the last request was read
        self.frames.limit = router.broker.settings.sasl_server_max_receive_size

    @property
    def identity(self) -> Identity:
        """The identity of the authenticated user; ``User:ANONYMOUS`` before the authentication."""
        user = self.authentication.user
        return Identity(f"User:{user}", not self.authentication.by_token) if user else UNKNOWN

    def next_call(self) -> Call[Any] | Undecoded | None:
        if self._user != self.authentication.user:
            self._user = self.authentication.user
            self.renew_client()
        if not self.authentication.raw_tokens:
            return super().next_call()
        if self.ticket is not None or (frame := self.frames.next_frame()) is None:
            return None
        self.taken += 1
        self.ticket = Ticket(self.connection, 0, ApiKey.SASL_AUTHENTICATE, 0)  # as with SaslAuthenticate
        return Call(self.ticket, self._client, Token(frame), frame)

    def answer(self, reply: Reply) -> bytes:
        settings, authenticated = self._router.broker.settings, self.authentication.state is SaslState.COMPLETE
        self.frames.limit = (
            settings.socket_request_max_bytes if authenticated else settings.sasl_server_max_receive_size
        )
        if isinstance(reply.response, Token):
            self.skip_answer()
            return pack(reply.response.data)
        return super().answer(reply)
