"""Listeners of a cluster: bound at their ports, and the addresses that its brokers advertise."""

from __future__ import annotations

from collections.abc import Iterable
from socket import socket

from mockbroker.api.certificates import Certificates
from mockbroker.api.plan import Plan
from mockbroker.base.settings import SettingsError
from mockbroker.net.addresses import Addresses
from mockbroker.net.bound_listeners import BoundListener, listen
from mockbroker.net.listeners import LAST_PORT, port_for
from mockbroker.topics.model import Node


class PortInUseError(OSError):
    """A listener that cannot be bound. The message names the port, and how to choose another."""


def open_listeners(
    plan: Plan, host: str, port: int, first_node: int, tls: Certificates, addresses: Addresses
) -> list[BoundListener]:
    """Return every listener of every broker, bound. Raises: SettingsError, PortInUseError; then none is open."""
    settings, opened = plan.settings, list[BoundListener]()
    try:
        for number in range(plan.brokers):
            for listener in plan.listeners:
                if listener.host not in ("", host):
                    raise SettingsError(
                        f"listeners: host {listener.host} is not supported; every listener binds to --host ({host})"
                    )
                context = tls.get(settings, addresses).context if listener.tls else None
                wanted = port_for(plan.listeners, listener.name, port, plan.brokers, number)
                sock = _listen(host, wanted)
                opened.append(BoundListener(first_node + number, sock, listener.name, context, listener.sasl))
    except (SettingsError, PortInUseError):
        close_all(opened)
        raise
    return opened


def close_all(bound: Iterable[BoundListener]) -> None:
    """Close the sockets of listeners."""
    for each in bound:
        each.sock.close()


def _listen(host: str, port: int) -> socket:
    if port > LAST_PORT:
        raise SettingsError(f"listeners: port {port} is out of range (0-{LAST_PORT})")
    try:
        return listen(host, port)
    except OSError as error:
        raise PortInUseError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; "
            "choose another with --port (0 picks a free one) or --host"
        ) from error


def nodes_at(addresses: Addresses, bound: Iterable[BoundListener]) -> list[Node]:
    """Return the brokers of bound listeners, with the addresses that they advertise."""
    places_of: dict[int, dict[str, tuple[str, int]]] = {}
    for each in bound:
        number = len(places_of) - (each.node in places_of)
        places_of.setdefault(each.node, {})[each.name] = addresses.of(each.name, number, each.sock.getsockname()[1])
    nodes = []
    for node_id, places in places_of.items():
        hosts = {name: host for name, (host, _) in places.items()}
        ports = {name: port for name, (_, port) in places.items()}
        nodes.append(Node(node_id, next(iter(hosts.values())), next(iter(ports.values())), ports, hosts))
    return nodes
