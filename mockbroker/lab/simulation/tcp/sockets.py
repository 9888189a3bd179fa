"""The broker's sockets of simulated TCP connections, plain and with TLS over memory BIOs."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.tcp.channel import Channel
from mockbroker.lab.simulation.watching import Broken
from mockbroker.net.sockets import RESET
from mockbroker.net.tls import TlsStream

CUT_SHORT = 0.2  # probability that recv() or send() handles only a part of the bytes
RECORD = 16_384  # maximum bytes in a TLS record
RAW = 65_536  # bytes that are read for TLS at once

# Key exchange without certificates: each message of the handshake has the same size in every run, which the signatures
# of certificates have not.
CIPHER = "AECDH-AES128-SHA:@SECLEVEL=0"


class SimulatedSocket:
    """The broker's socket of a simulated connection, with the methods of a non-blocking socket that the broker uses.

    Args:
        dice: random number generator for the sizes of reads and writes.
        room: maximum number of bytes that are sent and not yet read by the client.
        changed: function that is called when the socket may have become readable or writable.

    Attributes:
        down: the direction to the client; set before the socket is used.
        unread: bytes that were sent and not yet read by the client.
        broken: whether the connection was reset.
    """

    down: Channel

    def __init__(self, dice: Dice, room: int, changed: Callable[[], None]) -> None:
        self.unread = 0
        self.broken = False
        self.changed = changed
        self._dice = dice
        self._room = room
        self._received = bytearray()
        self._ended = False
        self._resets = False

    # --- the network ---

    def arrive(self, data: bytes) -> None:
        """Receive bytes from the client; empty ``data`` means that the client has closed the connection."""
        self._received += data
        self._ended = self._ended or not data
        self.changed()

    def client_has_read(self, size: int) -> None:
        """Record that the client has read ``size`` bytes."""
        self.unread -= size
        self.changed()

    def break_off(self) -> None:
        """Reset the connection."""
        self.broken = True
        self.changed()

    @property
    def readable(self) -> bool:
        return bool(self._received) or self._ended or self.broken

    @property
    def writable(self) -> bool:
        return self.unread < self._room or self.broken

    # --- the methods of a socket ---

    def recv(self, size: int, flags: int = 0) -> bytes:
        if self.broken:
            raise ConnectionResetError
        if not self._received:
            if self._ended:
                return b""
            raise BlockingIOError
        data = bytes(self._received[: self._part(min(size, len(self._received)))])
        del self._received[: len(data)]
        return data

    def send(self, data: Any, flags: int = 0) -> int:
        if not self.writable:
            raise BlockingIOError
        return self._send(bytes(data[: self._part(min(len(data), max(self._room - self.unread, 1)))]))

    def _send(self, data: bytes) -> int:
        if self.broken:
            raise BrokenPipeError
        self.unread += len(data)
        if data:
            self.down.send(data)
        return len(data)

    def _part(self, size: int) -> int:
        return self._dice.whole(1, size) if size and self._dice.chance(CUT_SHORT) else size

    def setblocking(self, flag: bool) -> None:
        """Do nothing: the socket never blocks, whatever ``flag`` is."""

    def setsockopt(self, level: int, name: int, value: Any) -> None:
        self._resets = self._resets or value == RESET

    def getpeercert(self, binary_form: bool = False) -> bytes | None:
        return None

    @property
    def resets(self) -> bool:
        """Whether closing the socket resets the connection."""
        return self._resets

    def close(self) -> None:
        if not self.broken:
            self.down.end()


class BioSocket(SimulatedSocket):
    """A simulated socket below OpenSSL, with the methods of ``ssl.SSLSocket`` that TlsStream uses.

    Args:
        dice: random number generator for the sizes of reads and writes.
        room: maximum number of bytes that are sent and not yet read by the client.
        changed: function that is called when the socket may have become readable or writable.
    """

    def __init__(self, dice: Dice, room: int, changed: Callable[[], None]) -> None:
        super().__init__(dice, room, changed)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = server_context().wrap_bio(self._in, self._out, server_side=True)
        self._more = False  # OpenSSL may have a further record

    @property
    def readable(self) -> bool:
        return self._more or super().readable

    def recv(self, size: int, flags: int = 0) -> bytes:
        has_input = self._more
        while True:
            if not has_input:  # OpenSSL would only raise SSLWantReadError
                try:
                    raw = SimulatedSocket.recv(self, RAW)
                except BlockingIOError:
                    raise ssl.SSLWantReadError from None
                self._in.write(raw) if raw else self._in.write_eof()
            try:
                data: bytes = self._tls.read(size)
            except ssl.SSLWantReadError:
                self._more = has_input = False
                self._flush()
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                raise
            except ssl.SSLError as error:
                raise Broken("I40", f"the broker received an invalid TLS record: {error}") from error
            else:
                self._more = bool(self._tls.pending() or self._in.pending)
                return data

    def send(self, data: Any, flags: int = 0) -> int:
        if not self.writable:
            raise ssl.SSLWantWriteError
        sent = self._tls.write(data[: self._part(min(len(data), RECORD))])
        self._flush()
        return sent

    def _flush(self) -> None:
        """Pass the records of OpenSSL to the network."""
        if data := self._out.read():
            self._send(data)

    def version(self) -> str | None:
        return self._tls.version()

    def unwrap(self) -> None:
        """Send the closing message of TLS."""
        try:
            self._tls.unwrap()
        except ssl.SSLWantReadError:
            self._flush()


class SimulatedTlsSocket(TlsStream, BioSocket):  # type: ignore[misc]
    """The broker's TLS socket of a simulated connection.

    The connection is not secure, because neither side is authenticated.
    """


class SimulatedTls:
    """The TLS context of a simulated listener."""

    def wrap_socket(self, sock: SimulatedSocket, **_: Any) -> SimulatedTlsSocket:
        """Return the TLS socket that replaces ``sock``, the plain socket of a new connection."""
        wrapped = SimulatedTlsSocket(sock._dice, sock._room, sock.changed)
        wrapped.down = sock.down
        return wrapped


class ClientTls:
    """The client's TLS over memory BIOs, with the first message of its handshake.

    Attributes:
        incoming: bytes from the broker.
        outgoing: bytes to send to the broker.
        tls: the TLS object between the two.
        hello: the bytes of the ClientHello.
    """

    def __init__(self) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client_context().wrap_bio(self.incoming, self.outgoing)
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        self.hello = self.outgoing.read()


@cache
def server_context() -> ssl.SSLContext:
    """Return the TLS context of the brokers."""
    return _anonymous(ssl.PROTOCOL_TLS_SERVER)


@cache
def client_context() -> ssl.SSLContext:
    """Return the TLS context of the clients."""
    return _anonymous(ssl.PROTOCOL_TLS_CLIENT)


def _anonymous(protocol: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # 1.3 has no key exchange without certificates
    context.options |= ssl.OP_NO_TICKET
    context.set_ciphers(CIPHER)
    return context
