"""Snapshots of the open connections of clients, and the choice of the connections that ``disconnect`` closes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kwire.lazy_dataclass import dataclass
from mockbroker.base.errors import NotFoundError
from mockbroker.base.texts import listed
from mockbroker.net.in_process import BrokerEnd
from mockbroker.net.pump import Pump
from mockbroker.net.sockets import SocketConnection


class UnknownConnectionError(NotFoundError):
    """The error for a connection number that no open connection has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSnapshot:
    """An open connection of a client at one moment.

    Attributes:
        connection_id: Number of the connection, unique in the cluster.
        client_id: The ``client.id`` of the last request; "" before the first one.
        address: ``host:port`` of the client; ``in-process client N`` for a connection of ``Cluster.connect``.
        listener: Name of the listener.
        broker: Id of the broker.
        principal: ``User:NAME`` after SASL authentication or of a client certificate, else ``User:ANONYMOUS``.
        requests: Number of requests that have arrived.
        since_ms: Time at which the connection was accepted, in milliseconds since 1970, by the system's clock.
    """

    connection_id: int
    client_id: str
    address: str
    listener: str
    broker: int
    principal: str
    requests: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class OpenConnection:
    """An open connection, and values that show whether a new snapshot would differ from the previous snapshot.

    Attributes:
        number: number of the connection.
        state: values of the snapshot that can change, such as the number of requests. The snapshot changes only if one
            of these values changes.
        snapshot: function that returns the snapshot.
    """

    number: int
    state: tuple[object, ...]
    snapshot: Callable[[], ConnectionSnapshot]


def open_connections(pump: Pump) -> list[OpenConnection]:
    """Return every open connection, oldest first. ``pump``: the pump that owns the connections."""
    return [
        OpenConnection(
            number,
            (each.requests.client.client_id, each.requests.principal, each.requests.taken),
            partial(snapshot, each),
        )
        for number, each in pump.connections.items()
        if isinstance(each, SocketConnection | BrokerEnd)
    ]


def snapshots(pump: Pump) -> dict[int, ConnectionSnapshot]:
    """Return a snapshot of every open connection, by its number. ``pump``: the pump that owns the connections."""
    return {
        number: snapshot(connection)
        for number, connection in pump.connections.items()
        if isinstance(connection, SocketConnection | BrokerEnd)
    }


def snapshot(connection: SocketConnection | BrokerEnd) -> ConnectionSnapshot:
    """Return a snapshot of an open connection."""
    return ConnectionSnapshot(
        connection_id=connection.number,
        client_id=connection.requests.client.client_id,
        address=connection.peer,
        listener=connection.requests.client.listener,
        broker=connection.requests.node,
        principal=connection.requests.principal,
        requests=connection.requests.taken,
        since_ms=round(connection.since * 1000),
    )


def select(pump: Pump, connection_id: int | None, client_id: str | None) -> list[int]:
    """Return the numbers of the connections that ``disconnect`` closes.

    Args:
        pump: The owner of the connections.
        connection_id: Number of a connection; None to select connections by ``client_id``.
        client_id: Client id, with the wildcards ``*`` and ``?``; None to select a connection by ``connection_id``.

    Raises:
        UnknownConnectionError: No connection with this number is open.
        ValueError: Both arguments or none of them are given, or the wildcards are not valid.
    """
    return selected(snapshots(pump), connection_id, client_id)


def selected(existing: Mapping[int, ConnectionSnapshot], connection_id: int | None, client_id: str | None) -> list[int]:
    """Return the numbers of the connections that ``disconnect`` closes.

    Args:
        existing: The open connections, by number.
        connection_id: Number of a connection; None to select connections by ``client_id``.
        client_id: Client id, with the wildcards ``*`` and ``?``; None to select a connection by ``connection_id``.

    Raises:
        UnknownConnectionError: No connection with this number is open.
        ValueError: Both arguments or none of them are given, or the wildcards are not valid.
    """
    match connection_id, client_id:
        case int(), None:
            if connection_id not in existing:
                raise UnknownConnectionError(
                    f"connection {connection_id} is not open; open connections: {listed(existing)}"
                )
            return [connection_id]
        case None, str():
            from mockbroker.faults.globs import compile_glob  # on demand: few tests disconnect clients by their ids

            matches = compile_glob(client_id)
            return [number for number, each in existing.items() if matches(each.client_id)]
        case _:
            raise ValueError(
                f"disconnect() got connection_id={connection_id!r} and client_id={client_id!r}: pass one of them; "
                "client_id may be a glob"
            )
