"""The opening of a cluster's listeners, and the addresses that its brokers advertise."""

from __future__ import annotations

from collections.abc import Iterable
from socket import socket

from mockbroker.api.certificates import Certificates
from mockbroker.api.plan import Plan
from mockbroker.base.settings import SettingsError
from mockbroker.net.addresses import Addresses
from mockbroker.net.bound_listeners import BoundListener, listen
from mockbroker.net.listeners import LAST_PORT, check_ports, port_for
from mockbroker.security.listener_sasl import listener_sasl
from mockbroker.topics.model import Node


class PortInUseError(OSError):
    """The error for a listener that cannot be bound.

    The message contains the reason, and what to change or to stop.
    """


def open_listeners(
    plan: Plan, host: str, port: int, first_node: int, tls: Certificates, addresses: Addresses
) -> list[BoundListener]:
    """Bind every listener of every broker, and return the bound listeners.

    Args:
        plan: The settings and listeners of the cluster.
        host: Address to bind to.
        port: Port of the first broker's first listener; 0 picks free ports.
        first_node: Id of the first broker.
        tls: Certificates for the listeners with TLS.
        addresses: The addresses to advertise. The certificates contain their host names.

    Raises: SettingsError, PortInUseError; the listeners bound so far are closed first.
    """
    check_ports(plan.listeners, port, plan.brokers, first_node)
    settings, bound = plan.settings, list[BoundListener]()
    try:
        for number in range(plan.brokers):
            for listener in plan.listeners:
                if listener.host not in ("", host):
                    raise SettingsError(
                        f"listeners: host {listener.host} differs from {host}, to which all listeners bind: "
                        f"remove it from listeners, or use --host {listener.host} (in Python host=)"
                    )
                context = tls.get(settings, listener.name, addresses).context if listener.tls else None
                listener_port = port_for(plan.listeners, listener.name, port, plan.brokers, number)
                sock = _listen(host, listener_port)
                sasl = listener_sasl(settings, listener.name) if listener.sasl else None
                bound.append(BoundListener(first_node + number, sock, listener.name, context, sasl))
    except (SettingsError, PortInUseError):
        close_all(bound)
        raise
    return bound


def close_all(bound: Iterable[BoundListener]) -> None:
    """Close the sockets of bound listeners."""
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
            "choose another port (--port or port=; 0 picks a free one) or another address (--host or host=)"
        ) from error


def nodes_at(addresses: Addresses, bound: Iterable[BoundListener]) -> list[Node]:
    """Return one Node per broker that owns a bound listener, with the addresses that the broker advertises."""
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
