"""The TLS handshakes of a case: changed records, or another certificate."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from mockbroker.api.certificates import Certificates
from mockbroker.lab.torture.case import Case
from mockbroker.net.tls import TlsContext, TlsSocket


class HostileHandshakes:
    """The TLS handshakes of a cluster, which are changed until ``on`` is False.

    Args:
        case: case with ``flight`` or ``certificate``.
        seed: seed of the random numbers.
        certificates: generated certificates of a cluster with one listener; the ``wrap_socket`` of the listener's TLS
            context is replaced.

    Attributes:
        on: whether handshakes are changed.
        changed: number of handshakes that were changed.
    """

    def __init__(self, case: Case, seed: int, certificates: Certificates) -> None:
        (tls,) = certificates.in_use
        assert certificates.generated is not None
        self.on = True
        self.changed = 0
        self._flight = case.flight
        self._random = Random(seed)  # noqa: S311 - not for secrets
        self._context = tls.context
        self._wrap = tls.context.wrap_socket
        if case.certificate is not None:
            self._context = TlsContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.sslsocket_class = TlsSocket
            case.certificate(certificates.generated.authority).configure_cert(self._context)
        tls.context.wrap_socket = self._wrapped  # type: ignore[method-assign, assignment]

    def _wrapped(self, sock: socket.socket, **options: Any) -> socket.socket:
        if not self.on:
            return self._wrap(sock, **options)
        self.changed += 1
        if self._flight is None:
            return self._context.wrap_socket(sock, **options)
        return FlightSocket(sock, self._context, partial(self._changed_flight, self._flight))

    def _changed_flight(self, change: Callable[[bytes, Random], bytes], flight: bytes) -> bytes:
        return change(flight, self._random)


class FlightSocket(socket.socket):
    """A non-blocking socket that answers the ClientHello of a client with changed TLS records, and then sends nothing
    more.

    Args:
        sock: socket of the connection. Its file descriptor moves to the new object, and ``sock`` cannot be used
            afterwards.
        context: TLS context of the unchanged handshake.
        change: function that gets the TLS records of the unchanged handshake and returns the bytes to send instead.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, change: Callable[[bytes], bytes]) -> None:
        super().__init__(sock.family, sock.type, sock.proto, fileno=sock.detach())
        self.setblocking(False)
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sent, server_side=True)
        self._change: Callable[[bytes], bytes] | None = change

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """Receive bytes of the client's handshake. After the ClientHello is complete, send the changed TLS records.

        Args:
            bufsize: maximum number of bytes to receive.
            flags: flags of ``socket.recv``.

        Returns: always b"", when the client has closed the connection.

        Raises: BlockingIOError while the connection is open, because no data of the application arrives.
        """
        data = super().recv(bufsize, flags)
        if not data:
            return data
        if self._change is not None:
            self._received.write(data)
            with suppress(ssl.SSLError):  # it needs more bytes, or the client does not use TLS
                self._tls.do_handshake()
            if flight := self._sent.read():
                changed, self._change = self._change(flight), None
                self.send(changed)
        raise BlockingIOError
