"""The open connections of clients: snapshots of them, and the choice of those to close."""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.base.errors import NotFoundError
from mockbroker.net.in_process import BrokerEnd
from mockbroker.net.pump import Pump
from mockbroker.net.sockets import SocketConnection


class UnknownConnectionError(NotFoundError):
    """No connection with this number is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSnapshot:
    """An open connection of a client at one moment.

    Attributes:
        connection_id: Number of the connection, unique in the cluster.
        client_id: The ``client.id`` of the last request; "" before the first one.
        address: ``host:port`` of the client; ``in-process client N`` for a connection of ``Cluster.connect``.
        listener: Name of the listener.
        broker: Id of the broker.
        principal: ``User:NAME`` after SASL authentication, else ``User:ANONYMOUS``.
        requests: Number of requests that have arrived.
        since_ms: When the connection was accepted, in milliseconds since 1970, of the system's clock.
    """

    connection_id: int
    client_id: str
    address: str
    listener: str
    broker: int
    principal: str
    requests: int
    since_ms: int


def snapshots(pump: Pump) -> dict[int, ConnectionSnapshot]:
    """Return a snapshot of every open connection, by number."""
    return {
        number: ConnectionSnapshot(
            connection_id=number,
            client_id=connection.requests.client.client_id,
            address=connection.peer,
            listener=connection.requests.client.listener,
            broker=connection.requests.node,
            principal=connection.requests.principal,
            requests=connection.requests.taken,
            since_ms=round(connection.since * 1000),
        )
        for number, connection in pump.connections.items()
        if isinstance(connection, SocketConnection | BrokerEnd)
    }


def select(pump: Pump, connection_id: int | None, client_id: str | None) -> list[int]:
    """Return the numbers of the connections to close: the one with the number, or all whose client id matches.

    Args:
        pump: The pump, which has the connections.
        connection_id: Number of a connection, or None.
        client_id: Glob of client ids, or None.

    Raises:
        UnknownConnectionError: No connection with this number is open.
        ValueError: Neither or both are given, or the glob is invalid.
    """
    existing = snapshots(pump)
    match connection_id, client_id:
        case int(), None:
            if connection_id not in existing:
                raise UnknownConnectionError(
                    f"connection {connection_id} is not open: connections() lists those that are"
                )
            return [connection_id]
        case None, str():
            from mockbroker.faults.globs import compile_glob  # on demand: few tests disconnect clients by their ids

            matches = compile_glob(client_id)
            return [number for number, each in existing.items() if matches(each.client_id)]
        case _:
            raise ValueError("disconnect needs either a connection id or client_id=, a glob of client ids")
