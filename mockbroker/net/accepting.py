"""Admission of new connections: a connection that exceeds a limit of its broker is delayed or closed."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from itertools import count
from math import isnan

import trio

from mockbroker.base.timers import ConnectionDue
from mockbroker.broker.router import Router
from mockbroker.net.bound_listeners import CLOSED, BoundListener
from mockbroker.net.connection_limits import connection_limits
from mockbroker.quotas.client_quotas import CONNECTION
from mockbroker.quotas.connection_quotas import ConnectionLimits, ConnectionQuotas
from mockbroker.quotas.entity import DEFAULT, Entity

log = logging.getLogger("mockbroker")

ROUNDING = 1e-6  # seconds; maximum rounding error of a deadline
MAX_DELAYED = 1_000  # connections that wait to be closed; beyond that they are closed at once


class Gate:
    """The admission of new connections to the brokers: ``admit`` delays or closes a connection that exceeds a limit.

    Args:
        router: The router. The settings of its broker contain the limits, such as ``max.connections``.
        listeners: Function that returns the names of the listeners that each broker has.
        now: Function that returns the broker time in seconds.
        reschedule: Function that makes the broker's timer read its next deadline again. The gate calls it after it has
            added a deadline.

    Attributes:
        waiting: Number of new connections that ``admit`` delays now.
    """

    def __init__(
        self,
        router: Router,
        listeners: Callable[[], frozenset[str]],
        now: Callable[[], float],
        reschedule: Callable[[], None],
    ) -> None:
        self._router = router
        self._listeners = listeners
        self._now = now
        self._reschedule = reschedule
        self._quotas: dict[int, ConnectionQuotas] = {}
        self._changed = trio.Event()
        self.waiting = 0
        self._numbers = count(1)
        self._delayed: dict[ConnectionDue, socket.socket] = {}

    def restart(self) -> None:
        """Discard the limits and counters of the old broker; use the limits of the router's new broker. Close rejected
        sockets, and make delayed connections check the new limits.

        The caller must have closed all connections.
        """
        self._quotas.clear()
        self.close()
        self.wake()

    def close(self) -> None:
        """Close the sockets of rejected connections at once, although the delay before their close has not ended."""
        for sock in self._delayed.values():
            sock.close()
        self._delayed.clear()

    def wake(self) -> None:
        """Make all connections that ``admit`` delays check the limits again.

        The caller uses this method after a limit has changed or a connection was closed.
        """
        self._changed.set()
        self._changed = trio.Event()

    def quotas(self, node: int) -> ConnectionQuotas:
        """Return the limits and counters of a broker's connections. ``node``: broker id."""
        known = self._quotas.get(node)
        if known is None:
            known = self._quotas[node] = ConnectionQuotas(self._limits(node), self._listeners(), self._ip_limit)
        return known

    def _limits(self, node: int) -> ConnectionLimits:
        return connection_limits(self._router.broker.settings_of(node))

    def opened(self, node: int, listener: str, address: str) -> None:
        """Add an admitted connection to the counters.

        Args:
            node: id of the broker that admitted the connection.
            listener: name of the listener that accepted the connection.
            address: IP address of the client.
        """
        self.quotas(node).opened(listener, address)

    def closed(self, node: int, listener: str, address: str) -> None:
        """Remove a closed connection from the counters, and make the delayed connections check the limits again.

        Args:
            node: Id of the broker that the client was connected to.
            listener: Name of the listener that accepted the connection.
            address: IP address of the client.
        """
        self.quotas(node).closed(listener, address)
        self.wake()

    async def admit(self, listener: BoundListener, sock: socket.socket, address: Sequence[object]) -> bool:
        """Delay a new connection as long as the limits require; return True if the connection may be served.

        If the result is False, the socket is closed already, or will be closed at the end of the throttle time of the
        client's IP address.

        Args:
            listener: the listener that has accepted the connection.
            sock: the socket of the connection.
            address: address of the client, as ``accept`` returns it.
        """
        try:
            await self._wait(listener)
        except BaseException:  # the server ends
            sock.close()
            raise
        if listener.sock.fileno() == CLOSED:
            sock.close()
            return False
        quotas, host, now = self.quotas(listener.node), str(address[0]), self._now()
        if delay := quotas.close_time(host, now):
            self._close_at(sock, now + delay)
            return False
        if not quotas.has_place_for(host):
            most = quotas.limits.overrides.get(host, quotas.limits.per_ip)
            log.warning("connection from %s closed: the limit max.connections.per.ip of %d is reached", host, most)
            sock.close()
            return False
        return True

    async def _wait(self, listener: BoundListener) -> None:
        """Wait until a new connection is not throttled, and its broker and listener have room for it. Return early if
        the listener is closed.

        ``listener``: the listener that has accepted the connection.
        """
        now, quotas = self._now(), self.quotas(listener.node)
        quotas.limits = self._limits(listener.node)  # AlterConfigs may have changed them
        until = now + quotas.wait_time(listener.name, now)
        due = ConnectionDue(next(self._numbers), lambda _: self.wake())
        while listener.sock.fileno() != CLOSED:
            is_throttled = self._now() < until - ROUNDING
            if not is_throttled and self.quotas(listener.node).has_place(listener.name):
                return
            if is_throttled:
                self._router.broker.deadlines.set(due, until)
                self._reschedule()
            self.waiting += 1
            try:
                await self._changed.wait()
            finally:
                self.waiting -= 1
            self.quotas(listener.node).limits = self._limits(listener.node)

    def _ip_limit(self, address: str) -> float | None:
        """Return the quota of new connections per second of an IP address; None without a quota.

        A quota of NaN is 0, as in Kafka, which converts it to an integer. ``address``: IP address of the client.
        """
        quotas = self._router.broker.quotas.quotas
        if not quotas:
            return None
        of_address = quotas.get(Entity(ip=address), {}).get(CONNECTION)
        limit = quotas.get(Entity(ip=DEFAULT), {}).get(CONNECTION) if of_address is None else of_address
        return 0.0 if limit is not None and isnan(limit) else limit

    def _close_at(self, sock: socket.socket, at: float) -> None:
        """Close a socket at a later broker time, without reading from the socket.

        If MAX_DELAYED sockets already wait to be closed, close this socket now.

        Args:
            sock: The socket of the connection.
            at: The broker time in seconds at which the socket is closed.
        """
        if len(self._delayed) >= MAX_DELAYED:
            sock.close()
            return
        number = next(self._numbers)
        due = ConnectionDue(number, lambda _: self._delayed.pop(ConnectionDue(number)).close())
        self._delayed[due] = sock
        self._router.broker.deadlines.set(due, at)
        self._reschedule()
