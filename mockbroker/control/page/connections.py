"""The connections in the document of the live page."""

from __future__ import annotations

from itertools import islice
from typing import Any, TypeAlias

from mockbroker.control.control import Control
from mockbroker.control.page.collection import SLICE, Collection, Slices
from mockbroker.control.resources.connections import connection_json

CONNECTIONS = 1_000  # maximum number, the oldest
_Seen: TypeAlias = tuple[Any, ...]


class Connections(Collection):
    """The connections of Kafka clients in the document of the live page.

    A refresh describes only connections that have changed since the last refresh. ``control``: the state of the control
    API.
    """

    def __init__(self, control: Control) -> None:
        super().__init__()
        self._control = control
        self._seen: dict[str, _Seen] = {}

    def refresh(self, left_out: dict[str, int]) -> Slices:
        """Update the collection from the open connections; yield after some connections, so that other tasks can run.

        ``left_out``: dictionary in which the method sets the entry ``connections``: how many connections the page does
        not show.
        """
        self.begin()
        everything = self._control.cluster.open_connections()
        seen: dict[str, _Seen] = {}
        for number, connection in enumerate(islice(everything, CONNECTIONS), 1):
            key = str(connection.number)
            seen[key] = now = connection.state
            if self._seen.get(key) != now:
                self.put(key, connection_json(connection.snapshot()))
            if number % SLICE == 0:
                yield
        self.keep(seen)
        self._seen = seen
        left_out["connections"] = max(len(everything) - CONNECTIONS, 0)
