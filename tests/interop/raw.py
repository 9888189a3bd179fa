"""One connection to one broker, in frames: for what no client would send."""

from __future__ import annotations

import socket
from typing import Any

from interop.stage import LIMIT

from kwire import ClientSide
from mockbroker import Cluster


class Connection:
    """To broker ``node``. Asks one thing at a time."""

    def __init__(self, cluster: Cluster, node: int = 0) -> None:
        where = cluster.nodes[node]
        self._side = ClientSide("raw")
        self._socket = socket.create_connection((where.host, where.port), timeout=LIMIT)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: object, version: int) -> Any:
        """The answer's body."""
        self._socket.sendall(self._side.send(request, version))
        while (response := self._side.next_response()) is None:
            data = self._socket.recv(65_536)
            assert data, f"{type(request).__name__} v{version}: the broker closed the connection"
            self._side.receive(data)
        return response.body
