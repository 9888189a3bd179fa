"""A connection to a broker on which a test sends frames, for requests that no client would send."""

from __future__ import annotations

from plain_client import RawConnection

from mockbroker import Cluster


class Connection(RawConnection):
    """A connection to broker ``node``, with one request at a time."""

    def __init__(self, cluster: Cluster, node: int = 0) -> None:
        where = cluster.nodes[node]
        super().__init__(f"{where.host}:{where.port}", client_id="raw")
