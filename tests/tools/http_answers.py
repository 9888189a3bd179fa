"""A server with a fixed response, in place of the control API."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread


@contextmanager
def answering(*parts: bytes) -> Iterator[str]:
    """Run a server that sends these bytes on one connection and closes it; yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                for part in parts:
                    connection.sendall(part)

        thread = Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def json_response(status: str, body: bytes) -> bytes:
    """Return the bytes of a response with a body."""
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)
