"""The connections of the producer of a recording: blocking sockets, with TLS and SASL as in the proxy's own."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

from kwire.client_properties import Credentials
from kwire.errors import RemoteProtocolError
from kwire.frames import PREFIX, pack
from kwire.limits import MAX_FRAME
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.login import LoginError, login
from mockbroker.proxy.upstream import CLOSED_DURING_LOGIN, LOGIN_RESPONSE, Upstream, read_token

CONNECT_TIMEOUT = 5.0  # seconds; also for each response of the login
REQUEST_TIMEOUT = 10.0  # seconds until a connection without progress is closed
TLS_ALERT = 0x15  # first byte of the alert with which a listener with TLS answers other bytes
MAX_BUFFERS = 512  # buffers of one call of sendmsg; Linux permits 1,024


class BrokerConnection:
    """A connection to a broker.

    Args:
        address: address of the broker.
        cluster: the cluster, with TLS and credentials.

    Raises: OSError if the broker cannot be reached, or does not accept the login.
    """

    def __init__(self, address: Address, cluster: Upstream) -> None:
        self._socket = _connected(address)
        try:
            if cluster.tls is not None:
                self._socket = cluster.tls.wrap_socket(self._socket, server_hostname=address.host)
            if cluster.credentials is not None:
                self._log_in(address, cluster.credentials)
            self._socket.settimeout(REQUEST_TIMEOUT)
        except BaseException:
            self._socket.close()
            raise

    def exchange(self, buffers: Sequence[bytes], most: int = MAX_FRAME) -> bytes:
        """Send a request, and return the response without its length prefix.

        Args:
            buffers: the request, with its length prefix.
            most: maximum number of bytes of the response.

        Raises: OSError if the connection fails or is closed; RemoteProtocolError if the size of the response is wrong.
        """
        _send(self._socket, buffers)
        (size,) = PREFIX.unpack(self._received(PREFIX.size))
        if size >> 24 == TLS_ALERT:
            raise RemoteProtocolError("the broker sent a TLS alert: its listener uses TLS")
        if not 0 <= size <= most:
            raise RemoteProtocolError(f"the broker sent a frame of {size} bytes")
        return self._received(size)

    def shut_down(self) -> None:
        """End a call of ``exchange`` in another thread with an error.

        The method of the plain socket is called also with TLS: that of the encrypted socket would change the state
        that the other thread uses.

        Raises: OSError if the connection has already ended.
        """
        socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _log_in(self, address: Address, credentials: Credentials) -> None:
        try:
            steps = login(credentials, read_token(credentials.token_file))
            request = next(steps)
            while True:
                try:
                    response = self.exchange([pack(request)], LOGIN_RESPONSE)
                except ConnectionResetError as error:
                    raise LoginError(CLOSED_DURING_LOGIN) from error
                request = steps.send(response)
        except StopIteration:
            return
        except (LoginError, RemoteProtocolError) as error:
            raise ConnectionRefusedError(f"cannot log in to the cluster at {address}: {error}") from error

    def _received(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionResetError("the broker has closed the connection")
            data += more
        return bytes(data)


def _connected(address: Address) -> socket.socket:
    """Return a connection to a broker."""
    try:
        connected = socket.create_connection(address, CONNECT_TIMEOUT)
    except UnicodeError as error:
        raise OSError(f"{address.host} is not a valid host name") from error
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _send(sock: socket.socket, buffers: Sequence[bytes]) -> None:
    if isinstance(sock, ssl.SSLSocket) or not hasattr(sock, "sendmsg"):  # on Windows
        sock.sendall(b"".join(buffers))
        return
    rest = [memoryview(each) for each in buffers]
    while rest:
        sent = sock.sendmsg(rest[:MAX_BUFFERS])
        while rest and sent >= len(rest[0]):
            sent -= len(rest.pop(0))
        if sent:
            rest[0] = rest[0][sent:]
