"""Addresses that clients are sent to: those that are set, or one of this machine that can be reached from outside."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from mockbroker.base.settings import Settings
from mockbroker.net.listeners import Advertised, Listener, advertised

LOOPBACK = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - of all addresses, the one that is there
OUTSIDE = {
    "127.0.0.1": (socket.AF_INET, "192.0.2.1"),
    "::1": (socket.AF_INET6, "2001:db8::1"),
}  # for documents (RFC 5737)
DISCARD = 9  # a port; nothing is sent to it


class Addresses:
    """Where clients reach the listeners of a cluster that is bound to ``host``. Raises: SettingsError."""

    def __init__(self, settings: Settings, listeners: Iterable[Listener], host: str) -> None:
        self._advertised: Mapping[str, Advertised] = advertised(settings, listeners)
        self._host = reachable(host)

    def of(self, listener: str, number: int, port: int) -> tuple[str, int]:
        """Host and port of a listener of broker ``number`` (from 0), which is bound to ``port``."""
        known = self._advertised.get(listener, Advertised("", 0))
        return known.host or self._host, known.port + number if known.port else port

    @property
    def names(self) -> frozenset[str]:
        """Every host that clients are sent to."""
        return frozenset({self._host, *(known.host for known in self._advertised.values() if known.host)})


def reachable(host: str) -> str:
    """What a client connects to where a broker is bound to ``host``, which may be all addresses of this machine.

    Then it is the one that the system would send from to another network; on a machine without a network, loopback.
    """
    loopback = LOOPBACK.get(host)
    if loopback is None:
        return host
    family, outside = OUTSIDE[loopback]
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((outside, DISCARD))  # of datagrams: only looks up the way
            found: str = sock.getsockname()[0]
    except OSError:
        return loopback
    return found


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what is bound to a host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
