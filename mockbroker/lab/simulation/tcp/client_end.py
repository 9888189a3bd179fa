"""The client's end of a simulated TCP connection: TLS, SASL login, requests as frames, and responses."""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from kwire import WireError
from kwire.apikeys import ApiKey
from kwire.client_properties import Credentials
from kwire.connection import ClientSide
from kwire.envelope import Response, decode_response, encode_request
from kwire.frames import PREFIX, FrameBuffer, pack
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from mockbroker.base.effects import Call
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.network import Wire
from mockbroker.lab.simulation.queue import Queue
from mockbroker.lab.simulation.tcp.channel import Channel
from mockbroker.lab.simulation.tcp.sockets import ClientTls, SimulatedSocket
from mockbroker.lab.simulation.watching import Broken
from mockbroker.proxy.login import LoginError, login

TLS_PROTOCOLS, SASL_PROTOCOLS = ("SSL", "SASL_SSL"), ("SASL_PLAINTEXT", "SASL_SSL")  # Kafka's security.protocol
USER, PASSWORD = "simulated", "secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LOGINS = ("PLAIN", "PLAIN", *MECHANISMS)  # SCRAM takes a millisecond
OLD_LOGIN = 0.3  # probability of a login with raw tokens, as before KIP-152
GREETING_VERSION = 3  # of ApiVersions
NAME = "I40"  # of the invariant that bytes arrive as they were sent


class ClientEnd:
    """The client's end of a connection.

    Args:
        queue: event queue of the run.
        wire: the connection.
        dice: random number generator for the login.
        protocol: security protocol of the listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        on_end: function that is called when the broker has closed the connection.
        greets: whether the first request of a connection is ApiVersions, as with Kafka's clients.
        refused: unused TLS objects of refused connections. A new connection removes one from the list and sends its
            ClientHello, which takes less time than creating a TLS object. ``refuse`` adds the object to the list.

    Attributes:
        wire: value of the argument.
        up: the direction to the broker; set before the first request.
        sock: the broker's socket; set before the first request.
        frames: request frames that were sent, to check the requests that the broker reads.
        expected: bytes that the broker has sent, to check the bytes that arrive.
        dead: whether the machine of the client has vanished: it reads, sends and closes nothing.
    """

    up: Channel
    sock: SimulatedSocket

    def __init__(
        self,
        queue: Queue,
        wire: Wire,
        dice: Dice,
        protocol: str,
        on_end: Callable[[Wire], None],
        refused: list[ClientTls],
        *,
        greets: bool = False,
    ) -> None:
        self.frames: deque[bytes] = deque()
        self.expected = bytearray()
        self.dead = False
        self._queue = queue
        self.wire = wire
        self._on_end = on_end
        self._side = ClientSide(wire.client.client_id)
        self._calls: deque[Call[Any]] = deque()
        self._arrived: deque[bytes] = deque()  # segments that a paused process has not read
        self._unsent: list[tuple[Call[Any], bool]] = []  # requests that wait for the login, and whether answered
        self._refused = refused
        self._tls: ClientTls | None = None
        self._login: Generator[bytes, bytes, None] | None = None
        self._tokens = FrameBuffer()
        if protocol in TLS_PROTOCOLS:
            self._tls = refused.pop() if refused else ClientTls()
        if protocol in SASL_PROTOCOLS:
            self._login = _simulated_login(dice) if wire.login is None else wire.login.steps
        if greets:
            self._login = _greeted(self._side, self._login)
        self._ready = self._tls is None and self._login is None

    def begin(self) -> None:
        """Begin the handshake of TLS, or the login. With PLAINTEXT, do nothing."""
        if self._tls is not None:
            self.up.send(self._tls.hello)
        elif self._login is not None:
            self._send_token(next(self._login))

    def refuse(self) -> None:
        """Handle a refused connection: keep its TLS object, if it has one, for another connection."""
        if self._tls is not None:
            self._refused.append(self._tls)

    def vanish(self) -> None:
        """Behave like a machine that has vanished: read, send and close nothing from now on.

        Bytes in transit are lost.
        """
        self.dead = self.up.lost = True

    def ask(self, call: Call[Any], *, answered: bool) -> None:
        """Send a request; until the login is complete, the request is queued.

        Args:
            call: the request.
            answered: False for a request without a response (Produce with acks=0).
        """
        if self._ready:
            self._send(call, answered=answered)
        else:
            self._unsent.append((call, answered))

    def _send(self, call: Call[Any], *, answered: bool) -> None:
        if answered:
            self._calls.append(call)
        self._write(self._side.send(call.request, call.version, answered=answered))

    def _write(self, data: bytes) -> None:
        self.frames.append(data[PREFIX.size :])
        if self._tls is not None:
            self._tls.tls.write(data)
            data = self._tls.outgoing.read()
        self.up.send(data)

    # --- reading ---

    def arrive(self, data: bytes) -> None:
        """Receive bytes of the broker; empty ``data`` means that the broker has closed the connection."""
        if not self.dead:
            self._arrived.append(data)
            self._read()

    def _read(self) -> None:
        """Read the bytes that have arrived. If the process is paused, they are read when it continues."""
        while self._arrived and not self.dead and not self.wire.cut:
            if self._queue.now < self.wire.peer.paused_until:
                self._queue.at(self.wire.peer.paused_until, self._read)
                return
            data = self._arrived.popleft()
            if not data:
                self._on_end(self.wire)
                return
            self.sock.client_has_read(len(data))
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        if self._tls is None:
            self._receive_plain(data)
            return
        self._tls.incoming.write(data)
        tls = self._tls.tls
        try:
            if not self._ready and tls.version() is None and not self._handshake(self._tls):
                return
            while plain := tls.read(1 << 16):
                self._receive_plain(plain)
                if not (tls.pending() or self._tls.incoming.pending):
                    break
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):  # nothing more, or the broker's close_notify
            pass
        except ssl.SSLError as error:
            raise Broken(NAME, f"connection {self.wire.number} received an invalid TLS record: {error}") from error

    def _handshake(self, tls: ClientTls) -> bool:
        """Continue the handshake: send the bytes of the next step. Return whether the handshake is complete.

        The SASL login begins when it is complete. ``tls``: TLS of the connection.
        """
        try:
            tls.tls.do_handshake()
        except ssl.SSLWantReadError:
            done = False
        else:
            done = True
        if data := tls.outgoing.read():
            self.up.send(data)
        if done and self._login is not None:
            self._send_token(next(self._login))
        elif done:
            self._log_in()
        return done

    def _receive_plain(self, data: bytes) -> None:
        """Compare received bytes with the bytes that the broker has sent, and handle the login tokens or responses in
        them.

        ``data``: received bytes, without TLS.

        Raises: Broken if the bytes differ.
        """
        if not self.expected.startswith(data):
            number = self.wire.number
            raise Broken(NAME, f"connection {number} received bytes that differ from the bytes that the broker sent")
        del self.expected[: len(data)]
        if not self._ready:
            self._tokens.feed(data)
            while not self._ready and (token := self._tokens.next_frame()) is not None:
                self._continue_login(token)
            return
        self._side.receive(data)
        while self.wire.open and (response := self._next_response()) is not None:
            self.wire.peer.receive(self.wire, self._calls.popleft(), response.body)

    def _next_response(self) -> Response | None:
        try:
            return self._side.next_response()
        except WireError as error:
            raise Broken(NAME, f"connection {self.wire.number} received an invalid response: {error}") from error

    # --- SASL ---

    def _send_token(self, frame: bytes) -> None:
        self._write(pack(frame))

    def _continue_login(self, frame: bytes) -> None:
        assert self._login is not None
        try:
            token = self._login.send(frame)
        except StopIteration:
            self._log_in()
        except LoginError:
            if self.wire.login is None:
                raise
            if self.wire.open:  # else the client no longer waits for the result
                self.wire.login.refused()
        else:
            self._send_token(token)

    def _log_in(self) -> None:
        """Complete the login: send the requests that have waited for it."""
        self._ready, self._login = True, None
        for call, answered in self._unsent:
            self._send(call, answered=answered)
        self._unsent.clear()


