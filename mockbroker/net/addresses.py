"""The addresses that brokers advertise: those in ``advertised.listeners``, or a reachable address of this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping

from mockbroker.base.settings import Settings
from mockbroker.net.listeners import Advertised, Listener, advertised

LOOPBACK = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - wildcard host: its loopback address
OTHER_NETWORK = {  # loopback address: family, and an address reserved for documentation (RFC 5737, RFC 3849)
    "127.0.0.1": (socket.AF_INET, "192.0.2.1"),
    "::1": (socket.AF_INET6, "2001:db8::1"),
}
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
DISCARD = 9  # the discard port; nothing is sent to it


class Addresses:
    """The addresses that the brokers of a cluster advertise to clients.

    Args:
        settings: The broker configuration with ``advertised.listeners``.
        listeners: The listeners that each broker of the cluster has.
        host: Host that the sockets are bound to. It is advertised for a listener without an advertised host.

    Raises:
        SettingsError: ``advertised.listeners`` is invalid.
    """

    def __init__(self, settings: Settings, listeners: Iterable[Listener], host: str) -> None:
        self._advertised: Mapping[str, Advertised] = advertised(settings, listeners)
        self._host = reachable(host)

    def of(self, listener: str, number: int, port: int) -> tuple[str, int]:
        """Return the advertised host and port of a listener of one broker.

        Args:
            listener: Name of the listener.
            number: Index of the broker, from 0.
            port: Port that the listener is bound to.
        """
        setting = self._advertised.get(listener, Advertised("", 0))
        return setting.host or self._host, setting.port + number if setting.port else port

    @property
    def names(self) -> frozenset[str]:
        """The hosts that are advertised for at least one listener; a generated certificate must contain all of them."""
        return frozenset({self._host, *(each.host for each in self._advertised.values() if each.host)})


def reachable(host: str) -> str:
    """Return an address at which clients reach a listener that is bound to ``host``.

    The result is ``host`` itself, except for a wildcard (0.0.0.0, ::). For a wildcard the result is the address of this
    machine from which it would connect to another network; without a network, it is the loopback address.
    """
    loopback = LOOPBACK.get(host)
    if loopback is None:
        return host
    family, remote = OTHER_NETWORK[loopback]
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((remote, DISCARD))  # a datagram socket: only looks up the route
            address: str = sock.getsockname()[0]
    except OSError:
        return loopback
    return address


def is_loopback(host: str) -> bool:
    """Return whether a listener bound to ``host`` can be reached from this machine only."""
    if host in LOOPBACK_HOSTS:
        return True
    from ipaddress import ip_address  # on demand: the default host does not need it

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