def _simulated_login(dice: Dice) -> Generator[bytes, bytes, None]:
    return _old_login() if dice.chance(OLD_LOGIN) else login(Credentials(dice.pick(LOGINS), USER, PASSWORD))


def _greeted(side: ClientSide, login: Generator[bytes, bytes, None] | None) -> Generator[bytes, bytes, None]:
    """Yield an ApiVersions request, and then the frames of a login. The generator receives the responses.

    Args:
        side: the client's side of the connection.
        login: frames of the login; None for a listener without SASL.

    Raises: Broken if the response has an error, or no API versions.
    """
    request = ApiVersionsRequest(client_software_name="simulated-client", client_software_version="1.0")
    side.receive(pack((yield side.send(request, GREETING_VERSION)[PREFIX.size :])))
    response = side.next_response()
    assert response is not None
    if response.body.error_code or not response.body.api_keys:
        raise Broken(NAME, f"the first request, ApiVersions, has the error {response.body.error_code}")
    if login is not None:
        yield from login


def _old_login() -> Generator[bytes, bytes, None]:
    """Yield the frames of a login with PLAIN, as clients before KIP-152 send them.

    The generator receives the responses.

    The token is a frame without a request header.
    """
    answer = yield encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 0, correlation_id=0, client_id="old")
    response: Any = decode_response(answer, ApiKey.SASL_HANDSHAKE, 0).body
    assert not response.error_code
    yield f"\0{USER}\0{PASSWORD}".encode()
